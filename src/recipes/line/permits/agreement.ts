/**
 * The number of permits agreed on by all callers of a semaphore: the data of its directory.
 *
 *   {"limit": 10, "high": 10}
 *
 * `high` is the highest limit under which somebody who still holds may have been granted. It is above `limit` only from
 * a lowering until the last grant that does not fit any more is released: then those who hold need not be the first in
 * line (`grant.ts`).
 *
 * Every grant checks the version of these data in its transaction, so a change of the limit is exact: whatever is
 * granted after it was decided under the new one.
 */
import type { PlaceKind } from '../../../leases/layout.js';
import type { BoundClient } from '../../../zookeeper/bound.js';
import type { NodeData } from '../../../zookeeper/operations.js';
import { permits, ruleOf, type LineRule } from '../rule.js';
import { expectKnown, type KnownFields } from '../../known-record.js';

export interface Agreement {
  limit: number;
  high: number;
  /** Of the directory's data. */
  version: number;
  /** Of two readings the one with the higher is the newer. */
  mzxid: number;
}

export function encodeAgreement({ limit, high }: Pick<Agreement, 'limit' | 'high'>): Buffer {
  return Buffer.from(JSON.stringify({ limit, high }));
}

type Stored = Pick<Agreement, 'limit' | 'high'>;

const KNOWN: KnownFields<Stored> = { limit: true, high: true };

/**
 * @returns undefined for a directory that somebody else made
 * @throws NewerRecordError
 */
export function decodeAgreement({ data, stat }: Pick<NodeData, 'data' | 'stat'>): Agreement | undefined {
  const stored = parse(data);
  if (!Number.isSafeInteger(stored?.limit) || !Number.isSafeInteger(stored?.high)) return undefined;
  const { limit, high } = expectKnown('the limit of this semaphore', stored as Stored, KNOWN);
  return { limit, high, version: stat.version, mzxid: stat.mzxid };
}

function parse(data: Buffer): Partial<Stored> | undefined {
  try {
    return JSON.parse(data.toString('utf8')) as Partial<Stored>;
  } catch {
    return undefined;
  }
}

/** The agreed limit, as the control session's server knows it. */
export async function readAgreement(zk: BoundClient, directory: string): Promise<Agreement | undefined> {
  const node = await zk.find(directory);
  return node === undefined ? undefined : decodeAgreement(node);
}

/** The rule of a line that is only looked at; that of a semaphore is read. One that nobody agreed on admits nobody. */
export async function readRule(zk: BoundClient, kind: PlaceKind, directory: string): Promise<LineRule> {
  if (kind !== 'semaphore') return ruleOf(kind);
  return ruleOfAgreement(await readAgreement(zk, directory));
}

export function ruleOfAgreement(agreement: Agreement | undefined): LineRule {
  return agreement === undefined ? ruleOf('semaphore') : permits(agreement.limit, agreement.high);
}
