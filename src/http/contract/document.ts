/** The contract as data. The bundle of the gateway has in place of this file what it makes of the contract. */
import { JSON_SCHEMA, load as parse } from 'js-yaml';

/**
 * Strings cut from a text with characters beyond Latin-1 have two bytes per character, and so has everything that they
 * become part of: log lines, metrics, and answers, because V8 keeps one copy of each member name. So the file is parsed
 * as ASCII, in which other characters stand as `%u2026`; JSON's reader, which makes the shortest form, puts them back.
 */
export function documentOf(text: string): unknown {
  const escaped = text.replace(/[^\0-\x7f]/g, (unit) => `%u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`);
  const ascii = Buffer.from(escaped, 'latin1').toString('latin1');
  const json = JSON.stringify(parse(ascii, { schema: JSON_SCHEMA }));
  return JSON.parse(json.replaceAll(/%u([0-9a-f]{4})/g, '\\u$1'));
}
