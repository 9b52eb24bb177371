/**
 * A keep-alive HTTP/1.1 connection that costs the load generator as little as Node's sockets allow: one request at a
 * time, the answer's head searched rather than parsed. Text is taken as Latin-1, which all compared servers' answers
 * are.
 *
 * It reads what the compared servers send (Content-Length, chunked, neither for 204 and 304) and nothing else.
 */
import { connect, type Socket } from 'node:net';

const HOST = '127.0.0.1';
const STATUS_AT = 'HTTP/1.1 '.length;
const STATUS_DIGITS = 3;
const END_OF_HEAD = '\r\n\r\n';
const NO_BODY = new Set([204, 304]);

export interface Answer {
  readonly status: number;
  readonly body: string;
}

interface Waiting {
  resolve(answer: Answer): void;
  reject(error: Error): void;
}

export class HttpConnection {
  readonly #socket: Socket;
  #received = '';
  #waiting: Waiting | undefined;

  private constructor(socket: Socket) {
    this.#socket = socket;
    socket.setNoDelay(true);
    socket.setEncoding('latin1');
    socket.on('data', (chunk: string) => this.#onData(chunk));
    socket.on('error', () => {}); // told by close
    socket.on('close', () => this.#fail('the server closed the connection'));
  }

  static open(port: number): Promise<HttpConnection> {
    return new Promise((resolve, reject) => {
      const socket = connect({ port, host: HOST });
      socket.once('error', reject);
      socket.once('connect', () => {
        socket.off('error', reject);
        resolve(new HttpConnection(socket));
      });
    });
  }

  /** @param request head and body as {@link requestText} makes them */
  send(request: string): Promise<Answer> {
    return new Promise((resolve, reject) => {
      if (this.#waiting !== undefined || this.#socket.destroyed)
        return reject(new Error('the connection is busy or closed'));
      this.#waiting = { resolve, reject };
      this.#socket.write(request, 'latin1');
    });
  }

  close(): void {
    this.#socket.destroy();
  }

  #onData(chunk: string): void {
    this.#received = this.#received === '' ? chunk : this.#received + chunk;
    const answer = parse(this.#received);
    if (answer === undefined) return;
    this.#received = '';
    const waiting = this.#waiting;
    this.#waiting = undefined;
    waiting?.resolve(answer);
  }

  #fail(why: string): void {
    const waiting = this.#waiting;
    this.#waiting = undefined;
    waiting?.reject(new Error(why));
  }
}

/** @param headers lines that end in CRLF each, made once per client */
export function requestText(method: string, path: string, headers: string, body?: string): string {
  const head = `${method} ${path} HTTP/1.1\r\nHost: ${HOST}\r\n${headers}`;
  return body === undefined
    ? `${head}\r\n`
    : `${head}Content-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;
}

/** Undefined while the answer is not complete. */
function parse(received: string): Answer | undefined {
  const end = received.indexOf(END_OF_HEAD);
  if (end === -1) return undefined;
  const status = Number(received.slice(STATUS_AT, STATUS_AT + STATUS_DIGITS));
  if (NO_BODY.has(status)) return { status, body: '' };
  const from = end + END_OF_HEAD.length;
  const length = /\r\ncontent-length: ?(\d+)/i.exec(received);
  if (length !== null && length.index < end) {
    const to = from + Number(length[1]);
    return received.length < to ? undefined : { status, body: received.slice(from, to) };
  }
  const body = unchunk(received, from);
  return body === undefined ? undefined : { status, body };
}

function unchunk(received: string, from: number): string | undefined {
  let body = '';
  for (let at = from; ;) {
    const lineEnd = received.indexOf('\r\n', at);
    if (lineEnd === -1) return undefined;
    const size = Number.parseInt(received.slice(at, lineEnd), 16);
    const to = lineEnd + 2 + size;
    if (Number.isNaN(size)) throw new Error(`not a chunk: ${received.slice(at, lineEnd)}`);
    if (received.length < to + 2) return undefined;
    if (size === 0) return body;
    body += received.slice(lineEnd + 2, to);
    at = to + 2;
  }
}
