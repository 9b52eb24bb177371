/** Content negotiation (RFC 9110, section 12.5) among the few types of an operation, and the codings of an asset. */

interface Range {
  readonly type: string;
  readonly subtype: string;
  readonly quality: number;
}

/** Offered where content may have any type: serves clients that ask for a type that is not offered by name. */
const ANY_TYPE = '*/*';

/** The type that the client prefers, the first one if equal; undefined if it accepts none. */
export function negotiate(accept: string | undefined, types: readonly string[]): string | undefined {
  if (accept === undefined || accept === '' || accept === '*/*') return types[0];
  const ranges = accept.split(',').flatMap(parseRange);
  let best: { type: string; quality: number } | undefined;
  for (const type of types) {
    const quality = type === ANY_TYPE ? qualityOfOthers(types, ranges) : qualityOf(type, ranges);
    if (quality > (best?.quality ?? 0)) best = { type, quality };
  }
  return best?.type;
}

/** The most specific range decides, as the RFC says, so a range with `q=0` refuses what a wider one would allow. */
function qualityOf(mediaType: string, ranges: readonly Range[]): number {
  const [type, subtype] = mediaType.split('/');
  const exact = ranges.find((range) => range.type === type && range.subtype === subtype);
  const group = ranges.find((range) => range.type === type && range.subtype === '*');
  const any = ranges.find((range) => range.type === '*' && range.subtype === '*');
  return (exact ?? group ?? any)?.quality ?? 0;
}

function qualityOfOthers(types: readonly string[], ranges: readonly Range[]): number {
  const others = ranges.filter(({ type, subtype }) => !types.includes(`${type}/${subtype}`) || type === '*');
  return Math.max(0, ...others.map(({ quality }) => quality));
}

function parseRange(text: string): Range[] {
  const [mediaType = '', ...parameters] = text.split(';').map((part) => part.trim().toLowerCase());
  const [type, subtype] = mediaType.split('/');
  if (type === undefined || subtype === undefined) return [];
  return [{ type, subtype, quality: qualityIn(parameters) }];
}

/**
 * The content coding that the client prefers (RFC 9110, section 12.5.3), the first one if equal; undefined: as it is,
 * also for a client that does not ask for any.
 */
export function preferredCoding<T extends string>(header: string | undefined, codings: readonly T[]): T | undefined {
  if (header === undefined) return undefined;
  const qualities = new Map(header.split(',').map(parseCoding));
  const qualityOf = (coding: string): number => qualities.get(coding) ?? qualities.get('*') ?? 0;
  let best: { coding: T; quality: number } | undefined;
  for (const coding of codings) {
    const quality = qualityOf(coding);
    if (quality > (best?.quality ?? 0)) best = { coding, quality };
  }
  return best === undefined || (qualities.get('identity') ?? 0) > best.quality ? undefined : best.coding;
}

function parseCoding(text: string): [coding: string, quality: number] {
  const [coding = '', ...parameters] = text.split(';').map((part) => part.trim().toLowerCase());
  return [coding, qualityIn(parameters)];
}

function qualityIn(parameters: readonly string[]): number {
  const weight = parameters.find((parameter) => parameter.startsWith('q='))?.slice(2);
  const quality = weight === undefined ? 1 : Number(weight);
  return quality >= 0 && quality <= 1 ? quality : 0;
}
