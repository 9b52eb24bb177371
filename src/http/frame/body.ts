/**
 * Request bodies: read within a limit, checked for type and encoding, and parsed as JSON or, where the contract says
 * so, kept as bytes.
 *
 * Plain `curl -d '{…}'` sends `application/x-www-form-urlencoded`; that and no type at all are read as JSON too, or
 * kept as bytes without a type. Browsers send those types across origins without a preflight, so a request with an
 * `Origin` must say `application/json`, and a POST of bytes must have a type that needs a preflight.
 */
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import { PosternError } from '../../errors.js';
import type { ByteShare } from './bytes-at-once.js';
import { parseJson } from './json.js';

export interface ReadBody {
  readonly value: unknown;
  readonly bytes: number;
}

/** A body kept as it came. */
export interface RawBody {
  readonly bytes: Buffer;
  /** As sent; `application/octet-stream` for none and for the type that `curl -d` sends for anything. */
  readonly contentType: string;
}

export interface BodyOptions {
  readonly maxBytes: number;
  /** The share of the bytes that all bodies may take together. */
  readonly share: Pick<ByteShare, 'grow'>;
  /** Told just before the body is read. */
  readonly client?: { sendContinue(): void };
}

const UTF8 = new TextDecoder('utf-8', { fatal: true });

const UNTYPED = 'application/octet-stream';
const FORM_TYPE = 'application/x-www-form-urlencoded';
/** The types that a page may POST anywhere without a preflight (Fetch standard, "CORS-safelisted request-header"). */
const SENT_UNASKED = new Set(['', FORM_TYPE, 'multipart/form-data', 'text/plain']);
/** No registered type is longer. It is stored, and sent back in a header. */
const TYPE_LENGTH_MAX = 200;
/** RFC 9110, section 8.3.1; written so that a text can match in one way only. */
const TOKEN = "[!#$%&'*+.^_`|~A-Za-z0-9-]+";
const PARAMETER = `${TOKEN}=(?:${TOKEN}|"(?:[\\t !#-\\[\\]-~]|\\\\[\\t -~])*")`;
const MEDIA_TYPE = new RegExp(`^${TOKEN}/${TOKEN}(?:[ \\t]*;(?:[ \\t]*${PARAMETER})?)*[ \\t]*$`);

export interface JsonBodyOptions extends BodyOptions {
  /** Scalars, objects, arrays and names of members, together. */
  readonly maxJsonValues: number;
}

/** @throws PosternError `too-large`, `unsupported-media-type` or `malformed`. */
export async function readJsonBody(request: IncomingMessage, options: JsonBodyOptions): Promise<ReadBody> {
  const bytes = await readWhole(request, options);
  if (bytes.length === 0) return { value: {}, bytes: 0 };
  checkJsonType(request.headers);
  return { value: parseJson(decode(bytes), options.maxJsonValues), bytes: bytes.length };
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

async function readWhole(request: BodyRead, options: BodyOptions): Promise<Buffer> {
  if (isEmpty(request.headers)) return NOTHING;
  if (request[REASON] !== undefined) throw request[REASON];
  // It ended while the credential was verified: nothing would tell of that again.
  if (request.destroyed) throw connectionEnded();
  const announced = Number(request.headers['content-length'] ?? 0);
  if (announced > options.maxBytes) throw tooLarge(options.maxBytes, announced);
  const refused = options.share.grow(announced);
  if (refused !== undefined) throw refused;
  options.client?.sendContinue();
  return await readBytes(request, options);
}

/** Neither a length nor chunks: no body will come. */
function isEmpty(headers: IncomingHttpHeaders): boolean {
  return headers['transfer-encoding'] === undefined && (headers['content-length'] ?? '0') === '0';
}

/** A body that is being read, for as long as its outcome is open. */
interface Reading {
  readonly maxBytes: number;
  readonly share: BodyOptions['share'];
  readonly chunks: Buffer[];
  length: number;
  readonly resolve: (bytes: Buffer) => void;
  readonly reject: (reason: PosternError) => void;
}

const READING = Symbol('reading');
/** Why the rest of a body will not be read. */
const REASON = Symbol('reason');
type BodyRead = IncomingMessage & {
  [READING]?: Reading | undefined;
  [REASON]?: PosternError;
};

/**
 * Stops reading the body of this request with this problem, also if reading has not begun yet.
 * @returns false if it is not being read now
 */
export function cutBody(request: BodyRead, reason: PosternError): boolean {
  request[REASON] = reason;
  const reading = settle(request);
  reading?.reject(reason);
  return reading !== undefined;
}

/** Where a cut body ends is unknown, and with it where the next request begins. */
export function isCut(request: BodyRead): boolean {
  return request[REASON] !== undefined;
}

function readBytes(request: BodyRead, { maxBytes, share }: BodyOptions): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    request[READING] = { maxBytes, share, chunks: [], length: 0, resolve, reject };
    // The same functions for all requests; they stay, and do nothing once the outcome is known.
    request.on('data', onData).on('end', onEnd).on('close', onCut).on('error', onCut);
  });
}

function onData(this: BodyRead, chunk: Buffer): void {
  const reading = this[READING];
  if (reading === undefined) return;
  const { maxBytes, share, chunks } = reading;
  reading.length += chunk.length;
  const refused = reading.length > maxBytes ? tooLarge(maxBytes) : share.grow(reading.length);
  if (refused === undefined) {
    chunks.push(chunk);
    return;
  }
  settle(this);
  // The rest is read and dropped, so that the answer reaches a client that is still sending.
  this.resume();
  reading.reject(refused);
}

function onEnd(this: BodyRead): void {
  const reading = settle(this);
  if (reading === undefined) return;
  const { chunks, length, resolve } = reading;
  resolve(chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks, length));
}

function onCut(this: BodyRead): void {
  settle(this)?.reject(connectionEnded());
}

/** @returns what was being read, unless its outcome was known already */
function settle(request: BodyRead): Reading | undefined {
  const reading = request[READING];
  request[READING] = undefined;
  return reading;
}

/** Checked before anything is read: no content of the body can change it. */
function rawTypeOf({ headers, method }: IncomingMessage): string {
  checkEncoding(headers);
  // RFC 9110, section 14.5: taken for the whole, a part would replace the value.
  if (headers['content-range'] !== undefined)
    throw new PosternError('malformed', 'There is a Content-Range header; a value is sent as a whole.');
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

function connectionEnded(): PosternError {
  return new PosternError('malformed', 'The connection ended before the body did.');
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
