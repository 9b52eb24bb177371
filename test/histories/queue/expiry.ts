/**
 * What users of messages that expire rely on, looked for in the history of one queue:
 *
 * - All that is true of messages that are claimed (`claims.ts`), but that one which has expired need not be
 *   acknowledged.
 * - No claim that is asked for after the time of a message gets it.
 * - Before its time a message that was pushed, and that nobody began to acknowledge, is there whenever somebody looks,
 *   and is not shown as expired.
 *
 * A message is pushed at some time between the begin and the end of its push, and expires `expiresInMs` after that.
 */
import { scaled } from '../../support/timing.js';
import type { Circumstances } from '../workload.js';
import { claimComplaints, type ClaimOperation } from './claims.js';

/** A replica that has just started knows the ensemble's clock from one slow write; and so does who looks. */
export const CLOCK_MS = scaled(2_000);

interface Lifetime {
  readonly id: string;
  readonly pushed: number;
  /** On the clock of `now`, at the earliest and at the latest; Infinity: nobody knows when it was pushed. */
  readonly least: number;
  readonly most: number;
}

export function expiryComplaints(operations: readonly ClaimOperation[], circumstances: Circumstances = {}): string[] {
  const lifetimes = operations.flatMap(({ input, begin, end }): Lifetime[] => {
    if (input.do !== 'push' || input.expiresInMs === undefined) return [];
    const times = { pushed: end, least: begin + input.expiresInMs, most: end + input.expiresInMs };
    return input.ids.map((id) => ({ id, ...times }));
  });
  const last = Math.max(...operations.map(({ begin, end }) => (end === Infinity ? begin : end)));
  const over = lifetimes.filter(({ least }) => least - CLOCK_MS <= last).map(({ id }) => id);
  return [
    ...claimComplaints(operations, circumstances, new Set(over)),
    ...givenOutLate(operations, lifetimes),
    ...goneEarly(operations, lifetimes),
  ];
}

function givenOutLate(operations: readonly ClaimOperation[], lifetimes: readonly Lifetime[]): string[] {
  const ends = new Map(lifetimes.map(({ id, most }) => [id, most]));
  return operations.flatMap(({ begin, input, output }) => {
    if (input.do !== 'claim' || output === undefined || !('items' in output)) return [];
    return output.items
      .filter(({ id }) => begin > (ends.get(id) ?? Infinity) + CLOCK_MS)
      .map(
        ({ id }) =>
          `${input.lease} asked at ${begin.toFixed(1)}, and was given ${id}, which expired at ${ends.get(id)?.toFixed(1)}`,
      );
  });
}

function goneEarly(operations: readonly ClaimOperation[], lifetimes: readonly Lifetime[]): string[] {
  const acknowledged = new Map<string, number>();
  for (const { begin, input } of operations)
    if (input.do === 'ack') acknowledged.set(input.id, Math.min(begin, acknowledged.get(input.id) ?? Infinity));
  return operations.flatMap(({ begin, end, output }) => {
    if (output === undefined || !('shown' in output)) return [];
    const states = new Map(output.shown.map(({ id, state }) => [id, state]));
    return lifetimes
      .filter(({ id, pushed, least }) => {
        const state = states.get(id);
        if (end > least - CLOCK_MS) return false;
        if (state !== undefined) return state === 'expired';
        return pushed < begin && (acknowledged.get(id) ?? Infinity) > end;
      })
      .map(
        ({ id, least }) =>
          `${id} was ${states.get(id) ?? 'not shown'} at ${begin.toFixed(1)}, and lasts until ${least.toFixed(1)}`,
      );
  });
}
