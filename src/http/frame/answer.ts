/** Writes one answer, and finds out whether it was sent. */
import { validateHeaderValue, type ServerResponse } from 'node:http';
import { jsonOf } from '../../json-text.js';
import type { Answer } from './exchange.js';

const JSON_TYPE = 'application/json';

/**
 * Headers of every answer, for browsers: do not guess its type, and do not give it to pages of other origins, not even
 * as an image or a script.
 */
export const BROWSER_HEADERS = {
  'X-Content-Type-Options': 'nosniff',
  'Cross-Origin-Resource-Policy': 'same-origin',
} as const;

/** Above this size an answer is kept as bytes: a text would be in memory twice while it is written. */
const LARGE_CHARACTERS = 16 * 1024;

/** A serialised answer; it does not keep its source alive. */
export interface PreparedAnswer {
  /** Bytes of its body that are in memory for this answer alone. */
  readonly bytes: number;
  send(): void;
}

/**
 * Resolves to whether the operating system took all of it. False: the client cannot have read it to its end. (True does
 * not mean that it has: nobody can know that.)
 */
export function writeAnswer(response: ServerResponse, answer: PreparedAnswer): Promise<boolean> {
  if (isGone(response)) return Promise.resolve(false);
  return new Promise((resolve) => {
    const { socket } = response.req;
    let written = false;
    // Node emits this also for data that was on its way when the connection was cut.
    response.on('finish', () => (written = !socket.destroyed));
    // An answer is always closed: right after it is written, or when its connection ends.
    response.on('close', () => resolve(written));
    answer.send();
  });
}

/** @throws if the answer cannot be serialised; nothing has been written then */
export function prepareAnswer(
  response: ServerResponse,
  answer: Answer,
  common: Readonly<Record<string, string>>,
): PreparedAnswer {
  let text = bodyOf(answer);
  const headers = headersOf(answer, text, common);
  const { status, isShared = false } = answer;
  // With one byte per character it is ASCII: the same bytes as Latin-1, to which V8 need not convert it.
  const encoding = headers['Content-Length'] === text?.length ? 'latin1' : 'utf8';
  return {
    bytes: isShared || text === undefined ? 0 : text.length,
    send() {
      response.writeHead(status, headers);
      response.end(text, encoding);
      // A connection keeps its latest response alive, and with it everything that the listeners capture.
      text = undefined;
    },
  };
}

export function isGone(response: ServerResponse): boolean {
  return response.destroyed || response.req.socket.destroyed;
}

/** Whether the client has ended its connection, as far as that has been read: its 'close' comes some turns later. */
export function hasHungUp(response: ServerResponse): boolean {
  return isGone(response) || response.req.socket.readableEnded;
}

/** With its body as bytes, if that is long: for an answer that many get. */
export function inBytes(answer: Answer): Answer {
  const body = bodyOf(answer);
  return Buffer.isBuffer(body) ? { ...answer, body, contentType: answer.contentType ?? JSON_TYPE } : answer;
}

function bodyOf({ body, contentType }: Answer): string | Buffer | undefined {
  if (body === undefined) return undefined;
  const isWhole = contentType !== undefined && (typeof body === 'string' || Buffer.isBuffer(body));
  // With a newline, as shells and people expect.
  const text = isWhole ? body : `${jsonOf(body)}\n`;
  return typeof text === 'string' && text.length > LARGE_CHARACTERS ? Buffer.from(text) : text;
}

function headersOf(
  { headers: own, contentType }: Answer,
  text: string | Buffer | undefined,
  common: Readonly<Record<string, string>>,
): Record<string, string | number> {
  const headers: Record<string, string | number> = {
    'Cache-Control': own?.['ETag'] === undefined ? 'no-store' : 'private, no-cache',
    ...BROWSER_HEADERS,
    ...common,
  };
  for (const [name, value] of Object.entries(own ?? {})) {
    validateHeaderValue(name, value);
    headers[name] = name === 'Vary' && common['Vary'] !== undefined ? `${common['Vary']}, ${value}` : value;
  }
  if (text !== undefined) {
    headers['Content-Type'] = contentType ?? JSON_TYPE;
    headers['Content-Length'] = Buffer.byteLength(text);
  }
  return headers;
}
