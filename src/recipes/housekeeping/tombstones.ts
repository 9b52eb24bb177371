/**
 * Tombstones of deleted things, which let their versions count on (protocol C31): how long they stay, and when they are
 * looked for. That reads everything of a kind, so it is done less often than other housekeeping.
 */
import { HOUR } from '../../time.js';
import type { Stat } from '../../zookeeper/operations.js';
import type { Coordination } from '../coordination.js';
import type { Sweep } from './sweep.js';

/** How long a deleted key, or counter, keeps its version. */
const TOMBSTONE_MS = 24 * HOUR;
/** Between two rounds, as a part of the age at which a tombstone is removed. */
const ROUNDS_PER_AGE = 24;

export class Tombstones {
  readonly #context: Pick<Coordination, 'zooKeeperClock'>;
  readonly #ageMs: number;
  #doneAt = -Infinity;

  constructor(context: Pick<Coordination, 'zooKeeperClock'>, ageMs = TOMBSTONE_MS) {
    this.#context = context;
    this.#ageMs = ageMs;
  }

  /** Does `tidy` for every namespace, when it is time again; a round that was stopped is begun anew. */
  async sweep(sweep: Sweep, tidy: (namespace: string) => Promise<unknown>): Promise<void> {
    const startedAt = performance.now();
    if (!this.#context.zooKeeperClock.known || startedAt - this.#doneAt < this.#ageMs / ROUNDS_PER_AGE) return;
    await sweep.eachNamespace(tidy);
    if (!sweep.stopped) this.#doneAt = startedAt;
  }

  /** Whether nothing that was sent at a version of the deleted one is on its way any more. */
  isOver({ mtime }: Stat): boolean {
    return this.#context.zooKeeperClock.now() - mtime >= this.#ageMs;
  }
}
