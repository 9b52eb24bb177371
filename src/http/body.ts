/**
 * Request bodies: read with a limit, checked for type and encoding, and parsed as JSON or, where the contract says so, taken as the
 * bytes that they are.
 *
 * Plain `curl -d '{…}'` says `application/x-www-form-urlencoded`; that and no type at all are read as JSON too, or kept as bytes of
 * no type. Browsers send those types across origins without asking first, so a request with an `Origin` must say `application/json`, and
 * a POST of bytes must say a type that browsers ask about.
 */
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import { PosternError } from '../errors.js';
import { parseJson } from './json.js';

export interface ReadBody {
  readonly value: unknown;
  readonly bytes: number;
}

/** A body that is kept as it came. */
export interface RawBody {
  readonly bytes: Buffer;
  /** As the client said it; `application/octet-stream` for none and for what `curl -d` says of anything. */
  readonly contentType: string;
}

export interface BodyOptions {
  readonly maxBytes: number;
  /** Called when the body is about to be read: the moment for `100 Continue`. */
  readonly onReading?: () => void;
}

const UTF8 = new TextDecoder('utf-8', { fatal: true });

const UNTYPED = 'application/octet-stream';
const FORM_TYPE = 'application/x-www-form-urlencoded';
/** What a page may POST anywhere without asking (Fetch standard, "CORS-safelisted request-header"). */
const SENT_UNASKED = new Set(['', FORM_TYPE, 'multipart/form-data', 'text/plain']);
/** Longer than any that is registered; it is stored, and sent back in a header. */
const TYPE_LENGTH_MAX = 200;
/** RFC 9110, section 8.3.1; written so that there is one way only to match a text. */
const TOKEN = "[!#$%&'*+.^_`|~A-Za-z0-9-]+";
const PARAMETER = `${TOKEN}=(?:${TOKEN}|"(?:[\\t !#-\\[\\]-~]|\\\\[\\t -~])*")`;
const MEDIA_TYPE = new RegExp(`^${TOKEN}/${TOKEN}(?:[ \\t]*;(?:[ \\t]*${PARAMETER})?)*[ \\t]*$`);

/** @throws PosternError `too-large`, `unsupported-media-type` or `malformed`. */
export async function readJsonBody(request: IncomingMessage, options: BodyOptions): Promise<ReadBody> {
  const bytes = await readWhole(request, options);
  if (bytes.length === 0) return { value: {}, bytes: 0 };
  checkJsonType(request.headers);
  return { value: parseJson(decode(bytes)), bytes: bytes.length };
}

/** @throws PosternError `too-large`, `unsupported-media-type` or `malformed`. */
export async function readRawBody(request: IncomingMessage, options: BodyOptions): Promise<RawBody> {
  const contentType = rawTypeOf(request);
  return { bytes: await readWhole(request, options), contentType };
}

/** Whether a text is a media type that a raw body may have. */
export function isMediaType(text: string): boolean {
  return text.length <= TYPE_LENGTH_MAX && MEDIA_TYPE.test(text);
}

const NOTHING = Buffer.alloc(0);

function readWhole(request: IncomingMessage, options: BodyOptions): Promise<Buffer> {
  if (isEmpty(request.headers)) return Promise.resolve(NOTHING);
  const announced = Number(request.headers['content-length'] ?? 0);
  if (announced > options.maxBytes) return Promise.reject(tooLarge(options.maxBytes, announced));
  options.onReading?.();
  return readBytes(request, options.maxBytes);
}

/** Neither a length nor chunks: nothing will come, and nothing needs to be waited for. */
function isEmpty(headers: IncomingHttpHeaders): boolean {
  return headers['transfer-encoding'] === undefined && (headers['content-length'] ?? '0') === '0';
}

/** What ends the reading of a body that is being read. */
const CUT = Symbol('cut');
type BodyRead = IncomingMessage & { [CUT]?: ((reason: PosternError) => void) | undefined };

/** Ends the reading of a request's body with this problem; false when it is not being read. */
export function cutBody(request: BodyRead, reason: PosternError): boolean {
  const cut = request[CUT];
  cut?.(reason);
  return cut !== undefined;
}

function readBytes(request: BodyRead, maxBytes: number): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let length = 0;
    let settled = false;
    // The listeners stay for as long as the request: that it is settled is all they look at then.
    const settle = (): void => {
      settled = true;
      request[CUT] = undefined;
    };
    const onData = (chunk: Buffer): void => {
      if (settled) return;
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
      if (settled) return;
      settle();
      resolve(chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks, length));
    };
    const onCut = (): void => {
      if (!settled) cut(new PosternError('malformed', 'The connection ended before the body did.'));
    };
    const cut = (reason: PosternError): void => {
      settle();
      reject(reason);
    };
    request[CUT] = cut;
    request.on('data', onData).on('end', onEnd).on('close', onCut).on('error', onCut);
  });
}

/** Before anything is read: nothing about the bytes can change it. */
function rawTypeOf({ headers, method }: IncomingMessage): string {
  checkEncoding(headers);
  const contentType = (headers['content-type'] ?? '').trim();
  const type = contentType.split(';')[0]?.trim().toLowerCase() ?? '';
  if (headers.origin !== undefined && method === 'POST' && SENT_UNASKED.has(type))
    throw unsupported('A request with an Origin header must say a type that no form has, such as application/json.');
  if (type === '' || type === FORM_TYPE) return UNTYPED;
  if (!isMediaType(contentType)) {
    throw unsupported(
      `Content-Type is ${JSON.stringify(contentType.slice(0, 100))}; it must be a media type of at most ${TYPE_LENGTH_MAX} characters.`,
    );
  }
  return contentType;
}

function checkEncoding(headers: IncomingHttpHeaders): void {
  const encoding = headers['content-encoding'] ?? 'identity';
  if (encoding.toLowerCase() !== 'identity')
    throw unsupported(`Content-Encoding ${JSON.stringify(encoding)} is not read; send the body as it is.`);
}

function checkJsonType(headers: IncomingHttpHeaders): void {
  checkEncoding(headers);
  const [type = '', ...parameters] = (headers['content-type'] ?? '')
    .split(';')
    .map((part) => part.trim().toLowerCase());
  const charset = parameters
    .find((parameter) => parameter.startsWith('charset='))
    ?.slice('charset='.length)
    .replaceAll('"', '');
  if (charset !== undefined && charset !== 'utf-8' && charset !== 'utf8') throw unsupported('The body must be UTF-8.');
  if (type === 'application/json') return;
  if (type !== '' && type !== FORM_TYPE) {
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
