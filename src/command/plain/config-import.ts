/**
 * `postern config import`: reads what is there, decides which keys have another value, and writes those in batches.
 * Every write is conditional on what was read, so nothing that somebody else wrote meanwhile is written over.
 */
import { readFileSync } from 'node:fs';
import { isDeepStrictEqual } from 'node:util';
import { PosternError, type Postern, type Schemas, type WriteOptions } from '../../client/index.js';
import type { GivenFor } from '../arguments/command.js';
import type * as descriptions from '../commands/config.js';
import { EXIT, UsageError } from '../exit.js';
import { readInput, withClient } from './client.js';

type Found = Schemas['ReadConfigItem'];
type Put = Schemas['ConfigOperation'] & { put: string; contentType: string };

interface Entry {
  key: string;
  contentType: string;
  /** As the contract has it: JSON, or bytes in base64. */
  content: { value: unknown } | { valueBase64: string };
}

interface Change {
  action: 'create' | 'replace';
  operation: Put;
  /** Of the operation as JSON. */
  bytes: number;
}

const READ_AT_ONCE = 64;
const WRITTEN_AT_ONCE = 100;
/** Of the operations in one request: half of what a gateway reads unless set otherwise. */
const BATCH_BYTES = 512 * 1024;

export async function importKeys(given: GivenFor<typeof descriptions.importKeys>): Promise<number> {
  const { 'dry-run': isDry, guard } = given.values;
  const [file] = given.arguments;
  const entries = entriesOf(file === undefined ? readInput().toString() : textOf(file));
  const tell = (action: string, key: string): void =>
    given.output.result({ action, key, ...(isDry && { dryRun: true }) }, () =>
      isDry ? `would ${action} ${key}` : `${action} ${key}`,
    );
  return withClient(given, async (postern) => {
    const found = await readAll(
      postern,
      entries.map(({ key }) => key),
    );
    const changes = entries.flatMap((entry) => changeOf(entry, found.get(entry.key)) ?? []);
    const same = entries.length - changes.length;
    let written = 0;
    for (const batch of isDry ? [changes] : batchesOf(changes)) {
      try {
        if (!isDry) await writeBatch(postern, batch, guard);
      } catch (error) {
        given.output.tell('stopped', `${written} of ${changes.length} keys were written`, {
          written,
          of: changes.length,
        });
        throw error;
      }
      for (const { action, operation } of batch) tell(action, operation.put);
      written += batch.length;
    }
    given.output.tell('imported', `${isDry ? 0 : written} keys were written, ${same} were so already`, {
      written: isDry ? 0 : written,
      same,
    });
    return EXIT.ok;
  });
}

function textOf(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    throw new UsageError(`FILE "${file}" cannot be read: ${(error as Error).message}`);
  }
}

/** @throws UsageError with the number of the line */
function entriesOf(text: string): Entry[] {
  const lineOfKey = new Map<string, number>();
  return text.split('\n').flatMap((line, index) => {
    if (line.trim() === '') return [];
    const entry = entryOf(line);
    if (typeof entry === 'string') throw new UsageError(`line ${index + 1} ${entry}`);
    const before = lineOfKey.get(entry.key);
    if (before !== undefined)
      throw new UsageError(`line ${index + 1} has the key "${entry.key}" of line ${before} again`);
    lineOfKey.set(entry.key, index + 1);
    return [entry];
  });
}

