/**
 * When each schedule is due, as far as the replica that fires knows, and the timer for the earliest of them. What is
 * known may be old: nothing but when to look follows from it (`firing.ts` reads again).
 */
import { fullJitter, SECOND } from '../../time.js';
import type { ServerClock } from '../../zookeeper/server-clock.js';
import type { Stat } from '../../zookeeper/operations.js';
import type { ScheduleRef } from './schedule.js';

/** At midnight all are due at once: their pushes share transactions, and what is asked meanwhile is not delayed. */
const AT_ONCE = 64;
/** The ensemble's clock may leap: then what is due earlier than was thought is found so late at most. */
const LOOK_EVERY_MS = 5 * SECOND;
const RETRY_BASE_MS = SECOND / 4;
const RETRY_CAP_MS = 10 * SECOND;

/** What was read of a schedule, or written. */
export interface Planned {
  readonly record: { readonly dueAt?: number | undefined };
  readonly stat: Pick<Stat, 'czxid' | 'version'>;
  /** The queue has just refused the occurrence that is due. */
  readonly isRefused?: boolean;
}

interface Entry {
  readonly ref: ScheduleRef;
  stat: Planned['stat'];
  /** Epoch ms; Infinity: it is not due until it is written. */
  dueAt: number;
  /** Not before then, monotonic: it could not be pushed. */
  restsUntil: number;
  failures: number;
  isBusy: boolean;
}

/** Does the next step of a schedule. @returns what is known of it then; undefined: it is gone */
export type Fire = (ref: ScheduleRef) => Promise<Planned | undefined>;

export class Agenda {
  readonly #entries = new Map<string, Entry>();
  readonly #clock: ServerClock;
  readonly #fire: Fire;
  readonly #onFault: (error: unknown) => void;
  #running = 0;
  #timer: NodeJS.Timeout | undefined;
  #isClosed = false;

  /** @param onFault told of what is tried again: all but what the queue refuses */
  constructor(clock: ServerClock, fire: Fire, onFault: (error: unknown) => void) {
    this.#clock = clock;
    this.#fire = fire;
    this.#onFault = onFault;
  }

  get size(): number {
    return this.#entries.size;
  }

  /** What was read of a schedule; undefined: there is none. */
  learn(ref: ScheduleRef, known: Planned | undefined): void {
    const before = this.#entries.get(ref.path);
    if (known === undefined) {
      this.#entries.delete(ref.path);
      return;
    }
    const { stat, record } = known;
    const dueAt = record.dueAt ?? Infinity;
    if (before === undefined)
      this.#entries.set(ref.path, { ref, stat, dueAt, restsUntil: 0, failures: 0, isBusy: false });
    else if (isNewer(stat, before.stat)) Object.assign(before, { stat, dueAt, restsUntil: 0, failures: 0 });
  }

  /** All others are gone. */
  keepOnly(paths: ReadonlySet<string>): void {
    for (const path of this.#entries.keys()) if (!paths.has(path)) this.#entries.delete(path);
  }

  /** Fires what is due, and sets the timer for what is due next. */
  look(): void {
    clearTimeout(this.#timer);
    if (this.#isClosed) return;
    const [now, monotonic] = [this.#clock.now(), performance.now()];
    let waitMs = LOOK_EVERY_MS;
    for (const entry of this.#entries.values()) {
      const leftMs = Math.max(entry.dueAt - now, entry.restsUntil - monotonic);
      if (entry.isBusy) continue;
      if (leftMs > 0) waitMs = Math.min(waitMs, leftMs);
      else if (this.#running < AT_ONCE) void this.#run(entry);
    }
    this.#timer = setTimeout(() => this.look(), Math.ceil(waitMs)).unref();
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
  }

  async #run(entry: Entry): Promise<void> {
    entry.isBusy = true;
    this.#running += 1;
    try {
      const known = await this.#fire(entry.ref);
      this.learn(entry.ref, known);
      if (known?.isRefused === true) rest(entry);
      // It was thought to be due, and may not be for another moment: the clock is an estimate.
      else if (entry.dueAt <= this.#clock.now())
        entry.restsUntil = performance.now() + Math.max(0, entry.dueAt - this.#clock.earliest());
    } catch (error) {
      if (!this.#isClosed) this.#onFault(error);
      rest(entry);
    } finally {
      entry.isBusy = false;
      this.#running -= 1;
      this.look();
    }
  }
}

function rest(entry: Entry): void {
  entry.failures += 1;
  entry.restsUntil = performance.now() + RETRY_BASE_MS + fullJitter(entry.failures, RETRY_BASE_MS, RETRY_CAP_MS);
}

/** A schedule that was made again has a later czxid. */
function isNewer(a: Planned['stat'], b: Planned['stat']): boolean {
  return a.czxid > b.czxid || (a.czxid === b.czxid && a.version > b.version);
}
