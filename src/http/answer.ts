/**
 * Writes one answer, and finds out whether it went out.
 */
import type { ServerResponse } from 'node:http';
import type { Answer } from './exchange.js';

const JSON_TYPE = 'application/json';

/**
 * Resolves to whether the operating system took all of it; false means that the client cannot have read it to its end.
 * (True does not mean that it has: nobody can know that.)
 */
export function writeAnswer(
  response: ServerResponse,
  answer: Answer,
  common: Readonly<Record<string, string>>,
): Promise<boolean> {
  if (isGone(response)) return Promise.resolve(false);
  const send = prepareAnswer(response, answer, common);
  return new Promise((resolve) => {
    // An answer is closed in any case, right after it has been written or when its connection ends.
    response.on('close', () => resolve(response.writableFinished));
    send();
  });
}

/** @returns what writes it, and does not look what becomes of it @throws what cannot be put into words; then nothing was done */
export function prepareAnswer(
  response: ServerResponse,
  answer: Answer,
  common: Readonly<Record<string, string>>,
): () => void {
  const text = bodyOf(answer);
  const headers = headersOf(answer, text, common);
  return () => {
    response.writeHead(answer.status, headers);
    response.end(text);
  };
}

export function isGone(response: ServerResponse): boolean {
  return response.destroyed || response.req.socket.destroyed;
}

function bodyOf({ body, contentType }: Answer): string | Buffer | undefined {
  if (body === undefined) return undefined;
  if (contentType !== undefined && (typeof body === 'string' || Buffer.isBuffer(body))) return body;
  return JSON.stringify(body);
}

function headersOf(
  { headers: own, contentType }: Answer,
  text: string | Buffer | undefined,
  common: Readonly<Record<string, string>>,
): Record<string, string | number> {
  const headers: Record<string, string | number> = {
    'Cache-Control': own?.['ETag'] === undefined ? 'no-store' : 'private, no-cache',
    'X-Content-Type-Options': 'nosniff',
    ...common,
  };
  if (own !== undefined) Object.assign(headers, own);
  if (text !== undefined) {
    headers['Content-Type'] = contentType ?? JSON_TYPE;
    headers['Content-Length'] = Buffer.byteLength(text);
  }
  return headers;
}
