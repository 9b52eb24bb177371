/**
 * What users of reservations rely on, looked for in the history of one lock, in whose line leases stand too:
 *
 * - All that is true of holds (`holds.ts`). A reservation is a hold that is bound to a time instead of a lease: it is
 *   believed until that time, whoever else is told, and cannot have ended before.
 * - None is shown for much longer than its time, while nothing is disturbed.
 *
 * Tokens of which nobody was told belong to requests that were given up. They may be shown for a moment, and nothing is
 * said of them.
 */
import { scaled } from '../support/timing.js';
import { holdComplaints, type LineOperation } from './holds.js';
import { isLeaseInput } from './lives.js';
import type { Circumstances } from './workload.js';

/** What is promised, and what the clock of the ensemble and a busy machine add to it. */
const FREED_WITHIN_MS = 2_000 + scaled(1_000);

export function reservationComplaints(
  operations: readonly LineOperation[],
  circumstances: Circumstances = {},
): string[] {
  const holders = holdersOf(operations);
  const known = operations.map((operation): LineOperation => {
    const { output } = operation;
    if (output === undefined || !('tokens' in output)) return operation;
    return { ...operation, output: { tokens: output.tokens.filter((token) => holders.has(token)) } };
  });
  return [...holdComplaints(known, { limit: 1 }, circumstances), ...freedLate(known, holders, circumstances)];
}

/** Who was told of a token. */
function holdersOf(operations: readonly LineOperation[]): Map<number, string> {
  return new Map(
    operations.flatMap(({ input, output }): [number, string][] =>
      input.do === 'acquire' && output !== undefined && 'token' in output ? [[output.token, input.by]] : [],
    ),
  );
}

function freedLate(
  operations: readonly LineOperation[],
  holders: ReadonlyMap<number, string>,
  { disturbed }: Circumstances,
): string[] {
  if (disturbed === undefined) return [];
  const ends = new Map<string, number>();
  for (const { input } of operations)
    if (isLeaseInput(input) && input.do === 'reserved')
      ends.set(input.lease, Math.max(input.until, ends.get(input.lease) ?? -Infinity));
  return operations.flatMap(({ begin, output }) => {
    if (output === undefined || !('tokens' in output)) return [];
    return output.tokens.flatMap((token) => {
      const by = holders.get(token) as string;
      const until = ends.get(by);
      if (until === undefined || begin <= until + FREED_WITHIN_MS) return [];
      if (disturbed.some((one) => one.begin < begin && one.end > until)) return [];
      return [`${by} was reserved (${token}) until ${until.toFixed(1)}, and was still shown at ${begin.toFixed(1)}`];
    });
  });
}
