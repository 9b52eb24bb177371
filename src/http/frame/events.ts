/**
 * Server-sent events (WHATWG HTML, section 9.2): the frame's half of a stream.
 *
 *   open ──▶ the handler returns, or fails: event `problem`           ──▶ ended
 *     ├────▶ the credential allows it no more: event `problem`              ──▶ ended, signal aborted
 *     ├────▶ `maxMs` has passed, or the replica drains: event `reconnect` ──▶ ended, signal aborted
 *     ├────▶ the reader (or its principal) is too far behind: `too-slow` is tried ──▶ cut off, signal aborted
 *     └────▶ the client is gone                                           ──▶ signal aborted
 *
 * A comment goes out when there is nothing else to say, so that proxies keep the connection and a dead one is noticed.
 */
import type { ServerResponse } from 'node:http';
import { PosternError } from '../../errors.js';
import { jsonOf } from '../../json-text.js';
import { MINUTE, SECOND, type EndReason } from '../../time.js';
import { BROWSER_HEADERS } from './answer.js';
import type { ByteShare } from './bytes-at-once.js';
import type { EventSink, EventStream, ServerEvent, StreamEnd } from './exchange.js';

export interface StreamTuning {
  readonly commentEveryMs: number;
  /** How many bytes a reader may fall behind what the operating system has taken already. */
  readonly backlogBytesMax: number;
  /** How long a reader that was cut off has to read why. */
  readonly cutOffGraceMs: number;
}

export const STREAM_TUNING: StreamTuning = {
  commentEveryMs: 15 * SECOND,
  backlogBytesMax: 64 * 1024,
  cutOffGraceMs: SECOND,
};

/** Browsers open a stream again by themselves, after some seconds unless they are told when. */
const REFUSED_RETRY_MS = MINUTE;
/** Readers of a draining replica reconnect at random moments within this time, and not all at once. */
const RECONNECT_SPREAD_MS = 2 * SECOND;

export interface StreamOptions {
  readonly headers: Readonly<Record<string, string>>;
  /** The longest that a stream may last, and its duration if the client gives none. */
  readonly maxMs: number;
  readonly lastEventId: string | undefined;
  /** Aborted with an `EndReason`. */
  readonly signal: AbortSignal;
  readonly tuning: StreamTuning;
  /** Counts what is not written yet. */
  readonly backlog: ByteShare;
  /** Turns a failure of the handler into the data of the event `problem`: it is too late to change the status. */
  readonly explain: (error: unknown) => unknown;
  /** Data of the event `problem` for a reader whose credential no longer allows the stream. */
  readonly refusal: () => unknown;
}

/** Resolves when the stream has ended, its handler has returned, and all of it was written or never will be. */
export async function serveEvents(
  response: ServerResponse,
  stream: EventStream,
  options: StreamOptions,
): Promise<void> {
  response.writeHead(200, {
    'Content-Type': 'text/event-stream',
    'Cache-Control': 'no-store',
    ...BROWSER_HEADERS,
    'X-Accel-Buffering': 'no',
    ...options.headers,
  });
  if (response.req.method === 'HEAD') {
    response.end();
    return;
  }
  response.flushHeaders();
  const sink = new Sink(response, options);
  try {
    sink.openFor(Math.min(stream.maxMs ?? options.maxMs, options.maxMs));
    await stream.events(sink);
  } catch (error) {
    sink.send({ event: 'problem', data: options.explain(error), retryMs: retryMsOf(error) });
  } finally {
    sink.close();
  }
  // What its reader has not taken yet stays counted, as of any other answer.
  if (!response.closed) await new Promise<void>((resolve) => response.once('close', resolve));
}

class Sink implements EventSink {
  readonly lastEventId: string | undefined;
  readonly #response: ServerResponse;
  readonly #options: StreamOptions;
  readonly #controller = new AbortController();
  #comments: NodeJS.Timeout | undefined;
  #timeout: NodeJS.Timeout | undefined;
  readonly #onAbort = (): void => this.#end(this.#options.signal.reason as EndReason);

  constructor(response: ServerResponse, options: StreamOptions) {
    this.lastEventId = options.lastEventId;
    this.#response = response;
    this.#options = options;
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  openFor(ms: number): void {
    const { signal, tuning } = this.#options;
    if (signal.aborted) {
      this.#onAbort();
      return;
    }
    signal.addEventListener('abort', this.#onAbort);
    this.#timeout = setTimeout(() => this.#end('elapsed'), ms);
    this.#comments = setInterval(() => this.#write(': nothing new\n'), tuning.commentEveryMs);
  }

  send(event: ServerEvent): boolean {
    return this.#write(format(event));
  }

  caughtUp(): Promise<void> | undefined {
    if (!this.#response.writableNeedDrain) return undefined;
    return new Promise((resolve) => this.#response.once('drain', resolve));
  }

  /** Call it when the handler has returned. */
  close(): void {
    this.#stop();
    if (!this.signal.aborted) this.#response.end();
  }

  #write(text: string): boolean {
    if (this.signal.aborted) return false;
    const { tuning, backlog } = this.#options;
    const behind = this.#response.writableLength;
    if (behind > tuning.backlogBytesMax || backlog.grow(behind + text.length) !== undefined) {
      this.#cutOff();
      return false;
    }
    this.#response.write(text, () => backlog.set(this.#response.writableLength));
    return true;
  }

  #end(reason: StreamEnd): void {
    this.#stop();
    if (reason === 'refused') {
      this.#response.end(format({ event: 'problem', data: this.#options.refusal() }));
    } else if (reason !== 'client-gone') {
      const retryMs = reason === 'draining' ? Math.ceil(Math.random() * RECONNECT_SPREAD_MS) : undefined;
      this.#response.end(format({ event: 'reconnect', data: { reason }, retryMs }));
    }
    this.#controller.abort(reason);
  }

  /** The backlog takes memory of this process and grows with every event: a reader that does not read is cut off. */
  #cutOff(): void {
    this.#stop();
    const response = this.#response;
    response.end(format({ event: 'too-slow', data: { backlogBytes: response.writableLength } }));
    const { socket } = response.req;
    response.once('finish', () => socket.destroySoon());
    const grace = setTimeout(() => socket.destroy(), this.#options.tuning.cutOffGraceMs);
    socket.once('close', () => clearTimeout(grace));
    this.#controller.abort('client-gone' satisfies StreamEnd);
  }

  #stop(): void {
    clearTimeout(this.#timeout);
    clearInterval(this.#comments);
    this.#options.signal.removeEventListener('abort', this.#onAbort);
  }
}

function format({ event, data, id, retryMs }: ServerEvent): string {
  const retry = retryMs === undefined ? '' : `retry: ${retryMs}\n`;
  return `${retry}event: ${event}\n${id === undefined ? '' : `id: ${id}\n`}data: ${jsonOf(data)}\n\n`;
}

/** As `Retry-After` would say it; and what stays refused is asked for again seldom. */
function retryMsOf(error: unknown): number | undefined {
  if (!(error instanceof PosternError)) return undefined;
  return error.retryable ? error.retryAfterSeconds && error.retryAfterSeconds * SECOND : REFUSED_RETRY_MS;
}
