/**
 * Counters: one whole number per name, to which many add at the same time.
 *
 * Guarantee: exact. Every operation that was answered counts once, also when many add through several replicas, and when an answer was lost. With a
 *   requestId it counts once however often it is repeated within five minutes, through any replica; the repeat answers what the first try did.
 * Not guaranteed: that two requests without a requestId, of which the second was meant as a repeat, count once. That one replica's
 *   adders get on as fast as another's: between replicas the quicker write wins, and the other one is tried again.
 *
 * Layout:  <root>/ns/<namespace>/counters/<name>                 persistent; one that was never used is 0 and has no znode
 *          <root>/ns/<namespace>/counter-marks/<bb>/<hash>       persistent; of an operation with a requestId, until `tidy.ts` removes it
 *
 *   {"value":42,"marks":[…]}              the marks of the last 32 transactions (`marks.ts`), for the replica that lost an answer
 *   {"value":42,"fingerprint":"…"}        what the operation made of the counter, and what it was
 *
 * One walk through (`writer.ts`), with adders at replicas A and B:
 *
 * 1. Operations that arrive at A while a transaction of A on this counter is in flight wait, and become the next one together, in the order of
 *    their arrival. So A's adders cost a transaction per round trip, not one each, and never contend with each other.
 * 2. A syncs and reads the counter, and the marks of those operations that have a requestId. One that has its mark has happened: it is answered
 *    from the mark and taken out.
 * 3. One `multi`: `setData` of the counter at the version that was read, and a mark for each. A crash before or in it leaves nothing; after it
 *    a repeat finds the mark.
 * 4. BAD_VERSION: B was quicker. Again from 2, after a random pause. NODE_EXISTS: a repeat of one of the operations came through B; from 2 it is found.
 * 5. The answer is lost: again from 2, where the counter's own marks tell whether the transaction has happened. It is sent again only at
 *    the same version, so it cannot happen twice. When a client's deadline passes first, it is told `outcome-unknown`.
 *
 * Source:  ZooKeeper recipes has none; Curator's DistributedAtomicLong is the same compare-and-set without batches, marks or a word about lost answers.
 */
import { InvalidError, PosternError } from '../../errors.js';
import type { NodeData } from '../../zookeeper/operations.js';
import { decodeMarks, encodeMarks, type Mark } from '../marks.js';

/** What JSON numbers hold exactly. */
export const COUNTER_MAX = Number.MAX_SAFE_INTEGER;

export type CounterOperation =
  { type: 'add'; by: number } | { type: 'set'; value: number; expected: number | undefined };

/** What is in a counter's znode. */
export interface CounterNode {
  value: number;
  marks: readonly Mark[];
  version: number;
}

/** What is in an operation's mark. */
export interface OperationMark {
  /** Of the counter, after the operation. */
  value: number;
  fingerprint: string;
}

export function encodeCounter(value: number, marks: readonly Mark[]): Buffer {
  return Buffer.from(JSON.stringify({ value, marks: encodeMarks(marks) }));
}

/** @returns undefined for what somebody else has put there */
export function valueOf(data: Buffer): number | undefined {
  const { value } = parse(data);
  return Number.isSafeInteger(value) ? (value as number) : undefined;
}

/** @throws PosternError `conflict` for what somebody else has put there */
export function decodeCounter(name: string, { data, stat }: Pick<NodeData, 'data' | 'stat'>): CounterNode {
  const value = valueOf(data);
  if (value === undefined)
    throw new PosternError('conflict', `The znode of the counter "${name}" holds something else: it is no counter.`);
  return { value, marks: decodeMarks(parse(data)['marks']), version: stat.version };
}

export function encodeOperationMark({ value, fingerprint }: OperationMark): Buffer {
  return Buffer.from(JSON.stringify({ value, fingerprint }));
}

export function decodeOperationMark(data: Buffer): OperationMark {
  const { value, fingerprint } = parse(data);
  return { value: Number(value), fingerprint: String(fingerprint) };
}

/** What the operation makes of the value. @throws PosternError `invalid` for an overflow, `version-mismatch` for another value than expected */
export function applyOperation(name: string, value: number, operation: CounterOperation): number {
  if (operation.type === 'set') {
    const { expected } = operation;
    if (expected !== undefined && expected !== value)
      throw new PosternError('version-mismatch', `The counter "${name}" is ${value}, not ${expected}.`, {
        members: { name, value },
      });
    return operation.value;
  }
  const { by } = operation;
  const sum = value + by;
  if (Number.isSafeInteger(sum)) return sum;
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
