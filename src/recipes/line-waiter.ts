/**
 * Waiting in line: one request, from the moment its place is known not to be the first until it is granted or ends.
 *
 *   loop:  whom do I wait for? ──nobody──▶ write `granted` at the version I know ─▶ granted | superseded | lost
 *            │ watch them; gone already ─▶ strike them from the list, loop
 *            ▼
 *          asleep ──the last of them deleted──▶ strike it, loop
 *            │ ├── handed over by a release in this replica ─▶ granted
 *            │ ├── every ttl/3: touch the lease, look for my own node ─▶ expired | lost
 *            │ ├── one of them was abandoned ─▶ remove whoever is abandoned and admitted
 *            │ ├── I wait for nobody but the end of a lock-delay (`lock-delay.ts`), and that is reached ─▶ loop
 *            └── deadline | client gone | draining | another attempt took the place
 *
 * At a semaphore everybody waits for the same few. There one for all of this replica looks and watches (`permit-turns.ts`), and says
 * whose turn it is; all the rest is the same.
 *
 * Who wakes whom. Whom I wait for is the rule's (`rule.ts`): for a lock the predecessor. The watch is a *child* watch on it. An ephemeral node never has children, so it fires once, when
 * the node is deleted, and leaves nothing behind when the node is missing. A data watch (as Curator sets it) would fire
 * also when the predecessor is granted, because granting is a write: two notifications per hand-off in place of one.
 *
 * What "gone" means (protocol C2). NO_NODE on the control session counts only when the answering server had seen my own node's
 * creation; otherwise it may not have seen the predecessor's either: `sync`, and ask again.
 */
import type { Lease } from '../leases/lease.js';
import type { Kind, Metrics } from '../metrics/metrics.js';
import { LeaseExpiredError } from '../errors.js';
import { endReason, fullJitter, pause, type EndReason } from '../time.js';
import { isTransient, zooKeeperReason } from '../zookeeper/errors.js';
import type { Watch, WatchEvent } from '../zookeeper/watch.js';
import type { ControlSession } from '../zookeeper/control-session.js';
import type { Leases } from '../leases/leases.js';
import type { ServerClock } from '../zookeeper/server-clock.js';
import { ABANDONED_CHECK_MS, removeAbandoned } from './abandoned.js';
import type { Contender } from './contender.js';
import type { Contention } from './contention.js';
import type { MultiReadResult } from '../zookeeper/operations.js';
import { Inbox } from './inbox.js';
import type { Line } from './line.js';
import { grant, grantPermits } from './grant.js';
import type { Locked } from './lock-delay.js';
import { PermitTurns } from './permit-turns.js';
import type { Place } from './place.js';

/** A heartbeat may be lost twice before the lease ends. */
const TOUCHES_PER_TTL = 3;
const CHECK_REQUEST_MS = 2_000;
const RETRY_BASE_MS = 10;
const RETRY_CAP_MS = 500;

export type WaitEnd = 'granted' | 'deadline' | 'superseded' | 'lost' | EndReason;

export interface WaitContext {
  control: ControlSession;
  leases: Leases;
  zooKeeperClock: ServerClock;
  metrics: Metrics;
  contention: Contention;
}

export interface WaitBounds {
  /** Until when the caller waits, monotonic. */
  deadline: number;
  /** Until when requests that must still be made then may take. */
  hardDeadline: number;
  signal: AbortSignal;
}

type Message =
  | { predecessor: string; event: WatchEvent['type'] }
  | 'turn'
  | 'handed-over'
  | 'not-handed-over'
  | 'deadline'
  | 'aborted'
  | 'check-head'
  | 'delay-over'
  | 'superseded'
  | 'lost'
  | 'expired';

export class LineWaiter {
  readonly place: Place;
  /** Epoch ms: until when the lease lives at least. */
  expiresAt: number;
  readonly #context: WaitContext;
  readonly #kind: Kind;
  readonly #line: Line;
  readonly #lease: Lease;
  readonly #inbox = new Inbox<Message>();
  /** Whom I wait for, by the name of the node. */
  readonly #watched = new Map<string, { contender: Contender; watch: Watch }>();
  #handingOver = false;
  #handedOver = false;
  /** This request is writing to the place itself, or leaves it: nobody may hand it anything now. */
  #closed = false;
  #woken = false;
  readonly #turns: PermitTurns | undefined;

