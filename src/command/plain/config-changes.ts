/**
 * What has to be written so that keys have the values that were exported: for `config import` and `import`. Every write
 * is conditional on what was read, so nothing that somebody else wrote meanwhile is written over.
 */
import { isDeepStrictEqual } from 'node:util';
import { PosternError, type Postern, type Schemas, type WriteOptions } from '../../client/index.js';

type Found = Schemas['ReadConfigItem'];
type Put = Schemas['ConfigOperation'] & { put: string; contentType: string };

export interface Entry {
  key: string;
  contentType: string;
  /** As the contract has it: JSON, or bytes in base64. */
  content: { value: unknown } | { valueBase64: string };
}

export interface Change {
  action: 'create' | 'replace';
  operation: Put;
  /** Of the operation as JSON. */
  bytes: number;
}

const READ_AT_ONCE = 64;
const WRITTEN_AT_ONCE = 100;
/** Of the operations in one request: half of what a gateway reads unless set otherwise. */
export const BATCH_BYTES = 512 * 1024;

const TEXT = /"(?:[^"\\]|\\.)*"/g;
const NUMBER = /-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/g;
const INTEGER = /^-?[0-9]+$/;

/** @returns the JSON object in the line, or what is wrong with it */
export function objectIn(line: string): Readonly<Record<string, unknown>> | string {
  let parsed: unknown;
  try {
    parsed = JSON.parse(line);
  } catch {
    return 'is not JSON';
  }
  const numbers = line.replace(TEXT, '""').match(NUMBER) ?? [];
  // As the gateway has it: what is written back in the same digits is kept.
  const isExact = numbers.every(
    (text) => !INTEGER.test(text) || Number.isSafeInteger(Number(text)) || String(Number(text)) === text,
  );
  if (!isExact) return 'has an integer that would not be kept as it is; give such a value as "valueBase64"';
  if (typeof parsed !== 'object' || parsed === null || Array.isArray(parsed)) return 'is not a JSON object';
  return parsed as Readonly<Record<string, unknown>>;
}

/** @returns what is wrong with it, if something is */
export function entryOf({ key, value, valueBase64, contentType }: Readonly<Record<string, unknown>>): Entry | string {
  if (typeof key !== 'string') return 'has no "key" that is a text';
  if (contentType !== undefined && typeof contentType !== 'string') return 'has a "contentType" that is not a text';
  if ((value === undefined) === (valueBase64 === undefined)) return 'must have one of "value" and "valueBase64"';
  if (valueBase64 === undefined) return { key, contentType: contentType ?? 'application/json', content: { value } };
  if (typeof valueBase64 !== 'string' || !/^[A-Za-z0-9+/]*={0,2}$/.test(valueBase64))
    return 'has a "valueBase64" that is not base64';
  return { key, contentType: contentType ?? 'application/octet-stream', content: { valueBase64 } };
}

/** @returns nothing for keys that have their value already */
export async function changesOf(postern: Postern, entries: readonly Entry[]): Promise<Change[]> {
  const found = await readAll(
    postern,
    entries.map(({ key }) => key),
  );
  return entries.flatMap((entry) => changeOf(entry, found.get(entry.key)) ?? []);
}

async function readAll(postern: Postern, keys: readonly string[]): Promise<Map<string, Found>> {
  const found = new Map<string, Found>();
  for (let at = 0; at < keys.length; at += READ_AT_ONCE)
    for (const { items } of await inHalves(keys.slice(at, at + READ_AT_ONCE), (some) => readSome(postern, some)))
      for (const item of items) found.set(item.key, item);
  return found;
}

async function readSome(postern: Postern, keys: string[]): Promise<Schemas['ReadConfig']> {
  return (await postern.request('POST /v1/config/read', { body: { keys } })).body as Schemas['ReadConfig'];
}

/** Whether it is more, or more deeply nested, than a gateway takes or answers at once. */
function isTooMuch(error: unknown): boolean {
  return error instanceof PosternError && (error.code === 'too-large' || error.code === 'malformed');
}

/** Asks for all of it, or in halves if that is too much at once. */
export async function inHalves<T, R>(items: T[], ask: (some: T[]) => Promise<R>): Promise<R[]> {
  try {
    return [await ask(items)];
  } catch (error) {
    if (!isTooMuch(error) || items.length === 1) throw error;
    const half = Math.ceil(items.length / 2);
    return [...(await inHalves(items.slice(0, half), ask)), ...(await inHalves(items.slice(half), ask))];
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

/** Writes them in batches, or in parts if a batch is too much at once. @returns each part once it is written */
export async function* writeAll(
  postern: Postern,
  changes: readonly Change[],
  guard: WriteOptions['guard'],
): AsyncGenerator<readonly Change[]> {
  for (const batch of batchesOf(changes)) yield* writeInParts(postern, batch, guard);
}

async function* writeInParts(
  postern: Postern,
  batch: readonly Change[],
  guard: WriteOptions['guard'],
): AsyncGenerator<readonly Change[]> {
  const [first] = batch;
  try {
    if (first !== undefined && first.bytes > BATCH_BYTES) await writeAsItIs(postern, first, guard);
    else
      await postern.config.write(
        batch.map(({ operation }) => operation),
        guard && { guard },
      );
  } catch (error) {
    if (!isTooMuch(error) || first === undefined) throw error;
    if (batch.length === 1) await writeAsItIs(postern, first, guard);
    else {
      const half = Math.ceil(batch.length / 2);
      yield* writeInParts(postern, batch.slice(0, half), guard);
      yield* writeInParts(postern, batch.slice(half), guard);
      return;
    }
  }
  yield batch;
}

/** Alone, and as the bytes that it has: in an operation it has more of them, and is nested more deeply. */
async function writeAsItIs(postern: Postern, { operation }: Change, guard: WriteOptions['guard']): Promise<void> {
  const { put, contentType, value, valueBase64, ifMatch, ifAbsent } = operation;
  const content = valueBase64 === undefined ? Buffer.from(JSON.stringify(value)) : bytesOf(valueBase64);
  const condition = ifMatch === undefined ? { ifAbsent: ifAbsent === true } : { ifMatch: `"${ifMatch}"` };
  await postern.config.put(put, content, { contentType, ...condition, ...(guard && { guard }) });
}
