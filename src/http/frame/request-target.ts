/**
 * The request target: split at its delimiters first and decoded afterwards, part by part, so that an encoded delimiter
 * stays part of its value (RFC 3986, section 2.4). Nothing is normalised: `..` is a bad name, not a step up.
 */
import { BrokenRulesError, PosternError } from '../../errors.js';

/**
 * Longer targets get 414. Every target of the contract is far below, also with every character of its names encoded,
 * except `watch` of many things: its 8 000 characters fit if they are sent as they are.
 */
export const TARGET_BYTES_MAX = 8192;

export interface RequestTarget {
  /** The decoded segments of the path. */
  readonly segments: string[];
  /**
   * Read once the operation and the caller are known: a stranger is not told what is wrong with it.
   * @throws PosternError `malformed`, or `invalid` for a repeated parameter
   */
  readonly query: () => ReadonlyMap<string, string>;
  /** Host and port of a target in absolute form; they replace the `Host` header. */
  readonly authority: string | undefined;
}

const NAME_SHOWN_MAX = 60;
const ABSOLUTE_FORM = /^https?:\/\/([^/?#]*)/i;
const NO_QUERY: ReadonlyMap<string, string> = new Map();

/** @throws PosternError `uri-too-long` or `malformed`. */
export function parseTarget(url: string): RequestTarget {
  if (url.length > TARGET_BYTES_MAX) {
    throw new PosternError(
      'uri-too-long',
      `The request target has ${url.length} bytes; at most ${TARGET_BYTES_MAX} are read.`,
      {
        members: { maxBytes: TARGET_BYTES_MAX },
      },
    );
  }
  const authority = url.startsWith('/') ? undefined : ABSOLUTE_FORM.exec(url);
  const local = authority ? url.slice(authority[0].length) : url;
  const mark = local.indexOf('?');
  const path = mark === -1 ? local : local.slice(0, mark);
  if (!path.startsWith('/') && !(authority && path === ''))
    throw new PosternError('malformed', 'The request target is not a path.');
  return {
    segments: segmentsOf(path),
    query: () => (mark === -1 ? NO_QUERY : parseQuery(local.slice(mark + 1))),
    authority: authority?.[1],
  };
}

function segmentsOf(path: string): string[] {
  const segments: string[] = [];
  for (let start = 1; ;) {
    const slash = path.indexOf('/', start);
    if (slash === -1) {
      segments.push(decode(path.slice(start)));
      return segments;
    }
    segments.push(decode(path.slice(start, slash)));
    start = slash + 1;
  }
}

function parseQuery(text: string): ReadonlyMap<string, string> {
  const query = new Map<string, string>();
  for (const pair of text.split('&')) {
    if (pair === '') continue;
    const equals = pair.indexOf('=');
    const name = decodeForm(equals === -1 ? pair : pair.slice(0, equals));
    if (query.has(name)) throw repeated(name.slice(0, NAME_SHOWN_MAX));
    query.set(name, equals === -1 ? '' : decodeForm(pair.slice(equals + 1)));
  }
  return query;
}

function repeated(name: string): PosternError {
  const detail = `The query parameter ${JSON.stringify(name)} is given more than once.`;
  return new BrokenRulesError('query', [{ field: name, detail }]);
}

function decodeForm(text: string): string {
  return decode(text.includes('+') ? text.replaceAll('+', ' ') : text);
}

function decode(text: string): string {
  if (!text.includes('%')) return text;
  try {
    return decodeURIComponent(text);
  } catch (error) {
    const bad = /%(?![0-9A-Fa-f]{2}).{0,2}/.exec(text)?.[0];
    const what =
      bad === undefined ? 'percent-encoded bytes that are not UTF-8' : `"${bad}", which is not a percent-encoded byte`;
    throw new PosternError('malformed', `The request target holds ${what}.`, { cause: error });
  }
}
