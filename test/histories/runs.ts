/**
 * What users of runs rely on, looked for in the history of one name:
 *
 * - Nobody believes to have the attempt at an occurrence that somebody else believes to have. A client may believe it
 *   from when it was told until it says how the attempt ended, or its lease may have ended by its own clock.
 * - A token is higher than all that were told before it was asked for, whatever occurrence they are of, and none is
 *   given twice.
 * - Each occurrence could have happened one step after the other (`runs-model.ts`): after `done` nobody is started, and
 *   not more often than it may be.
 * - In the end somebody is started, and is done.
 */
import type { LeaseInput, LeaseOutput } from './client-lease.js';
import { AFTERWARDS } from './holds.js';
import { leaseOf } from './holds-model.js';
import type { Operation } from './linearizable.js';
import { isLeaseInput, LeaseLife } from './lives.js';
import { runModel, type RunInput, type RunOutput, type RunState } from './runs-model.js';
import { complaints, type Circumstances } from './workload.js';

type OfOne = Exclude<RunInput, { do: 'look' | 'end' }> & { readonly occurrence: string };

/** A look shows all occurrences. */
export type RunsInput = OfOne | { readonly do: 'look' } | LeaseInput;
export type RunsOutput =
  | RunOutput
  | { readonly occurrences: readonly { occurrence: string; state: RunState; attempt: number; token: number }[] }
  | LeaseOutput;
export type RunsOperation = Operation<RunsInput, RunsOutput>;

interface Belief {
  readonly occurrence: string;
  readonly by: string;
  readonly token: number;
  /** When it was asked for the first time. */
  readonly asked: number;
  readonly told: number;
  /** Not after `told` when it may not even then be believed. */
  readonly until: number;
}

export function runComplaints(
  operations: readonly RunsOperation[],
  maxAttempts: number,
  circumstances: Circumstances = {},
): string[] {
  const leases = LeaseLife.of(operations, circumstances.touchLagMs);
  const beliefs = beliefsOf(operations, leases);
  const names = new Set(operations.flatMap(({ input }) => ('occurrence' in input ? [input.occurrence] : [])));
  const model = runModel(maxAttempts);
  return [
    ...overlaps(beliefs),
    ...outOfOrder(beliefs),
    ...stuckInTheEnd(operations),
    ...[...names].flatMap((name) => complaints(model, ofOccurrence(name, operations, leases))),
  ];
}

function beliefsOf(operations: readonly RunsOperation[], leases: ReadonlyMap<string, LeaseLife>): Belief[] {
  const finished = new Map<number, number>();
  const asked = new Map<string, number>();
  for (const { input, begin } of operations) {
    if (input.do === 'finish') finished.set(input.token, Math.min(begin, finished.get(input.token) ?? Infinity));
    if (input.do === 'start') asked.set(input.by, Math.min(begin, asked.get(input.by) ?? Infinity));
  }
  const beliefs = new Map<string, Belief>();
  for (const { input, output, end } of operations) {
    if (input.do !== 'start' || output === undefined || !('started' in output) || !output.started) continue;
    const { by, occurrence } = input;
    const { token } = output;
    const key = `${token} ${by}`;
    const told = Math.min(end, beliefs.get(key)?.told ?? Infinity);
    const lived = leases.get(leaseOf(by))?.believedFrom(told) ?? Infinity;
    const until = Math.min(finished.get(token) ?? Infinity, lived);
    beliefs.set(key, { occurrence, by, token, asked: asked.get(by) as number, told, until });
  }
  return [...beliefs.values()].sort((a, b) => a.told - b.told);
}

function overlaps(beliefs: readonly Belief[]): string[] {
  return beliefs.flatMap((belief, i) =>
    beliefs
      .slice(0, i)
      .filter(
        (other) => other.occurrence === belief.occurrence && other.until > belief.told && belief.until > belief.told,
      )
      .map(
        (other) =>
          `two attempts at once: ${belief.by} was told at ${belief.told.toFixed(1)} that it has the attempt at ` +
          `${belief.occurrence} (${belief.token}), while ${other.by} (${other.token}) believed so ` +
          `from ${other.told.toFixed(1)} to ${other.until.toFixed(1)}`,
      ),
  );
}

function outOfOrder(beliefs: readonly Belief[]): string[] {
  return beliefs.flatMap((belief, i) =>
    beliefs
      .slice(0, i)
      .filter(({ told, token }) => token === belief.token || (told < belief.asked && token > belief.token))
      .map((other) => `${belief.by} was given ${belief.token}, and ${other.by} had been told of ${other.token}`),
  );
}

function stuckInTheEnd(operations: readonly RunsOperation[]): string[] {
  const last = operations.filter(({ client }) => client === AFTERWARDS);
  const isDone = last.some(({ input, output }) => input.do === 'finish' && output !== undefined && 'state' in output);
  return last.some(({ input }) => input.do === 'start') && !isDone
    ? ['nobody is started any more, although all others have gone']
    : [];
}

function ofOccurrence(
  name: string,
  operations: readonly RunsOperation[],
  leases: ReadonlyMap<string, LeaseLife>,
): Operation<RunInput, RunOutput>[] {
  const own = operations.flatMap((operation): Operation<RunInput, RunOutput>[] => {
    const { input, output } = operation;
    if (isLeaseInput(input)) return [];
    if (input.do !== 'look') return input.occurrence === name ? [operation as Operation<RunInput, RunOutput>] : [];
    if (output === undefined || !('occurrences' in output)) return [];
    const found = output.occurrences.find(({ occurrence }) => occurrence === name);
    const { state, attempt, token } = found ?? { state: null, attempt: 0, token: -1 };
    return [{ ...operation, input: { do: 'look' }, output: { state, attempt, token } }];
  });
  const used = new Set(own.flatMap(({ input }) => ('by' in input ? [leaseOf(input.by)] : [])));
  const ends = [...leases.values()]
    .filter((lease) => used.has(lease.name))
    .map((lease): Operation<RunInput, RunOutput> => ({
      client: lease.client,
      ...lease.ends,
      input: { do: 'end', by: lease.name },
      output: lease.ends.end === Infinity ? undefined : { done: true },
    }));
  return [...own, ...ends];
}
