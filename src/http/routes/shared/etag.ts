/** ETags in the conditions of requests. */
import { InvalidError } from '../../../errors.js';
import type { ETags } from '../../../recipes/etags.js';
import type { Exchange } from '../../frame/exchange.js';

/**
 * Whether an `If-None-Match` names this ETag. Compared weakly (RFC 9110, 13.1.2): a proxy that compresses turns `"x"`
 * into `W/"x"`, and such a poll should wait too.
 */
export function matchesEtag(header: string, etag: string): boolean {
  const tags: readonly string[] = header.match(/"[^"]*"/g) ?? [];
  return header.trim() === '*' || tags.includes(etag);
}

/** Elsewhere an empty header counts as absent. Here that would do a conditional write unconditionally. */
export function conditionOf({ headers }: Exchange, name: 'If-Match' | 'If-None-Match'): string | undefined {
  const value = headers[name.toLowerCase()] as string | undefined; // node never makes lists of these headers
  if (value === '') throw new InvalidError(name, value, 'absent, or a condition', { in: 'header' });
  return value;
}

/**
 * The condition of an `If-Match`: its ETags without quotes, also those that a proxy has marked as weak, since versions
 * are compared.
 */
export function etagsOf(text: string | undefined): ETags | undefined {
  if (text === undefined) return undefined;
  if (text.trim() === '*') return '*';
  return (text.match(/"[^"]*"/g) ?? [text]).map((tag) => tag.replaceAll('"', ''));
}
