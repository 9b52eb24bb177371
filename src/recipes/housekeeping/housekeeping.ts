/**
 * Housekeeping, done by one replica at a time: the one whose control session owns `<root>/housekeeper`. When it dies,
 * the node goes with its session and another replica takes over at its next turn. Nothing depends on it but the size of
 * the tree and how long an abandoned place can stay in an otherwise empty line.
 *
 * The work is the recipes' (`line/tidy.ts`, `queue/admin/tidy.ts` and so on): each has a chore, and the chores take
 * turns.
 */
import { fullJitter, HOUR, MINUTE } from '../../time.js';
import { NoReplyError } from '../../zookeeper/errors.js';
import type { Coordination } from '../coordination.js';
import { takeOffice } from './office.js';
import { Sweep, type OnFault } from './sweep.js';

export interface HousekeepingTiming {
  everyMs: number;
  /** How long a directory must have been unused. */
  idleMs: number;
  /** How long it then says so before it is removed; a minute unless said otherwise. */
  removedAfterMs?: number;
  /** How long a deleted configuration key, or counter, keeps its version; a day unless said otherwise. */
  tombstoneMs?: number;
  /** How long a repeated operation on a counter, or message, is recognised; five minutes unless said otherwise. */
  markMs?: number;
}

export const HOUSEKEEPING_TIMING: HousekeepingTiming = { everyMs: MINUTE, idleMs: HOUR };

/** One thing to tidy up. Nothing may depend on when it is done, or by which replica. */
export interface Chore {
  /** Goes over what is there once. */
  sweep(sweep: Sweep): Promise<void>;
  /** Another replica takes over: forget what was remembered from one round to the next. */
  handedOver?(): void;
}

export class Housekeeping {
  readonly #context: Coordination;
  readonly #everyMs: number;
  readonly #onFault: OnFault;
  readonly #chores: readonly Chore[];
  readonly #sweep: Sweep;
  #timer: NodeJS.Timeout | undefined;
  #stopped = false;

  /** @param chores one that fails is reported and does not keep the others from their turn */
  constructor(context: Coordination, onFault: OnFault, { everyMs }: HousekeepingTiming, chores: readonly Chore[]) {
    this.#context = context;
    this.#everyMs = everyMs;
    this.#onFault = onFault;
    this.#chores = chores;
    this.#sweep = new Sweep(context, () => this.#stopped, onFault);
  }

  start(): void {
    this.#schedule(fullJitter(0, this.#everyMs, this.#everyMs));
  }

  stop(): void {
    this.#stopped = true;
    clearTimeout(this.#timer);
  }

  #schedule(ms: number): void {
    if (this.#stopped) return;
    this.#timer = setTimeout(() => void this.#turn(), ms).unref();
  }

  async #turn(): Promise<void> {
    const { control, layout } = this.#context;
    const leads = await this.#attempt(() => takeOffice(this.#sweep.zk(), layout.housekeeper, control.sessionId));
    for (const chore of this.#chores) {
      if (leads !== true) chore.handedOver?.();
      else if (!this.#stopped) await this.#attempt(() => chore.sweep(this.#sweep));
    }
    this.#schedule(this.#everyMs / 2 + fullJitter(0, this.#everyMs, this.#everyMs));
  }

  /** @returns undefined when it failed; the next turn tries again */
  async #attempt<T>(step: () => Promise<T>): Promise<T | undefined> {
    try {
      return await step();
    } catch (error) {
      if (!(error instanceof NoReplyError)) this.#onFault(error);
      return undefined;
    }
  }
}
