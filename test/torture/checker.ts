/** The module of the process that judges histories while the run goes on. */
import process from 'node:process';
import { UNDECIDED, type Operation } from '../histories/linearizable.js';
import type { Circumstances } from '../histories/workload.js';
import { workloads } from '../histories/workloads/index.js';

export interface Question {
  readonly id: number;
  readonly kind: string;
  readonly operations: readonly Operation<unknown, unknown>[];
  readonly circumstances: Circumstances;
}

export interface Judgement {
  readonly id: number;
  readonly complaints: readonly string[];
  /** Why it could not be decided. */
  readonly undecided?: string;
  readonly ms: number;
}

process.on('message', (message) => {
  const question = message as Question;
  const begin = performance.now();
  const judgement = judge(question);
  process.send?.({ id: question.id, ms: performance.now() - begin, ...judgement } satisfies Judgement);
});
process.on('disconnect', () => process.exit(0));

function judge({ kind, operations, circumstances }: Question): Pick<Judgement, 'complaints' | 'undecided'> {
  try {
    const found = workloads[kind]?.check(operations, circumstances) ?? [`nobody knows what a ${kind} is`];
    const undecided = found.find((one) => one.startsWith(UNDECIDED));
    return {
      complaints: found.filter((one) => !one.startsWith(UNDECIDED)),
      ...(undecided !== undefined && { undecided }),
    };
  } catch (error) {
    return { complaints: [], undecided: (error as Error).message };
  }
}
