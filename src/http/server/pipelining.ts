/**
 * Pipelined requests, which a client sends before it has the answer to the previous one: they start one after the
 * other, in order.
 *
 *   first of the connection ──────────────────────▶ begun ──answer ended──▶ the next in line is begun
 *   any other ──▶ waits for its turn ──▶ begun, or never: when the connection ends, or the answer before was its last
 *
 * So a connection costs one request at a time and one unread answer. Behind a wait or an event stream the others wait
 * until it is over.
 *
 * Two clocks run for a request that waits for its turn. Its deadline counts from its arrival: a client that vanished
 * silently may rely on it that nothing it sent starts after that. Everything else counts from its turn, as if it had
 * come when the previous answer went out: what it waits for, what a read has to show, its duration, the rate, overload.
 *
 * The connection is read on meanwhile, because its end is noticed only by reading. Requests sent ahead are therefore
 * bounded by closing the connection, and not by leaving them in the kernel. There is a bound per connection and one for
 * all together, of which nobody's connections have half, and so has each principal.
 */
import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Config } from '../../config.js';
import type { ByteShare, BytesAtOnce, BytesOfKind } from '../frame/bytes-at-once.js';
import { ownerOf, restConnection } from './bound-connections.js';

/**
 * Per connection, including the one being answered: more than any client sends ahead. Not a setting: all connections
 * together have one.
 */
const UNANSWERED_MAX = 64;
/** From the first waiting request to the last, as sent. */
const AHEAD_BYTES_MAX = 256 * 1024;
/** Node's overhead per request, beside its headers. */
const REQUEST_BYTES = 4 * 1024;
/** How much of a body is read before anybody asks for it: one read of the socket. */
const BODY_BYTES = 64 * 1024;
/** Bytes sent ahead over all connections, counted as above. */
export function aheadAtOnce({ maxBytesAhead: max }: Pick<Config, 'maxBytesAhead'>): BytesOfKind {
  // One request is free: the previous answer may have reached its client before this replica knows it.
  return { kind: 'ahead', limit: 'maxBytesAhead', max, uncounted: 2 * REQUEST_BYTES };
}

/** The owner of connections without a principal. */
const NOBODY = '';

const TURNS = Symbol('turns');
const HELD_MS = Symbol('held');
type ServedSocket = Socket & { [TURNS]?: Turns };
type ServedRequest = IncomingMessage & { [HELD_MS]?: number };

/**
 * @param ahead bounds what all connections may send ahead
 * @returns a listener that calls `serve` with one request of each connection at a time
 */
export function oneAtATime(serve: RequestListener, ahead: BytesAtOnce): RequestListener {
  return (request, response) => {
    const socket: ServedSocket = request.socket;
    // Data that was read before the socket was closed still arrives.
    if (!socket.destroyed) (socket[TURNS] ??= new Turns(socket, serve, ahead)).take(request, response);
  };
}

/** Whether no request of a connection is left to be answered. */
export function isIdle(socket: ServedSocket): boolean {
  return socket[TURNS]?.isIdle ?? true;
}

/** How long a request waited for its turn; 0 for most. */
export function heldMsOf(request: ServedRequest): number {
  return request[HELD_MS] ?? 0;
}

interface Waiting {
  readonly request: ServedRequest;
  readonly response: ServerResponse;
  /** Monotonic. */
  readonly since: number;
  /** Bytes that the connection had read by then. */
  readonly bytesRead: number;
  /** Approximate size in memory. */
  readonly bytes: number;
}

class Turns {
  isIdle = true;
  readonly #socket: Socket;
  readonly #serve: RequestListener;
  readonly #waiting: Waiting[] = [];
  readonly #ahead: BytesAtOnce;
  /** Size of the waiting requests. */
  #bytes = 0;
  #share: ByteShare | undefined;

  constructor(socket: Socket, serve: RequestListener, ahead: BytesAtOnce) {
    this.#socket = socket;
    this.#serve = serve;
    this.#ahead = ahead;
  }

  take(request: IncomingMessage, response: ServerResponse): void {
    if (this.isIdle) {
      this.#begin(request, response);
      return;
    }
    const { bytesRead } = this.#socket;
    const ahead = bytesRead - (this.#waiting[0]?.bytesRead ?? bytesRead);
    const bytes = bytesOf(request);
    if (this.#waiting.length + 1 >= UNANSWERED_MAX || ahead > AHEAD_BYTES_MAX || !this.#hasRoom(bytes)) {
      this.#socket.destroy();
      return;
    }
    this.#bytes += bytes;
    this.#waiting.push({ request, response, since: performance.now(), bytesRead, bytes });
  }

  #hasRoom(bytes: number): boolean {
    if (this.#share === undefined) {
      if (this.#bytes + bytes <= this.#ahead.uncounted) return true;
      this.#share = this.#ahead.open(ownerOf(this.#socket) ?? NOBODY, false);
      this.#socket.once('close', this.#forget);
    }
    return this.#share.grow(this.#bytes + bytes) === undefined;
  }

  readonly #forget = (): void => {
    this.#socket.off('close', this.#forget);
    this.#share?.close();
    this.#share = undefined;
  };

  #begin(request: IncomingMessage, response: ServerResponse): void {
    this.isIdle = false;
    response.on('close', this.#onClose);
    this.#serve(request, response);
  }

  readonly #onClose = (): void => {
    if (this.#waiting.length === 0) {
      this.isIdle = true;
      restConnection(this.#socket);
    }
    // Later in this turn of the event loop, once the previous request's resources are given back; other connections go
    // in between.
    else setImmediate(this.#beginNext);
  };

  readonly #beginNext = (): void => {
    const next = this.#waiting.shift();
    // The socket is gone, or the client was told that it has had its last answer.
    if (next === undefined || !this.#socket.writable) return;
    const { request, response, since, bytes } = next;
    this.#bytes -= bytes;
    this.#share?.set(this.#bytes);
    if (this.#bytes === 0) this.#forget();
    request[HELD_MS] = performance.now() - since;
    // Node stopped reading at a body for which there was no room. Data behind it may be old by now, and its client
    // gone.
    if (!request.complete && request.readableLength >= request.readableHighWaterMark) response.shouldKeepAlive = false;
    this.#begin(request, response);
  };
}

/** Size of its headers and of what is read of its body. */
function bytesOf({ url = '', rawHeaders, headers }: IncomingMessage): number {
  const body = headers['transfer-encoding'] === undefined ? Number(headers['content-length'] ?? 0) : BODY_BYTES;
  return rawHeaders.reduce((sum, text) => sum + text.length, url.length + REQUEST_BYTES + Math.min(body, BODY_BYTES));
}
