/** `postern config get`, `put`, `watch`. */
import type { ConfigValue } from '../../client/index.js';
import type { GivenFor } from '../arguments/command.js';
import type * as descriptions from '../commands/config.js';
import { EXIT, Failure, UsageError } from '../exit.js';
import { visible } from '../output.js';
import { readInput, withClient } from './client.js';

const TEXT = 'text/plain; charset=utf-8';
const JSON_TYPE = 'application/json';

export async function get(given: GivenFor<typeof descriptions.get>): Promise<number> {
  const [key = ''] = given.arguments;
  const { wait: waitMs = 0 } = given.values;
  const found = await withClient(given, async (postern): Promise<ConfigValue | undefined> => {
    const timer = new AbortController();
    const timeout = Number.isFinite(waitMs) ? setTimeout(() => timer.abort(), waitMs) : undefined;
    try {
      if (waitMs === 0) return await postern.config.get(key);
      for await (const value of postern.config.watch(key, { signal: timer.signal })) if (value) return value;
      return undefined;
    } finally {
      clearTimeout(timeout);
    }
  });
  if (found === undefined) throw new Failure(EXIT.refused, `there is no key "${key}"`, { code: 'not-found', key });
  if (given.output.json) given.output.result(asJson(found), () => '');
  else given.output.bytes(bytesOf(found));
  return EXIT.ok;
}

export async function put(given: GivenFor<typeof descriptions.put>): Promise<number> {
  const [key = '', text] = given.arguments;
  const { type, 'if-match': ifMatch, 'if-absent': ifAbsent, guard } = given.values;
  if (ifAbsent && ifMatch !== undefined) throw new UsageError('--if-match and --if-absent exclude each other');
  const contentType = type ?? (text === undefined ? 'application/octet-stream' : TEXT);
  const bytes = text === undefined ? readInput() : Buffer.from(text);
  const options = {
    contentType,
    ifAbsent,
    ...(ifMatch !== undefined && { ifMatch: quoted(ifMatch) }),
    ...(guard && { guard }),
  };
  const etag = await withClient(given, (postern) => postern.config.put(key, bytes, options));
  given.output.result({ key, etag }, () => etag);
  return EXIT.ok;
}

export async function watch(given: GivenFor<typeof descriptions.watch>): Promise<number> {
  const [key = ''] = given.arguments;
  return withClient(given, async (postern) => {
    for await (const value of postern.config.watch(key)) {
      const json = value === undefined ? { key, exists: false } : asJson(value);
      given.output.result(json, () => (value === undefined ? '' : visible(bytesOf(value).toString())));
    }
    return EXIT.ok;
  });
}

/** ETags are in quotes, which a shell takes away. */
function quoted(etag: string): string {
  return etag.startsWith('"') ? etag : `"${etag}"`;
}

/** What was put; of a JSON value without its white space. */
export function bytesOf({ value }: ConfigValue): Buffer {
  return Buffer.isBuffer(value) ? value : Buffer.from(JSON.stringify(value));
}

function asJson({ key, value, etag, contentType }: ConfigValue): Readonly<Record<string, unknown>> {
  const bytes = bytesOf({ key, value, etag, contentType });
  const shown = contentType.startsWith(JSON_TYPE)
    ? { value }
    : contentType.startsWith('text/')
      ? { value: bytes.toString() }
      : { valueBase64: bytes.toString('base64') };
  return { key, exists: true, contentType, etag, ...shown };
}
