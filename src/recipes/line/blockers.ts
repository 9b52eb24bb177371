/**
 * The contenders that one waiting request waits for (`waiter.ts`): watches them, and finds out which of them are gone.
 *
 * Who wakes whom. The rule (`rule.ts`) says whom a contender waits for: for a lock, its predecessor. The watch on it is
 * a *child* watch. An ephemeral node never has children, so the watch fires once, when the node is deleted, and leaves
 * nothing behind if the node is missing. A data watch (as Curator's) would also fire when the predecessor is granted,
 * because granting is a write: two notifications per hand-off instead of one.
 *
 * What "gone" means (protocol C2). NO_NODE on the control session counts only if the answering server had seen the
 * creation of the waiter's own node; otherwise it may not have seen the predecessor's either: `sync`, and ask again.
 */
import { fullJitter, pause, type Caller } from '../../time.js';
import type { ControlSession } from '../../zookeeper/control-session.js';
import { isTransient, zooKeeperReason } from '../../zookeeper/errors.js';
import type { MultiReadResult } from '../../zookeeper/operations.js';
import { allWatched, type Watch, type WatchEvent } from '../../zookeeper/watch.js';
import type { Contender } from './contender.js';
import type { Line } from './line.js';
import type { Place } from './place.js';

/** The event of a watch on one of them. */
export interface BlockerEvent {
  blocker: string;
  event: WatchEvent['type'];
}

interface Bounds {
  /** Until when the caller waits, monotonic. */
  deadline: number;
  caller: Caller;
}

const RETRY_BASE_MS = 10;
const RETRY_CAP_MS = 500;

export class Blockers {
  readonly #control: ControlSession;
  readonly #line: Line;
  readonly #place: Place;
  readonly #inbox: { post(event: BlockerEvent): void };
  /** The watched contenders, by the name of the node. */
  readonly #watched = new Map<string, { contender: Contender; watch: Watch }>();

  /** @param inbox of whoever waits: told of the events of the watches */
  constructor(control: ControlSession, line: Line, place: Place, inbox: { post(event: BlockerEvent): void }) {
    this.#control = control;
    this.#line = line;
    this.#place = place;
    this.#inbox = inbox;
  }

  /** The contenders that are watched now. */
  get watched(): Contender[] {
    return [...this.#watched.values()].map(({ contender }) => contender);
  }

  /**
   * Takes in the event of a watch.
   * @returns `standing`: there is still somebody to wait for; `gone`: that was the last one; `unsure`: the line has to
   * be looked at again
   */
  heard({ blocker, event }: BlockerEvent): 'standing' | 'gone' | 'unsure' {
    const watched = this.#watched.get(blocker);
    if (watched === undefined) return 'standing';
    this.#watched.delete(blocker);
    if (event !== 'deleted') {
      watched.watch.cancel();
      return 'unsure';
    }
    this.#line.remove(watched.contender);
    return this.#watched.size > 0 ? 'standing' : 'gone';
  }

  /** They have gone, as is known from elsewhere: the events of the watches are on their way. */
  forget(): void {
    for (const { watch } of this.#watched.values()) watch.forget();
    this.#watched.clear();
  }

  cancel(): void {
    for (const { watch } of this.#watched.values()) watch.cancel();
  }

  /**
   * After a wake-up: strikes those before the place who are gone. Those whom only other replicas had watched left
   * without our knowing; they are asked about in one request, however many they are.
   */
  async strikeGone(bounds: Bounds): Promise<'ended' | undefined> {
    for (;;) {
      const suspects = this.#line.suspectsOf(this.#place);
      if (suspects.length === 0) return undefined;
      const reads = suspects.map(({ name }) => ({ type: 'getChildren' as const, path: `${this.#line.path}/${name}` }));
      const answer = await this.#retrying(bounds, async () => {
        const { results, zxid } = await this.#control.multiRead(reads, bounds.deadline);
        if (zxid >= this.#place.czxid) return results;
        await this.#control.sync(this.#line.path, bounds.deadline);
        return undefined;
      });
      if (answer === 'ended') return 'ended';
      // Only NO_NODE is an end: a node that may not be read stands all the same.
      const gone = suspects.filter((_, i) => isNoNode(answer[i] as MultiReadResult));
      for (const contender of gone) this.#line.remove(contender);
      if (gone.length < suspects.length) return undefined;
    }
  }

  /** Watches all of `blockers` and nobody else. @returns 'gone' when some are not there any more */
  async watchAll(blockers: readonly Contender[], bounds: Bounds): Promise<'watching' | 'gone' | 'ended'> {
    const wanted = new Set(blockers.map(({ name }) => name));
    for (const [name, { watch }] of this.#watched) {
      if (wanted.has(name)) continue;
      watch.cancel();
      this.#watched.delete(name);
    }
    const missing = blockers.filter(({ name }) => !this.#watched.has(name));
    const results = await allWatched(
      missing.map(async (contender) => {
        const watch = await this.#watch(contender, bounds);
        // Kept as soon as it is set, so that it is cancelled whatever becomes of the others.
        if (typeof watch === 'object') this.#watched.set(contender.name, { contender, watch });
        return watch;
      }),
    );
    if (results.includes('ended')) return 'ended';
    return results.includes('gone') ? 'gone' : 'watching';
  }

  async #watch(blocker: Contender, bounds: Bounds): Promise<Watch | 'gone' | 'ended'> {
    const path = `${this.#line.path}/${blocker.name}`;
    const listener = (event: WatchEvent): void => this.#inbox.post({ blocker: blocker.name, event: event.type });
    return this.#retrying(bounds, async () => {
      const watched = await this.#control.watches.getChildren(path, listener, bounds.deadline);
      // The same name with a later czxid would be another node, from a directory made anew (protocol C10).
      if (watched.value !== undefined && watched.value.stat.czxid < this.#place.czxid) return watched.watch;
      watched.watch?.cancel();
      if (watched.value !== undefined || watched.zxid >= this.#place.czxid) {
        this.#line.remove(blocker);
        return 'gone';
      }
      await this.#control.sync(path, bounds.deadline);
      return undefined;
    });
  }

  /** Repeats `ask` until it has an answer, over lost connections; 'ended' when the wait is over first. */
  async #retrying<T>(bounds: Bounds, ask: () => Promise<T | undefined>): Promise<T | 'ended'> {
    for (let attempt = 0; ;) {
      try {
        const answer = await ask();
        if (answer !== undefined) return answer;
      } catch (error) {
        if (!isTransient(error)) throw error;
        const ms = fullJitter(attempt, RETRY_BASE_MS, RETRY_CAP_MS);
        if (bounds.caller.ended !== undefined || performance.now() + ms >= bounds.deadline) return 'ended';
        attempt += 1;
        await pause(ms, bounds.caller.signal);
      }
    }
  }
}

function isNoNode(result: MultiReadResult): boolean {
  return 'error' in result && zooKeeperReason(result.error) === 'NO_NODE';
}
