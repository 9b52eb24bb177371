/** What is counted while the run goes on, and what was found wrong. */
import type { RoundOutcome } from './rounds.js';

export interface Violation {
  /** Since the start, ms. */
  readonly at: number;
  readonly what: string;
  /** The history that shows it, when there is one. */
  readonly evidence?: unknown;
}

export interface KindTally {
  operations: number;
  unknown: number;
  objects: number;
  undecided: number;
  slowestJudgedMs: number;
}

export class Tally {
  readonly violations: Violation[] = [];
  readonly kinds: Record<string, KindTally> = {};
  readonly blows: Record<string, number> = {};
  /** By status. */
  readonly answers: Record<string, number> = {};
  readonly undecided: string[] = [];
  readonly #tenths = new Set<number>();

  judged({ kind, object, operations, undecided, judgedMs }: RoundOutcome): void {
    const tally = (this.kinds[kind] ??= { operations: 0, unknown: 0, objects: 0, undecided: 0, slowestJudgedMs: 0 });
    tally.operations += operations.length;
    tally.unknown += operations.filter(({ output }) => output === undefined).length;
    tally.objects += 1;
    tally.slowestJudgedMs = Math.max(tally.slowestJudgedMs, judgedMs);
    if (undecided !== undefined) {
      tally.undecided += 1;
      this.undecided.push(`${object}: ${undecided}`);
    }
  }

  struck(fault: string): void {
    this.blows[fault] = (this.blows[fault] ?? 0) + 1;
  }

  served(tenths: readonly number[], answers: Readonly<Record<string, number>>): void {
    for (const tenth of tenths) this.#tenths.add(tenth);
    for (const [status, count] of Object.entries(answers)) this.answers[status] = (this.answers[status] ?? 0) + count;
  }

  /** The longest time in which no request of any client was served, ms; known to a tenth of a second. */
  longestUnavailableMs(): number {
    const sorted = [...this.#tenths].sort((a, b) => a - b);
    let longest = 0;
    for (const [i, tenth] of sorted.entries()) longest = Math.max(longest, tenth - (sorted[i - 1] ?? tenth) - 1);
    return longest * 100;
  }
}
