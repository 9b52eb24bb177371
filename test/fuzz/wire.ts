/**
 * HTTP/1.1 byte by byte: sends what no client library would, and reads the answer strictly. Connections are kept and
 * used again, as a request that leaves something behind on one shows in the next.
 */
import { connect, type Socket } from 'node:net';
import type { CheckedAnswer } from '../support/http/contract.js';
import { passed } from '../support/eventually.js';

export interface Sending {
  /** The answer to HEAD has no body, whatever its headers say. */
  isHead: boolean;
  /** Says that nothing more will come; for bytes that are perhaps no whole request. */
  halfClose?: boolean;
  /** Goes away after so many ms without having read anything. */
  leaveAfterMs?: number;
  /** How long an answer may take. */
  patienceMs: number;
}

export class Wire {
  readonly #address: { host: string; port: number };
  readonly #idle: Socket[] = [];
  /** Connections that are open now. */
  readonly #open = new Set<Socket>();

  constructor(url: string) {
    const { hostname, port } = new URL(url);
    this.#address = { host: hostname, port: Number(port) };
  }

  /**
   * The answer; undefined when the connection was closed, by us or in place of an answer.
   * @throws Error when what came is not HTTP, or nothing came in time
   */
  async send(bytes: Buffer, sending: Sending): Promise<CheckedAnswer | undefined> {
    const socket = this.#idle.pop() ?? (await this.#connect());
    if (sending.leaveAfterMs !== undefined) {
      socket.write(bytes);
      await passed(sending.leaveAfterMs);
      socket.destroy();
      return undefined;
    }
    const answer = await read(socket, bytes, sending);
    const mayStay =
      answer !== undefined &&
      !answer.untilClose &&
      sending.halfClose !== true &&
      answer.headers['connection'] !== 'close' &&
      !socket.destroyed;
    if (mayStay) this.#idle.push(socket);
    else socket.destroy();
    return answer;
  }

  /** Closes every connection. */
  close(): void {
    for (const socket of this.#open) socket.destroy();
    this.#idle.splice(0);
  }

  #connect(): Promise<Socket> {
    return new Promise((resolve, reject) => {
      const socket = connect({ ...this.#address, noDelay: true, allowHalfOpen: true });
      this.#open.add(socket);
      socket.once('close', () => {
        this.#open.delete(socket);
        const at = this.#idle.indexOf(socket);
        if (at !== -1) this.#idle.splice(at, 1);
      });
      socket.once('connect', () => {
        socket.off('error', reject);
        socket.on('error', () => undefined); // a reset is an end; what it means is decided where an answer is read
        resolve(socket);
      });
      socket.once('error', reject);
    });
  }
}

interface ReadAnswer extends CheckedAnswer {
  /** Its body ended with the connection. */
  untilClose: boolean;
}

function read(
  socket: Socket,
  bytes: Buffer,
  { isHead, halfClose, patienceMs }: Sending,
): Promise<ReadAnswer | undefined> {
  return new Promise((resolve, reject) => {
    let received = Buffer.alloc(0);
    const settle = (outcome: () => void): void => {
      clearTimeout(timer);
      socket.off('data', onData).off('end', onEnd).off('close', onEnd);
      outcome();
    };
    const look = (ended: boolean): void => {
      try {
        const answer = parse(received, isHead, ended);
        if (answer !== undefined) settle(() => resolve(answer));
        else if (ended)
          settle(() =>
            received.length === 0 || halfClose === true
              ? resolve(undefined)
              : reject(new Error(`half an answer: ${shown(received)}`)),
          );
      } catch (error) {
        settle(() => reject(new Error('what came is no answer', { cause: error })));
      }
    };
    const onData = (chunk: Buffer): void => {
      received = Buffer.concat([received, chunk]);
      look(false);
    };
    const onEnd = (): void => look(true);
    const timer = setTimeout(
      () => settle(() => reject(new Error(`no answer within ${patienceMs} ms, only: ${shown(received)}`))),
      patienceMs,
    );
    socket.on('data', onData).on('end', onEnd).on('close', onEnd);
    if (halfClose === true) socket.end(bytes);
    else socket.write(bytes);
  });
}

/** The first final answer, when it is there as a whole. */
function parse(received: Buffer, isHead: boolean, ended: boolean): ReadAnswer | undefined {
  const end = received.indexOf('\r\n\r\n');
  if (end === -1) return undefined;
  const [line = '', ...fields] = received.toString('latin1', 0, end).split('\r\n');
  const [, code] = /^HTTP\/1\.1 ([1-5]\d\d) [ -~]*$/.exec(line) ?? [];
  if (code === undefined) throw new Error(`this is no status line: ${shown(received)}`);
  const status = Number(code);
  const rest = received.subarray(end + 4);
  if (status < 200) return parse(rest, isHead, ended);
  const headers = headersOf(fields);
  const answer = (body: Buffer, untilClose = false): ReadAnswer => ({
    status,
    headers,
    body: bodyOf(body, headers),
    untilClose,
  });
  if (isHead || status === 204 || status === 304) return answer(Buffer.alloc(0));
  if (headers['transfer-encoding'] === 'chunked') {
    const body = unchunk(rest);
    return body && answer(body);
  }
  const length = headers['content-length'];
  if (length === undefined) return ended ? answer(rest, true) : undefined;
  if (!/^\d+$/.test(length)) throw new Error(`Content-Length is "${length}"`);
  return rest.length < Number(length) ? undefined : answer(rest.subarray(0, Number(length)));
}

function headersOf(fields: readonly string[]): Record<string, string> {
  const headers: Record<string, string> = {};
  for (const field of fields) {
    const [, name, value] = /^([!#$%&'*+.^_`|~A-Za-z0-9-]+): ?([\t -~\x80-\xff]*)$/.exec(field) ?? [];
    if (name === undefined || value === undefined) throw new Error(`this is no header: ${JSON.stringify(field)}`);
    if (name.toLowerCase() in headers) throw new Error(`the header ${name} stands there twice`);
    headers[name.toLowerCase()] = value;
  }
  return headers;
}

/** Undefined while it is not all there. */
function unchunk(bytes: Buffer): Buffer | undefined {
  const chunks: Buffer[] = [];
  for (let at = 0; ;) {
    const end = bytes.indexOf('\r\n', at);
    if (end === -1) return undefined;
    const size = bytes.toString('latin1', at, end);
    if (!/^[0-9a-f]+$/i.test(size)) throw new Error(`a chunk has the size ${JSON.stringify(size)}`);
    const length = Number.parseInt(size, 16);
    const next = end + 2 + length + 2;
    if (bytes.length < next) return undefined;
    if (length === 0) return Buffer.concat(chunks);
    chunks.push(bytes.subarray(end + 2, next - 2));
    at = next;
  }
}

/** A value of the configuration may be called JSON and not be any: where the contract wants an object, text is none. */
function bodyOf(bytes: Buffer, headers: Record<string, string>): unknown {
  const text = bytes.toString();
  if (text === '' || !/json/.test(headers['content-type'] ?? '')) return text;
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return text;
  }
}

function shown(bytes: Buffer): string {
  return JSON.stringify(bytes.toString('latin1', 0, 600));
}
