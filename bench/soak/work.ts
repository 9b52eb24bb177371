/** What the runner of a soak asks its load for, and what that tells. */

export interface Work {
  readonly ports: readonly number[];
  readonly leases: number;
  readonly locks: number;
  /** Contenders of each lock, one of which holds it. */
  readonly contenders: number;
  /** Per second. */
  readonly messages: number;
}

/** Counted since the start. */
export interface Told {
  readonly leases: number;
  readonly heartbeats: number;
  readonly handoffs: number;
  readonly pushed: number;
  readonly acknowledged: number;
  /** With every recipe, as they were judged. */
  readonly operations: number;
  readonly objects: number;
  /** Answers that were not as hoped, by status and code; each was asked for again. */
  readonly refusals: Readonly<Record<string, number>>;
  /** Sentences; none may be there. */
  readonly violations: readonly string[];
}

/** From the runner. `tell` is answered with a {@link Told}; so is `stop`, when all has been given back. */
export type Order = { start: Work } | 'tell' | 'stop';

/** To the runner, when all leases are there and all work goes on. */
export interface Steady {
  readonly steady: true;
}
