/**
 * Request bodies: read with a limit, checked for type and encoding, parsed as JSON.
 *
 * Plain `curl -d '{…}'` says `application/x-www-form-urlencoded`; that and no type at all are read as JSON too. Browsers send
 * those types across origins without asking first, so a request with an `Origin` must say `application/json`.
 */
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import { PosternError } from '../errors.js';
import { parseJson } from './json.js';

export interface ReadBody {
  readonly value: unknown;
  readonly bytes: number;
}

export interface BodyOptions {
  readonly maxBytes: number;
  /** Called when the body is about to be read: the moment for `100 Continue`. */
  readonly onReading?: () => void;
}

const UTF8 = new TextDecoder('utf-8', { fatal: true });

/** @throws PosternError `too-large`, `unsupported-media-type` or `malformed`. */
export async function readJsonBody(request: IncomingMessage, options: BodyOptions): Promise<ReadBody> {
  if (isEmpty(request.headers)) return { value: {}, bytes: 0 };
  const announced = Number(request.headers['content-length'] ?? 0);
  if (announced > options.maxBytes) throw tooLarge(options.maxBytes, announced);
  options.onReading?.();
  const bytes = await readBytes(request, options.maxBytes);
  if (bytes.length === 0) return { value: {}, bytes: 0 };
  checkType(request.headers);
  return { value: parseJson(decode(bytes)), bytes: bytes.length };
}

/** Neither a length nor chunks: nothing will come, and nothing needs to be waited for. */
function isEmpty(headers: IncomingHttpHeaders): boolean {
  return headers['transfer-encoding'] === undefined && (headers['content-length'] ?? '0') === '0';
}

function readBytes(request: IncomingMessage, maxBytes: number): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let length = 0;
    const onData = (chunk: Buffer): void => {
      length += chunk.length;
      if (length <= maxBytes) {
        chunks.push(chunk);
        return;
      }
      settle();
      // The rest is read and dropped, so that the answer reaches a client that is still sending.
      request.resume();
      reject(tooLarge(maxBytes));
    };
    const onEnd = (): void => {
      settle();
      resolve(chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks, length));
    };
    const onCut = (): void => {
      settle();
      reject(new PosternError('malformed', 'The connection ended before the body did.'));
    };
    const settle = (): void => {
      request.off('data', onData).off('end', onEnd).off('close', onCut);
    };
    request.on('data', onData).on('end', onEnd).on('close', onCut).on('error', onCut);
  });
}

function checkType(headers: IncomingHttpHeaders): void {
  const encoding = headers['content-encoding'] ?? 'identity';
  if (encoding.toLowerCase() !== 'identity')
    throw unsupported(`Content-Encoding ${JSON.stringify(encoding)} is not read; send the body as it is.`);
  const [type = '', ...parameters] = (headers['content-type'] ?? '')
    .split(';')
    .map((part) => part.trim().toLowerCase());
  const charset = parameters
    .find((parameter) => parameter.startsWith('charset='))
    ?.slice('charset='.length)
    .replaceAll('"', '');
  if (charset !== undefined && charset !== 'utf-8' && charset !== 'utf8') throw unsupported('The body must be UTF-8.');
  if (type === 'application/json') return;
  if (type !== '' && type !== 'application/x-www-form-urlencoded') {
    throw unsupported(`Bodies of type ${JSON.stringify(type.slice(0, 100))} are not read here; send application/json.`);
  }
  if (headers.origin !== undefined)
    throw unsupported('A request with an Origin header must say Content-Type: application/json.');
}

function decode(bytes: Buffer): string {
  try {
    return UTF8.decode(bytes);
  } catch (error) {
    throw new PosternError('malformed', 'The body is not UTF-8.', { cause: error });
  }
}

function tooLarge(maxBytes: number, announced?: number): PosternError {
  const has = announced === undefined ? `more than ${maxBytes}` : String(announced);
  return new PosternError('too-large', `The body has ${has} bytes; at most ${maxBytes} are read.`, {
    members: { maxBytes },
  });
}

function unsupported(detail: string): PosternError {
  return new PosternError('unsupported-media-type', detail);
}
