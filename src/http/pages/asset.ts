/**
 * What a replica serves to browsers and tools as files: made at the first request, then one buffer for all per
 * encoding, in memory once, however many clients do not read it.
 *
 *   docs: asset(() => docsPage(openApi())),
 *
 * An asset has an ETag for each encoding, and is 304 for whoever has that one. The encoding is chosen by
 * `Accept-Encoding` (RFC 9110, 12.5.3). Compression takes place beside the event loop, which keeps its time for leases.
 */
import { createHash } from 'node:crypto';
import { promisify } from 'node:util';
import { brotliCompress, constants, gzip } from 'node:zlib';
import { PosternError } from '../../errors.js';
import { headerOf } from '../frame/call.js';
import type { Answer, Exchange } from '../frame/exchange.js';
import { matchesEtag } from '../routes/shared/etag.js';

/** A 200 with a text, or its bytes, and its type. */
export interface Source extends Answer {
  readonly body: string | Buffer;
  readonly contentType: string;
}

/** Near the smallest that brotli makes of a page (11), for a twentieth of the time. */
const BROTLI_QUALITY = 9;
const BROTLI = { params: { [constants.BROTLI_PARAM_QUALITY]: BROTLI_QUALITY } };
const [brotliOf, gzipOf] = [promisify(brotliCompress), promisify(gzip)];

/** The preferred one first. */
const ENCODINGS = ['br', 'gzip', 'identity'] as const;
type Encoding = (typeof ENCODINGS)[number];

const ENCODE: Readonly<Record<Encoding, (text: Buffer) => Promise<Buffer>>> = {
  br: (text) => brotliOf(text, BROTLI),
  gzip: (text) => gzipOf(text, { level: constants.Z_BEST_COMPRESSION }),
  identity: (text) => Promise.resolve(text),
};

interface Made {
  readonly source: Source;
  readonly text: Buffer;
}

interface Encoded {
  readonly body: Buffer;
  /** ETag among them; a 304 has these too. */
  readonly headers: Readonly<Record<string, string>>;
}

/** @returns a handler that serves what `make` returns; it is called once, at the first request, or again if it fails */
export function asset(make: () => Source | Promise<Source>): (exchange: Pick<Exchange, 'headers'>) => Promise<Answer> {
  const encoded = new Map<Encoding, Promise<Encoded>>();
  let making: Promise<Made> | undefined;
  const source = (): Promise<Made> => {
    making ??= madeBy(make);
    making.catch(() => (making = undefined));
    return making;
  };
  const take = (made: Made, encoding: Encoding): Promise<Encoded> => {
    const known = encoded.get(encoding);
    if (known !== undefined) return known;
    const kept = encode(made, encoding);
    encoded.set(encoding, kept);
    kept.catch(() => encoded.delete(encoding)); // there was no memory; the next request tries again
    return kept;
  };
  return async ({ headers }) => {
    const encoding = acceptedEncoding(headerOf(headers['accept-encoding']));
    if (encoding === undefined)
      throw new PosternError('not-acceptable', `The answer exists as ${ENCODINGS.join(', ')} only (Accept-Encoding).`, {
        members: { encodings: ENCODINGS },
      });
    const made = await source();
    const { body, headers: own } = await take(made, encoding);
    const known = headerOf(headers['if-none-match']);
    if (known !== undefined && matchesEtag(known, own['ETag'] as string)) return { status: 304, headers: own };
    const { contentType, headers: common } = made.source;
    const coding: Record<string, string> = encoding === 'identity' ? {} : { 'Content-Encoding': encoding };
    return { status: 200, body, contentType, isShared: true, headers: { ...common, ...own, ...coding } };
  };
}

async function madeBy(make: () => Source | Promise<Source>): Promise<Made> {
  const source = await make();
  return { source, text: Buffer.from(source.body as string) };
}

async function encode({ source: { headers }, text }: Made, encoding: Encoding): Promise<Encoded> {
  // Another policy is another representation: who has the old one has to learn of it.
  const hash = createHash('sha256')
    .update(JSON.stringify(headers ?? {}))
    .update(text);
  const tag = hash.digest('base64url').slice(0, 22);
  const suffix = encoding === 'identity' ? '' : `-${encoding}`;
  return { body: await ENCODE[encoding](text), headers: { ETag: `"${tag}${suffix}"`, Vary: 'Accept-Encoding' } };
}

/**
 * The encoding that a client weighs most, ours to choose among equals. Without a word about it the text as it is; `*`
 * stands for what is not named; the text as it is needs no mention, and is taken where nothing else is accepted.
 * @returns undefined if it accepts none of ours
 */
export function acceptedEncoding(header: string | undefined): Encoding | undefined {
  if (header === undefined) return 'identity';
  const weights = new Map(header.split(',').map(weightOf));
  const weightFor = (encoding: Encoding): number | undefined =>
    weights.get(encoding) ?? (encoding === 'gzip' ? weights.get('x-gzip') : undefined) ?? weights.get('*');
  let best: { encoding: Encoding; weight: number } | undefined;
  for (const encoding of ENCODINGS) {
    const weight = weightFor(encoding) ?? 0;
    if (weight > (best?.weight ?? 0)) best = { encoding, weight };
  }
  if (best !== undefined) return best.encoding;
  return weightFor('identity') === 0 ? undefined : 'identity';
}

function weightOf(part: string): [string, number] {
  const [name = '', ...parameters] = part.split(';').map((word) => word.trim().toLowerCase());
  const text = parameters.find((parameter) => /^q\s*=/.test(parameter))?.replace(/^q\s*=\s*/, '');
  const weight = text === undefined ? 1 : Number(text);
  return [name, weight >= 0 && weight <= 1 ? weight : 0];
}
