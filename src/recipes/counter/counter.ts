/**
 * Counters: one integer per name, to which many clients add concurrently.
 *
 * Guarantee: exact. Every operation that was answered counts once, also if many add through several replicas, and if an
 * answer was lost. With a requestId it counts once however often it is repeated within five minutes, through any
 * replica; a repetition is answered like the first attempt.
 * Not guaranteed: that two requests without a requestId count once if the second was meant as a repetition. That one
 * replica's adders proceed as fast as another's: between replicas the faster write wins, and the other one is retried.
 *
 * Layout:  <root>/ns/<namespace>/counters/<name>                 persistent; one that was never used is 0 and has no
 *                                                                znode
 *          <root>/ns/<namespace>/counter-marks/<bb>/<hash>       persistent; of an operation with a requestId, until
 *                                                                housekeeping removes it
 *
 *   {"value":42,"marks":[…]}                 the marks of the last 32 transactions (`marks.ts`), for the replica that
 *                                            lost an answer
 *   {"value":0,"deleted":true,"marks":[…]}   a tombstone: as if it was never used, but its version goes on, until
 *                                            `tidy-deleted.ts` removes it
 *   {"value":42,"fingerprint":"…"}           what the operation made of the counter, and what it was
 *
 * One walk through (`writer.ts`), with adders at replicas A and B:
 *
 * 1. Operations that arrive at A while a transaction of A on this counter is in flight wait, and form the next one
 *    together, in order of arrival. So A's adders cost one transaction per round trip, not one each, and never contend
 *    with each other.
 * 2. A syncs and reads the counter, and the marks of those operations that have a requestId. An operation with a mark
 *    was done: it is answered from the mark and removed from the batch.
 * 3. One `multi`: `setData` of the counter at the version that was read, and a mark for each. A crash before or in it
 *    leaves nothing; after it a repeat finds the mark.
 * 4. BAD_VERSION: B was faster. Start again from 2, after a random pause. NODE_EXISTS: a repetition of one of the
 *    operations came through B; step 2 finds it.
 * 5. The answer is lost: start again from 2, where the counter's own marks tell whether the transaction was done. It is
 *    sent again only at the same version, so it cannot be done twice. When a client's deadline passes first, it is told
 *    `outcome-unknown`.
 *
 * A deletion is an operation like the others, in its place among them. It writes a tombstone and does not delete the
 * znode: the versions of a new one would begin at 0 again, and a transaction that was sent long ago, at a version of
 * the old counter, would be done to the new one (C31).
 *
 * Reading order: this; `writer.ts`; `view.ts` and `observers.ts`; `tidy-deleted.ts`.
 *
 * Source:  ZooKeeper recipes has none; Curator's DistributedAtomicLong is the same compare-and-set without batches,
 *          marks or a word about lost answers.
 */
import { InvalidError, PosternError, StandingConflictError } from '../../errors.js';
import type { NodeData } from '../../zookeeper/operations.js';
import { hasEtag, type ETags } from '../etags.js';
import { decodeMarks, encodeMarks, type Mark } from '../marks.js';
import { expectKnown, type KnownFields } from '../known-record.js';

/** What JSON numbers hold exactly. */
export const COUNTER_MAX = Number.MAX_SAFE_INTEGER;

export type CounterOperation =
  | { type: 'add'; by: number }
  | { type: 'set'; value: number; expected: number | undefined }
  | { type: 'delete'; ifMatch: ETags | undefined };

/** What an operation finds, and leaves. */
export interface Counter {
  value: number;
  /** Whether it was changed since it was deleted, or ever. */
  exists: boolean;
  /** Undefined in the middle of a batch, which nobody sees. */
  etag?: string | undefined;
}

/** What everybody may see. */
export interface CounterState extends Counter {
  /** Never used again for another value: of the node's creation and version. */
  etag: string;
}

/** A counter that was never changed, or was deleted. */
export const UNUSED_COUNTER: CounterState = { value: 0, exists: false, etag: '"0-0"' };