/** @returns what is wrong with the line, if something is */
function entryOf(line: string): Entry | string {
  let parsed: unknown;
  let isExact = true;
  try {
    parsed = JSON.parse(line, (_, part: unknown) => {
      // From there on numbers are written with an exponent, and are no integers of anybody.
      if (Number.isInteger(part) && !Number.isSafeInteger(part) && Math.abs(part as number) < 1e21) isExact = false;
      return part;
    });
  } catch {
    return 'is not JSON';
  }
  if (!isExact) return 'has an integer that would not be kept as it is; give such a value as "valueBase64"';
  if (typeof parsed !== 'object' || parsed === null || Array.isArray(parsed)) return 'is not a JSON object';
  const { key, value, valueBase64, contentType } = parsed as Record<string, unknown>;
  if (typeof key !== 'string') return 'has no "key" that is a text';
  if (contentType !== undefined && typeof contentType !== 'string') return 'has a "contentType" that is not a text';
  if ((value === undefined) === (valueBase64 === undefined)) return 'must have one of "value" and "valueBase64"';
  if (valueBase64 === undefined) return { key, contentType: contentType ?? 'application/json', content: { value } };
  if (typeof valueBase64 !== 'string' || !/^[A-Za-z0-9+/]*={0,2}$/.test(valueBase64))
    return 'has a "valueBase64" that is not base64';
  return { key, contentType: contentType ?? 'application/octet-stream', content: { valueBase64 } };
}

async function readAll(postern: Postern, keys: readonly string[]): Promise<Map<string, Found>> {
  const found = new Map<string, Found>();
  for (let at = 0; at < keys.length; at += READ_AT_ONCE)
    for (const item of await readSome(postern, keys.slice(at, at + READ_AT_ONCE))) found.set(item.key, item);
  return found;
}

/** In halves, if all of it is more than one answer may have. */
async function readSome(postern: Postern, keys: string[]): Promise<Found[]> {
  try {
    const { body } = await postern.request('POST /v1/config/read', { body: { keys } });
    return (body as Schemas['ReadConfig']).items;
  } catch (error) {
    if (!(error instanceof PosternError && error.code === 'too-large') || keys.length === 1) throw error;
    const half = Math.ceil(keys.length / 2);
    return [...(await readSome(postern, keys.slice(0, half))), ...(await readSome(postern, keys.slice(half)))];
  }
}

/** @returns undefined if the key has this value already */
function changeOf({ key, contentType, content }: Entry, found: Found | undefined): Change | undefined {
  const exists = found?.exists === true;
  if (exists && found.contentType === contentType && isSame(content, found)) return undefined;
  const condition = exists ? { ifMatch: found.etag as string } : { ifAbsent: true };
  const operation: Put = { put: key, contentType, ...content, ...condition };
  return { action: exists ? 'replace' : 'create', operation, bytes: Buffer.byteLength(JSON.stringify(operation)) };
}

function isSame(content: Entry['content'], found: Found): boolean {
  if ('value' in content) return found.valueBase64 === undefined && isDeepStrictEqual(content.value, found.value);
  return found.valueBase64 !== undefined && bytesOf(content.valueBase64).equals(bytesOf(found.valueBase64));
}

function bytesOf(base64: string): Buffer {
  return Buffer.from(base64, 'base64');
}

function batchesOf(changes: readonly Change[]): Change[][] {
  const batches: Change[][] = [];
  let bytes = Infinity;
  for (const change of changes) {
    const last = batches.at(-1);
    bytes += change.bytes;
    if (last !== undefined && last.length < WRITTEN_AT_ONCE && bytes <= BATCH_BYTES) last.push(change);
    else {
      batches.push([change]);
      bytes = change.bytes;
    }
  }
  return batches;
}

/** A large value goes as it is: in base64 it might be more than a gateway reads. */
async function writeBatch(postern: Postern, batch: readonly Change[], guard: WriteOptions['guard']): Promise<void> {
  const guarded = guard && { guard };
  const [first] = batch;
  if (batch.length > 1 || first === undefined || first.bytes <= BATCH_BYTES) {
    await postern.config.write(
      batch.map(({ operation }) => operation),
      guarded,
    );
    return;
  }
  const { put, contentType, value, valueBase64, ifMatch, ifAbsent } = first.operation;
  const content = valueBase64 === undefined ? Buffer.from(JSON.stringify(value)) : bytesOf(valueBase64);
  const condition = ifMatch === undefined ? { ifAbsent: ifAbsent === true } : { ifMatch: `"${ifMatch}"` };
  await postern.config.put(put, content, { contentType, ...condition, ...guarded });
}