  constructor(context: WaitContext, kind: Kind, line: Line, lease: Lease, place: Place, expiresAt: number) {
    this.#context = context;
    this.#kind = kind;
    this.#line = line;
    this.#lease = lease;
    this.place = place;
    this.expiresAt = expiresAt;
    if (kind === 'semaphore') this.#turns = line.turns ??= new PermitTurns(context, line);
  }

  /** @throws LeaseExpiredError, NoReplyError */
  async wait(bounds: WaitBounds): Promise<WaitEnd> {
    const { metrics } = this.#context;
    const kind = this.#kind;
    const timers = this.#startTimers(bounds);
    const onAbort = (): void => this.#inbox.post('aborted');
    bounds.signal.addEventListener('abort', onAbort, { once: true });
    if (bounds.signal.aborted) onAbort();
    this.#line.waiters.get(this.place.name)?.supersede();
    this.#line.waiters.set(this.place.name, this);
    metrics.waiters.inc({ kind });
    const endWait = this.#context.contention.begin(kind, this.#line.path);
    try {
      const end = await (this.#turns === undefined ? this.#loop(bounds) : this.#takeTurns(this.#turns, bounds));
      if (end === 'granted') metrics.handoffsTotal.inc({ kind });
      return end;
    } finally {
      metrics.waiters.dec({ kind });
      endWait();
      this.#closed = true;
      for (const { watch } of this.#watched.values()) watch.cancel();
      if (this.#line.waiters.get(this.place.name) === this) this.#line.waiters.delete(this.place.name);
      this.#turns?.leave(this);
      bounds.signal.removeEventListener('abort', onAbort);
      timers.stop();
    }
  }

  /** The place is admitted, as far as is known. */
  turn(): void {
    this.#inbox.post('turn');
  }

  /** Another attempt of the same client took the place over. */
  supersede(): void {
    this.#inbox.post('superseded');
  }

  /** The client released the place that this request waits in. */
  giveUp(): void {
    this.#inbox.post('lost');
  }

  /**
   * Called by a release in this replica that is about to delete my predecessor and to grant me the place in one
   * transaction. @returns false when this request is already writing or leaving
   */
  beginHandover(): boolean {
    if (this.#closed || this.#handingOver) return false;
    this.#handingOver = true;
    return true;
  }

  endHandover(done: boolean): void {
    this.#handingOver = false;
    this.#handedOver = done;
    if (done) this.#line.admit(this.place);
    this.#inbox.post(done ? 'handed-over' : 'not-handed-over');
  }

  async #loop(bounds: WaitBounds): Promise<WaitEnd> {
    for (;;) {
      if (this.#woken && (await this.#strikeGone(bounds)) === 'ended') return this.#ended(bounds);
      const blockers = this.#line.blockersOf(this.place);
      if (blockers.length === 0) {
        const granted = await this.#grant(bounds);
        if (typeof granted !== 'object') return granted;
        const end = await this.#sleepUntil(granted, bounds);
        if (end !== undefined) return end;
        continue;
      }
      const watching = await this.#watchAll(blockers, bounds);
      if (watching === 'ended') return this.#ended(bounds);
      if (watching === 'gone') continue;
      this.#countSpurious();
      const end = await this.#sleep(bounds);
      if (end !== undefined) return end;
    }
  }

  async #takeTurns(turns: PermitTurns, bounds: WaitBounds): Promise<WaitEnd> {
    turns.look();
    for (;;) {
      const end = await this.#sleep(bounds);
      if (end !== undefined) return end;
      const granted = await grantPermits(this.#context, this.#line, this.place, bounds.hardDeadline);
      if (granted !== 'not-yet') return granted === 'written' ? 'granted' : granted;
      this.#countSpurious();
      turns.defer(this);
    }
  }

  /** The line admits me. The write proves that my lease still lives and that the place is still mine (protocol C3). */
  async #grant(bounds: WaitBounds): Promise<WaitEnd | Locked> {
    if (!(await this.#close())) return 'granted';
    const written = await grant(this.#context, this.#line, this.place, bounds.hardDeadline);
    return written === 'written' ? 'granted' : written;
  }

  /** Nobody stands before me whom I could watch, and nobody can hand anything over: only time passes. */
  async #sleepUntil({ lockedUntil }: Locked, bounds: WaitBounds): Promise<WaitEnd | undefined> {
    const ms = Math.max(1, Math.ceil(lockedUntil - this.#context.zooKeeperClock.now()));
    this.#delayTimer = setTimeout(() => this.#inbox.post('delay-over'), ms);
    return this.#sleep(bounds);
  }

  /**
   * After a wake-up: strikes those before me who are gone. Those whom only other replicas had watched left without our knowing;
   * they are asked about in one request, however many they are.
   */
  async #strikeGone(bounds: WaitBounds): Promise<'ended' | undefined> {
    for (;;) {
      const suspects = this.#line.suspectsOf(this.place);
      if (suspects.length === 0) return undefined;
      const reads = suspects.map(({ name }) => ({ type: 'getChildren' as const, path: `${this.#line.path}/${name}` }));
      const answer = await this.#retrying(bounds, async () => {
        const { results, zxid } = await this.#context.control.multiRead(reads, bounds.deadline);
        if (zxid >= this.place.czxid) return results;
        await this.#context.control.sync(this.#line.path, bounds.deadline);
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
  async #watchAll(blockers: readonly Contender[], bounds: WaitBounds): Promise<'watching' | 'gone' | 'ended'> {
    const wanted = new Set(blockers.map(({ name }) => name));
    for (const [name, { watch }] of this.#watched) {
      if (wanted.has(name)) continue;
      watch.cancel();
      this.#watched.delete(name);
    }
    const missing = blockers.filter(({ name }) => !this.#watched.has(name));
    const results = await Promise.all(
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

  async #watch(predecessor: Contender, bounds: WaitBounds): Promise<Watch | 'gone' | 'ended'> {
    const { control } = this.#context;
    const path = `${this.#line.path}/${predecessor.name}`;
    const listener = (event: WatchEvent): void =>
      this.#inbox.post({ predecessor: predecessor.name, event: event.type });
    return this.#retrying(bounds, async () => {
      const watched = await control.watches.getChildren(path, listener, bounds.deadline);
      // The same name with a later czxid would be another node, from a directory made anew (protocol C10).
      if (watched.value !== undefined && watched.value.stat.czxid < this.place.czxid) return watched.watch;
      watched.watch?.cancel();
      if (watched.value !== undefined || watched.zxid >= this.place.czxid) {
        this.#line.remove(predecessor);
        return 'gone';
      }
      await control.sync(path, bounds.deadline);
      return undefined;
    });
  }

  /** Repeats `ask` until it has an answer, over lost connections; 'ended' when the wait is over first. */
  async #retrying<T>(bounds: WaitBounds, ask: () => Promise<T | undefined>): Promise<T | 'ended'> {
    for (let attempt = 0; ;) {
      try {
        const answer = await ask();
        if (answer !== undefined) return answer;
      } catch (error) {
        if (!isTransient(error)) throw error;
        const ms = fullJitter(attempt, RETRY_BASE_MS, RETRY_CAP_MS);
        if (bounds.signal.aborted || performance.now() + ms >= bounds.deadline) return 'ended';
        attempt += 1;
        await pause(ms, bounds.signal);
      }
    }
  }

  /** Until all whom I watch are gone. @returns undefined when the line has to be looked at again */
  async #sleep(bounds: WaitBounds): Promise<WaitEnd | undefined> {
    for (;;) {
      const message = await this.#inbox.next();
      if (typeof message === 'object') {
        const watched = this.#watched.get(message.predecessor);
        if (watched === undefined) continue;
        this.#watched.delete(message.predecessor);
        if (message.event !== 'deleted') {
          watched.watch.cancel();
          return undefined;
        }
        this.#line.remove(watched.contender);
        if (this.#watched.size > 0) continue;
        this.#wake();
        return undefined;
      }
      switch (message) {
        case 'turn':
          this.#wake();
          return undefined;
        case 'delay-over':
          return undefined;
        case 'handed-over':
          this.#wake();
          for (const { watch } of this.#watched.values()) watch.forget(); // their event is on its way
          this.#watched.clear();
          return 'granted';
        case 'check-head':
          await this.#checkHead(bounds);
          break;
        case 'not-handed-over':
          break;
        case 'deadline':
        case 'aborted':
        case 'superseded':
        case 'lost':
        case 'expired':
          if (!(await this.#close())) return 'granted';
          if (message === 'expired') throw new LeaseExpiredError();
          if (message === 'aborted') return endReason(bounds.signal) ?? 'client-gone';
          return message;
      }
    }
  }

  /** Ends the time in which a release may hand over; waits for one that is under way. @returns false when it granted the place */
  async #close(): Promise<boolean> {
    while (this.#handingOver) await this.#inbox.next();
    this.#closed = true;
    // Its message may still be behind the one that ends the wait.
    if (this.#handedOver) this.#wake();
    return !this.#handedOver;
  }

  async #ended(bounds: WaitBounds): Promise<WaitEnd> {
    if (!(await this.#close())) return 'granted';
    return endReason(bounds.signal) ?? 'deadline';
  }

  /** A hand-over wakes twice, by the event of the watch and by the release, in either order; it is one waking. */
  #wake(): void {
    if (!this.#woken) this.#context.metrics.wakeupsTotal.inc({ kind: this.#kind });
    this.#woken = true;
  }

  #countSpurious(): void {
    if (this.#woken) this.#context.metrics.spuriousWakeupsTotal.inc({ kind: this.#kind });
    this.#woken = false;
  }

  async #checkHead(bounds: WaitBounds): Promise<void> {
    const { control, zooKeeperClock } = this.#context;
    let again = ABANDONED_CHECK_MS;
    try {
      const deadline = Math.min(bounds.deadline, performance.now() + CHECK_REQUEST_MS);
      const blockers = [...this.#watched.values()].map(({ contender }) => contender);
      again = await removeAbandoned(control, zooKeeperClock, this.#line, blockers, this.place, deadline);
    } catch (error) {
      if (!isTransient(error)) throw error;
    }
    this.#checkTimer = setTimeout(() => this.#inbox.post('check-head'), again);
  }

  #checkTimer: NodeJS.Timeout | undefined;
  #delayTimer: NodeJS.Timeout | undefined;

  #startTimers(bounds: WaitBounds): { stop(): void } {
    const deadline = setTimeout(() => this.#inbox.post('deadline'), Math.max(0, bounds.deadline - performance.now()));
    const touch = setInterval(() => void this.#touch(), this.#lease.ttlMs / TOUCHES_PER_TTL);
    if (this.#turns === undefined)
      this.#checkTimer = setTimeout(() => this.#inbox.post('check-head'), ABANDONED_CHECK_MS);
    return {
      stop: () => {
        clearTimeout(deadline);
        clearInterval(touch);
        clearTimeout(this.#checkTimer);
        clearTimeout(this.#delayTimer);
      },
    };
  }

  /** An open wait is a heartbeat (protocol C4); in the same breath it finds out whether the place is still there. */
  async #touch(): Promise<void> {
    const { leases } = this.#context;
    const deadline = performance.now() + (this.#lease.ttlMs * 2) / TOUCHES_PER_TTL;
    try {
      await leases.sessions.useRepeatedly(this.#lease, deadline, async (session) => {
        const expiresAt = leases.expiresAt(this.#lease);
        const [, own] = await Promise.all([session.sync('/', deadline), session.exists(this.place.path, deadline)]);
        this.expiresAt = expiresAt;
        if (own?.czxid !== this.place.czxid) this.#inbox.post('lost');
      });
    } catch (error) {
      if (error instanceof LeaseExpiredError) this.#inbox.post('expired');
      // Anything else: the next touch is due before the lease ends.
    }
  }
}

function isNoNode(result: MultiReadResult): boolean {
  return 'error' in result && zooKeeperReason(result.error) === 'NO_NODE';
}
