/**
 * Decides whose turn it is at a semaphore: one instance for all waiting requests of this replica for one name (protocol
 * C18).
 *
 * It goes through the shared list from the head, counts permits, and tells those of this replica's requests that are
 * admitted; each of them grants its own place (`grant.ts`). While somebody of this replica is left behind, it watches
 * those whose leaving may let others in (`standing`): whoever may hold, and the first who waits for more than is left.
 * So a release costs one notification per replica, one watch on whoever is admitted next, and wakes exactly the request
 * that is granted. Nothing is listed, and nothing is asked per waiter.
 *
 *   changed ─▶ tell who is admitted ─▶ watch who stands and is not watched ──all there──▶ asleep ──event──▶ changed
 *                ▲                                 └── gone already: strike it from the list ──┘
 *
 * What can go wrong:
 * - Others in the list may have left unseen, because only those who stand are watched. They are counted as if they were
 *   there, which admits too few, never too many. Each is found gone when it would be admitted: it is watched then.
 * - NO_NODE, of a place or of the directory, counts only from a server that has seen the listing that the name is from,
 *   else `sync` and ask again (C2): without the limit nobody would be admitted, and nothing would be watched. A node
 *   that is newer than the listing has the name of an old one, from a directory made anew (C10).
 * - The limit is changed: the directory's data are watched, and each grant checks their version.
 * - The control session is replaced: every watch says `reset`, and all is watched again. Who left meanwhile is found
 *   gone.
 * - A place before us is abandoned (C3): looked for every 5 s, once per replica and name.
 * - A request cannot be granted although it is admitted (`not-yet`: the limit changed): it is told again after the next
 *   change.
 */
import type { ControlSession } from '../../../zookeeper/control-session.js';
import type { ServerClock } from '../../../zookeeper/server-clock.js';
import { allWatched, type Watch, type Watched, type WatchEvent } from '../../../zookeeper/watch.js';
import { ABANDONED_CHECK_MS, removeAbandoned } from '../abandoned.js';
import { decodeAgreement } from './agreement.js';
import type { Contender } from '../contender.js';
import type { Line, Turns, Waiter } from '../line.js';
import { Rounds } from '../../waiting/rounds.js';
import { standing } from '../rule.js';
import { ifKnown } from '../../known-record.js';

interface TurnsContext {
  control: ControlSession;
  zooKeeperClock: ServerClock;
}

const REQUEST_MS = 10_000;
/** Places that may be abandoned are the last of those who are admitted. */
const LOOKED_AT = 64;

export class PermitTurns implements Turns {
  readonly #context: TurnsContext;
  readonly #line: Line;
  /** The contenders in line, by the name of the node. */
  readonly #watched = new Map<string, Watch>();
  #limit: Watch | undefined;
  /** Waiters that were told, and at which change. */
  readonly #told = new Map<Waiter, number>();
  /** Waiters that were told in vain, and wait for the next change. */
  readonly #deferred = new Set<Waiter>();
  #changes = 0;
  readonly #rounds = new Rounds(() => this.#turn());
  #check: NodeJS.Timeout | undefined;

  constructor(context: TurnsContext, line: Line) {
    this.#context = context;
    this.#line = line;
  }

  look(): void {
    this.#rounds.again();
  }

  changed(): void {
    this.#changes += 1;
    this.#deferred.clear();
    this.look();
  }