/** What is in a counter's znode. */
export interface CounterNode {
  state: CounterState;
  marks: readonly Mark[];
  version: number;
}

/** What is in an operation's mark. */
export interface OperationMark {
  /** Of the counter, after the operation. */
  value: number;
  fingerprint: string;
}

export function encodeCounter({ value, exists }: Counter, marks: readonly Mark[]): Buffer {
  return Buffer.from(JSON.stringify({ value, ...(!exists && { deleted: true }), marks: encodeMarks(marks) }));
}

const KNOWN_COUNTER: KnownFields<Record<'value' | 'deleted' | 'marks', unknown>> = {
  value: true,
  deleted: true,
  marks: true,
};

/**
 * @returns undefined for what somebody else has put there
 * @throws NewerRecordError
 */
export function stateOf(name: string, { data, stat }: Pick<NodeData, 'data' | 'stat'>): CounterState | undefined {
  const stored = parse(data);
  const { value, deleted } = stored;
  if (!Number.isSafeInteger(value)) return undefined;
  expectKnown(`the counter "${name}"`, stored as Record<'value' | 'deleted' | 'marks', unknown>, KNOWN_COUNTER);
  if (deleted === true) return UNUSED_COUNTER;
  return { value: value as number, exists: true, etag: `"${stat.czxid}-${stat.version}"` };
}

/** @throws PosternError `conflict` for what somebody else has put there */
export function decodeCounter(name: string, node: Pick<NodeData, 'data' | 'stat'>): CounterNode {
  const state = stateOf(name, node);
  if (state === undefined)
    throw new StandingConflictError(`The znode of the counter "${name}" holds something else: it is no counter.`);
  return { state, marks: decodeMarks(parse(node.data)['marks']), version: node.stat.version };
}

export function encodeOperationMark({ value, fingerprint }: OperationMark): Buffer {
  return Buffer.from(JSON.stringify({ value, fingerprint }));
}

export function decodeOperationMark(data: Buffer): OperationMark {
  const { value, fingerprint } = parse(data);
  return { value: Number(value), fingerprint: String(fingerprint) };
}

/**
 * What the operation makes of the counter.
 * @throws PosternError `invalid` for an overflow, `version-mismatch` for another value or ETag than expected,
 *   `not-found` for the deletion of what is not there
 */
export function applyOperation(name: string, counter: Counter, operation: CounterOperation): Counter {
  const { value } = counter;
  switch (operation.type) {
    case 'add':
      return { value: sum(value, operation.by), exists: true };
    case 'set': {
      const { expected } = operation;
      if (expected !== undefined && expected !== value)
        throw new PosternError('version-mismatch', `The counter "${name}" is ${value}, not ${expected}.`, {
          members: { name, value },
        });
      return { value: operation.value, exists: true };
    }
    case 'delete':
      checkDeletion(name, counter, operation.ifMatch);
      return { value: 0, exists: false };
  }
}

function checkDeletion(name: string, { value, exists, etag }: Counter, ifMatch: ETags | undefined): void {
  if (exists && (ifMatch === undefined || hasEtag(ifMatch, etag?.replaceAll('"', '')))) return;
  if (ifMatch === undefined)
    throw new PosternError('not-found', `There is no counter "${name}".`, { members: { name } });
  const what = exists ? 'has another ETag' : 'does not exist';
  throw new PosternError('version-mismatch', `The counter "${name}" ${what}; nothing was deleted.`, {
    members: { name, value },
  });
}

function sum(value: number, by: number): number {
  if (Number.isSafeInteger(value + by)) return value + by;
  throw new InvalidError(
    'by',
    by,
    `such that the counter, which is ${value}, stays from ${-COUNTER_MAX} to ${COUNTER_MAX}`,
    { value, minValue: -COUNTER_MAX, maxValue: COUNTER_MAX },
  );
}

function parse(data: Buffer): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(data.toString('utf8'));
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
  } catch {
    return {};
  }
}
