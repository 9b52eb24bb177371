/** The module of the process that judges histories while the run goes on. */
import process from 'node:process';
import type { Operation } from '../histories/linearizable.js';
import { workloads } from '../histories/workloads/index.js';

export interface Question {
  readonly id: number;
  readonly kind: string;
  readonly operations: readonly Operation<unknown, unknown>[];
}

export interface Judgement {
  readonly id: number;
  readonly complaints: readonly string[];
  /** Why it could not be decided. */
  readonly undecided?: string;
  readonly ms: number;
}

process.on('message', (message) => {
  const { id, kind, operations } = message as Question;
  const begin = performance.now();
  const judgement = judge(kind, operations);
  process.send?.({ id, ms: performance.now() - begin, ...judgement } satisfies Judgement);
});
process.on('disconnect', () => process.exit(0));

function judge(
  kind: string,
  operations: readonly Operation<unknown, unknown>[],
): Pick<Judgement, 'complaints' | 'undecided'> {
  try {
    return { complaints: workloads[kind]?.check(operations) ?? [`nobody knows what a ${kind} is`] };
  } catch (error) {
    return { complaints: [], undecided: (error as Error).message };
  }
}