  defer(waiter: Waiter): void {
    if (this.#told.get(waiter) === this.#changes) this.#deferred.add(waiter);
    this.#told.delete(waiter);
    this.look();
  }

  leave(waiter: Waiter): void {
    this.#told.delete(waiter);
    this.#deferred.delete(waiter);
    this.look();
  }

  async #turn(): Promise<void> {
    if (this.#line.waiters.size === 0) return this.#stop();
    this.#check ??= setTimeout(() => void this.#checkAbandoned(), ABANDONED_CHECK_MS);
    if (this.#limit === undefined) await this.#watchLimit();
    for (;;) {
      const behind = this.#tell();
      const wanted = behind ? standing(this.#line.rule, this.#line.members) : [];
      this.#keepOnly(wanted);
      const missing = wanted.filter(({ name }) => !this.#watched.has(name));
      const there = await allWatched(missing.map((contender) => this.#watch(contender)));
      if (there.every(Boolean)) return;
    }
  }

  /** @returns whether a request of this replica is left that has to wait for others */
  #tell(): boolean {
    const { members, rule, waiters } = this.#line;
    let told = 0;
    for (const { name } of members.slice(0, rule.admitted(members))) {
      const waiter = waiters.get(name);
      if (waiter === undefined || this.#deferred.has(waiter)) continue;
      told += 1;
      if (this.#told.has(waiter)) continue;
      this.#told.set(waiter, this.#changes);
      waiter.turn();
    }
    return told < waiters.size;
  }

  #keepOnly(wanted: readonly Contender[]): void {
    if (this.#watched.size === 0) return;
    const names = new Set(wanted.map(({ name }) => name));
    const present = names.size === 0 ? names : new Set(this.#line.members.map(({ name }) => name));
    for (const [name, watch] of this.#watched) {
      if (names.has(name)) continue;
      this.#watched.delete(name);
      // Released here, so its event is on its way.
      if (names.size > 0 && !present.has(name)) watch.forget();
      else watch.cancel();
    }
  }

  /** Watches one who stands. @returns false when it is gone */
  async #watch(contender: Contender): Promise<boolean> {
    const { name } = contender;
    const seen = this.#line.zxid;
    let fired = false;
    const listener = (event: WatchEvent): void => {
      fired = true;
      this.#watched.delete(name);
      if (event.type === 'deleted') this.#gone(contender);
      else this.changed();
    };
    const { value, watch } = await this.#asOf(seen, `${this.#line.path}/${name}`, (path, deadline) =>
      this.#context.control.watches.getChildren(path, listener, deadline),
    );
    if (value !== undefined && value.stat.czxid <= seen) {
      if (watch !== undefined && !fired) this.#watched.set(name, watch);
      return !fired;
    }
    watch?.cancel();
    this.#gone(contender);
    return false;
  }

  /** What is read and watched, from a server that has seen what is at `seen`, where there is nothing (C2). */
  async #asOf<T>(
    seen: number,
    path: string,
    read: (path: string, deadline: number) => Promise<Watched<T>>,
  ): Promise<Watched<T>> {
    for (;;) {
      const deadline = performance.now() + REQUEST_MS;
      const watched = await read(path, deadline);
      if (watched.value !== undefined || watched.zxid >= seen) return watched;
      await this.#context.control.sync(path, deadline);
    }
  }

  #gone(contender: Contender): void {
    this.#line.remove(contender);
    this.#line.waiters.get(contender.name)?.giveUp();
  }

  /**
   * Reads the limit and watches it. Where there is no directory there are no places either, unless the server has not
   * heard of it yet.
   */
  async #watchLimit(): Promise<void> {
    let fired = false;
    const listener = (): void => {
      fired = true;
      this.#limit = undefined;
      this.changed();
    };
    const { value, watch } = await this.#asOf(this.#line.zxid, this.#line.path, (path, deadline) =>
      this.#context.control.watches.getData(path, listener, deadline),
    );
    if (value === undefined) {
      for (const waiter of this.#line.waiters.values()) waiter.giveUp();
      return;
    }
    if (!fired) this.#limit = watch;
    const agreed = ifKnown(() => decodeAgreement(value));
    if (agreed !== undefined) this.#line.agree(agreed);
  }

  async #checkAbandoned(): Promise<void> {
    const timer = this.#check;
    let again = ABANDONED_CHECK_MS;
    try {
      const { members, rule } = this.#line;
      const last = members.at(-1);
      const looked = members.slice(0, rule.admitted(members)).slice(-LOOKED_AT);
      if (last !== undefined)
        again = await removeAbandoned(this.#context, this.#line, looked, last, performance.now() + REQUEST_MS);
    } catch {
      // Looked for again; until then whoever waits does so until its own deadline.
    }
    if (this.#check === timer && this.#line.waiters.size > 0)
      this.#check = setTimeout(() => void this.#checkAbandoned(), again);
  }

  #stop(): void {
    clearTimeout(this.#check);
    this.#check = undefined;
    this.#keepOnly([]);
    this.#limit?.cancel();
    this.#limit = undefined;
  }
}
