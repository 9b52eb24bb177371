/** `postern config get`, `put`, `watch`, `export`. */
import type { ConfigValue, Postern } from '../../client/index.js';
import type { GivenFor } from '../arguments/command.js';
import type * as descriptions from '../commands/config.js';
import { EXIT, Failure, UsageError } from '../exit.js';
import { jsonText, visible, type Output } from '../output.js';
import { listed, readInput, withClient } from './client.js';

const TEXT = 'text/plain; charset=utf-8';
const JSON_TYPE = 'application/json';

export async function get(given: GivenFor<typeof descriptions.get>): Promise<number> {
  const [key = '', ...others] = given.arguments;
  const { wait: waitMs = 0 } = given.values;
  if (others.length > 0) return getMany(given);
  const found = await withClient(given, async (postern): Promise<ConfigValue | undefined> => {
    const timer = new AbortController();
    const timeout = Number.isFinite(waitMs) ? setTimeout(() => timer.abort(), waitMs) : undefined;
    try {
      if (waitMs === 0) return await postern.config.get(key);
      for await (const value of postern.config.watch(key, { signal: timer.signal })) if (value) return value;
      // Whether it was seen missing, or nobody has answered, since when, is not known: only this answer says it.
      return await postern.config.get(key);
    } finally {
      clearTimeout(timeout);
    }
  });
  if (found === undefined) throw new Failure(EXIT.refused, `there is no key "${key}"`, { code: 'not-found', key });
  if (given.output.json) given.output.result(asJson(found), () => '');
  else given.output.bytes(bytesOf(found));
  return EXIT.ok;
}

/** One line of JSON each, whether `--json` is given or not: values may have lines of their own. */
async function getMany(given: GivenFor<typeof descriptions.get>): Promise<number> {
  const keys = given.arguments;
  if (given.values.wait !== undefined) throw new UsageError('--wait waits for one KEY only');
  const found = await withClient(given, (postern) => postern.config.readMany(keys));
  for (const [i, key] of keys.entries()) {
    const value = found[i];
    printLine(given.output, value === undefined ? { key, exists: false } : asJson(value));
  }
  return found.includes(undefined) ? EXIT.refused : EXIT.ok;
}

/** As the gateway shows them, so that what is no JSON comes back byte by byte. */
export async function exportKeys(given: GivenFor<typeof descriptions.exportKeys>): Promise<number> {
  const [prefix] = given.arguments;
  return withClient(given, async (postern) => {
    for await (const key of configKeys(postern, prefix)) printLine(given.output, key);
    return EXIT.ok;
  });
}

/** Of keys with this prefix what `config import` and `import` read. */
export async function* configKeys(
  postern: Postern,
  prefix?: string,
): AsyncGenerator<Readonly<Record<string, unknown>>> {
  const query = { values: true, ...(prefix !== undefined && { prefix }) };
  for await (const { key, etag, contentType, value, valueBase64 } of listed(postern, 'config', query))
    yield { key, etag, contentType, value, valueBase64 };
}

function printLine(output: Output, value: Readonly<Record<string, unknown>>): void {
  output.raw(`${jsonText(value)}\n`);
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
  const shown =
    contentType.startsWith(JSON_TYPE) && !Buffer.isBuffer(value)
      ? { value }
      : contentType.startsWith('text/')
        ? { value: bytes.toString() }
        : { valueBase64: bytes.toString('base64') };
  return { key, exists: true, contentType, etag, ...shown };
}
