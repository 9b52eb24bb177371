/**
 * Configuration and name service: a znode for every key, whose value is any bytes with a content type. Waiting for a
 * key that does not exist yet is a rendezvous.
 *
 * Guarantee: every write is one transaction at the versions that were read, so a condition that held at the decision
 * still holds at the write. An ETag names one state of one key forever: it is never reused, even if the key is deleted
 * and created again (C31). A request repeated with its Idempotency-Key is answered with its first outcome (C32).
 * Not guaranteed: that a watcher sees every intermediate value; it sees the last one.
 *
 * Layout:  <root>/ns/<namespace>/config/<key>     persistent; a `/` in the key is a level of the tree
 *
 *   {"postern":"value","type":"text/plain","marks":[…]}\n<the bytes>     a key
 *   {"postern":"deleted","marks":[…]}\n                                  a tombstone: no key, but its version goes on
 *   (anything else, also nothing)                                        a directory, because there are keys below it
 *                                                                        (C33)
 *
 *   absent ──put──▶ value ──delete──▶ tombstone ──24 h (tidy.ts)──▶ absent, or a directory when keys are below
 *     directory ──put──▶ value ◀──put── tombstone
 *
 * The ETag is czxid-version: the version counts on as long as the znode exists, and a new znode has a higher czxid.
 * `marks` are the last writes (`marks.ts`).
 *
 * One walk through (`write.ts`), for a put with `If-Match` and an Idempotency-Key at replica A:
 *
 * 1. `sync`, read the key. If its marks contain this request, it was done: answer with its outcome. A crash before 3
 *    leaves nothing.
 * 2. The value does not match `If-Match`: 412. The version read is the one that 3 checks, so nothing can come in
 *    between.
 * 3. One `multi`: the guard's check (`line/guard.ts`), directories that are missing (C13), `setData` at that version.
 *    BAD_VERSION, or NODE_EXISTS, or NO_NODE: somebody else wrote, or tidied up; start again from 1.
 * 4. The answer is lost between ZooKeeper and A: start again from 1, where the mark tells. The first attempt, arriving
 *    late, and the second one cannot both succeed: they have the same version. The client's deadline passes first: 503
 *    `outcome-unknown`.
 * 5. A dies, or its answer is lost on the way to the client: the client repeats the request at B, from 1.
 * 6. Waiters for the key are woken by their replica's watch, which they share (`observers.ts`).
 *
 * Reading order: this; `write.ts` with `plan.ts`; `view.ts` and `summaries.ts`; `observers.ts` and
 * `watched-prefixes.ts`; `tidy.ts`.
 *
 * Source:  ZooKeeper recipes, "Configuration, Name Service" and "Rendezvous"; ZOOKEEPER-2402 for why versions alone are
 *          not enough.
 */
import type { NodeData } from '../../zookeeper/operations.js';
import { decodeMarks, encodeMarks, type Mark } from '../marks.js';
import { expectKnown, type KnownFields } from '../known-record.js';

/**
 * A packet to ZooKeeper may have 1 MiB (jute.maxbuffer); with the longest path and all marks a value of this size fits.
 */
export const VALUE_BYTES_MAX = 960 * 1024;

/** What a key has. */
export interface ConfigValue {
  contentType: string;
  bytes: Buffer;
  /** Without quotes. */
  etag: string;
  /** Epoch ms on the ensemble's clock. */
  modifiedAt: number;
}

/** What a znode of the tree is. */
export interface ConfigNode {
  /** Undefined for a tombstone and for a directory. */
  value: ConfigValue | undefined;
  tombstone: boolean;
  marks: readonly Mark[];
  czxid: number;
  version: number;
}

interface Header {
  postern: 'value' | 'deleted';
  type?: string;
  marks: string[];
}

export function etagOf(czxid: number, version: number): string {
  return `${czxid}-${version}`;
}

export function encodeValue(contentType: string, bytes: Buffer, marks: readonly Mark[]): Buffer {
  return Buffer.concat([encodeHeader({ postern: 'value', type: contentType, marks: encodeMarks(marks) }), bytes]);
}

export function encodeTombstone(marks: readonly Mark[]): Buffer {
  return encodeHeader({ postern: 'deleted', marks: encodeMarks(marks) });
}

/** @throws NewerRecordError */
export function decodeNode({ data, stat }: Pick<NodeData, 'data' | 'stat'>): ConfigNode {
  const { czxid, version, mtime } = stat;
  const end = data.indexOf(0x0a);
  const header = end < 0 ? undefined : decodeHeader(data.subarray(0, end));
  const value =
    header?.postern === 'value'
      ? {
          contentType: String(header.type),
          bytes: data.subarray(end + 1),
          etag: etagOf(czxid, version),
          modifiedAt: mtime,
        }
      : undefined;
  return {
    value,
    tombstone: header?.postern === 'deleted',
    marks: header === undefined ? [] : decodeMarks(header.marks),
    czxid,
    version,
  };
}

function encodeHeader(header: Header): Buffer {
  return Buffer.from(`${JSON.stringify(header)}\n`);
}

const KNOWN_HEADER: KnownFields<Header> = { postern: ['value', 'deleted'], type: true, marks: true };

function decodeHeader(line: Buffer): Header | undefined {
  const header = line[0] === 0x7b ? parse(line) : undefined;
  return typeof header?.postern === 'string'
    ? expectKnown('a value of the configuration', header, KNOWN_HEADER)
    : undefined;
}

function parse(line: Buffer): Header | undefined {
  try {
    return JSON.parse(line.toString('utf8')) as Header;
  } catch {
    return undefined;
  }
}
