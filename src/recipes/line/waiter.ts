/**
 * Waits in line: one request, from the moment its place is known not to be the first until it is granted or ends.
 *
 *   loop:  whom do I wait for? ──nobody──▶ write `granted` at the version I know ─▶ granted | superseded | lost
 *            │ watch them; gone already ─▶ strike them from the list, loop
 *            ▼
 *          asleep ──the last of them deleted──▶ strike it, loop
 *            │ ├── handed over by a release in this replica ─▶ granted
 *            │ ├── every ttl/3, and when the lease may have ended: touch it, look for my own node ─▶ expired | lost
 *            │ ├── one of them was abandoned ─▶ remove whoever is abandoned and admitted
 *            │ ├── I wait for nobody but the end of a lock-delay (`lock-delay.ts`), and that is reached ─▶ loop
 *            └── deadline | client gone | draining | another attempt took the place
 *
 * The watches, and who counts as gone, are in `blockers.ts`. At a semaphore everybody waits for the same few. There one
 * for all of this replica looks and watches (`permits/turns.ts`), and says whose turn it is; all the rest is the same.
 */
import type { Lease } from '../../leases/lease.js';
import type { Metrics } from '../../metrics/metrics.js';
import { LeaseExpiredError } from '../../errors.js';
import { endReason, type EndReason } from '../../time.js';
import { isTransient } from '../../zookeeper/errors.js';
import type { Leases } from '../../leases/leases.js';
import { ABANDONED_CHECK_MS, removeAbandoned } from './abandoned.js';
import { Blockers, type BlockerEvent } from './blockers.js';
import type { Contention } from '../waiting/contention.js';
import { Inbox } from '../waiting/inbox.js';
import { keepAlive } from '../waiting/kept-alive.js';
import type { Line, Turns, Waiter } from './line.js';
import { grant, grantPermits } from './grant.js';
import type { DelayContext, Locked } from './delay/lock-delay.js';
import { PermitTurns } from './permits/turns.js';
import type { Place } from './place.js';

const CHECK_REQUEST_MS = 2_000;

export type WaitEnd = 'granted' | 'deadline' | 'superseded' | 'lost' | EndReason;

export interface WaitContext extends DelayContext {
  leases: Leases;
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
  | BlockerEvent
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

export class LineWaiter implements Waiter {
  readonly place: Place;
  /** Epoch ms: until when the lease lives at least. */
  expiresAt: number;
  readonly #context: WaitContext;
  readonly #line: Line;
  readonly #lease: Lease;
  readonly #inbox = new Inbox<Message>();
  /** Whom I wait for. */
  readonly #blockers: Blockers;
  #handingOver = false;
  #handedOver = false;
  /** This request is writing to the place itself, or leaves it: nobody may hand it anything now. */
  #closed = false;
  #woken = false;
  /** When it was, monotonic, unless something other than its grant was waited for since. */
  #wokenAt: number | undefined;
  readonly #turns: Turns | undefined;
  #checkTimer: NodeJS.Timeout | undefined;
  #delayTimer: NodeJS.Timeout | undefined;

  constructor(context: WaitContext, line: Line, lease: Lease, place: Place, expiresAt: number) {
    this.#context = context;
    this.#line = line;
    this.#lease = lease;
    this.place = place;
    this.expiresAt = expiresAt;
    this.#blockers = new Blockers(context.control, line, place, this.#inbox);
    if (line.kind === 'semaphore') this.#turns = line.turns ??= new PermitTurns(context, line);
  }

  /** @throws LeaseExpiredError, NoReplyError */
  async wait(bounds: WaitBounds): Promise<WaitEnd> {
    const { metrics } = this.#context;
    const { kind } = this.#line;
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
      if (end === 'granted') this.#countHandoff();
      return end;
    } finally {
      metrics.waiters.dec({ kind });
      endWait();
      this.#closed = true;
      this.#blockers.cancel();
      if (this.#line.waiters.get(this.place.name) === this) this.#line.waiters.delete(this.place.name);
      this.#turns?.leave(this);
      bounds.signal.removeEventListener('abort', onAbort);
      timers.stop();
    }
  }

  turn(): void {
    this.#inbox.post('turn');
  }

  supersede(): void {
    this.#inbox.post('superseded');
  }

  giveUp(): void {
    this.#inbox.post('lost');
  }

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
      if (this.#woken && (await this.#blockers.strikeGone(bounds)) === 'ended') return this.#ended(bounds);
      const blockers = this.#line.blockersOf(this.place);
      if (blockers.length === 0) {
        const granted = await this.#grant(bounds);
        if (typeof granted !== 'object') return granted;
        const end = await this.#sleepUntil(granted, bounds);
        if (end !== undefined) return end;
        continue;
      }
      const watching = await this.#blockers.watchAll(blockers, bounds);
      if (watching === 'ended') return this.#ended(bounds);
      if (watching === 'gone') continue;
      this.#countSpurious();
      const end = await this.#sleep(bounds);
      if (end !== undefined) return end;
    }
  }

  async #takeTurns(turns: Turns, bounds: WaitBounds): Promise<WaitEnd> {
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
    this.#wokenAt = undefined;
    this.#delayTimer = setTimeout(() => this.#inbox.post('delay-over'), ms);
    return this.#sleep(bounds);
  }

  /** Until all whom I watch are gone. @returns undefined when the line has to be looked at again */
  async #sleep(bounds: WaitBounds): Promise<WaitEnd | undefined> {
    for (;;) {
      const message = await this.#inbox.next();
      if (typeof message === 'object') {
        const heard = this.#blockers.heard(message);
        if (heard === 'standing') continue;
        if (heard === 'gone') this.#wake();
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
          this.#blockers.forget();
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

  /**
   * Ends the time in which a release may hand over; waits for one that is under way. What else happens meanwhile, such
   * as the end of the wait, is heard afterwards.
   * @returns false when it granted the place
   */
  async #close(): Promise<boolean> {
    const meanwhile: Message[] = [];
    while (this.#handingOver) meanwhile.push(await this.#inbox.next());
    for (const message of meanwhile) this.#inbox.post(message);
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
    if (this.#woken) return;
    this.#context.metrics.wakeupsTotal.inc({ kind: this.#line.kind });
    this.#woken = true;
    this.#wokenAt = performance.now();
  }

  #countHandoff(): void {
    const { metrics } = this.#context;
    const { kind } = this.#line;
    metrics.handoffsTotal.inc({ kind });
    if (this.#handedOver || this.#wokenAt === undefined) return;
    metrics.successionSeconds.observe({ kind }, (performance.now() - this.#wokenAt) / 1_000);
  }

  #countSpurious(): void {
    if (this.#woken) this.#context.metrics.spuriousWakeupsTotal.inc({ kind: this.#line.kind });
    this.#woken = false;
    this.#wokenAt = undefined;
  }

  async #checkHead(bounds: WaitBounds): Promise<void> {
    let again = ABANDONED_CHECK_MS;
    try {
      const deadline = Math.min(bounds.deadline, performance.now() + CHECK_REQUEST_MS);
      again = await removeAbandoned(this.#context, this.#line, this.#blockers.watched, this.place, deadline);
    } catch (error) {
      if (!isTransient(error)) throw error;
    }
    this.#checkTimer = setTimeout(() => this.#inbox.post('check-head'), again);
  }

  #startTimers(bounds: WaitBounds): { stop(): void } {
    const deadline = setTimeout(() => this.#inbox.post('deadline'), Math.max(0, bounds.deadline - performance.now()));
    const stopTouching = keepAlive(
      this.#context.leases,
      this.#lease,
      () => this.#inbox.post('expired'),
      (until) => this.#touch(until),
    );
    if (this.#turns === undefined)
      this.#checkTimer = setTimeout(() => this.#inbox.post('check-head'), ABANDONED_CHECK_MS);
    return {
      stop: () => {
        clearTimeout(deadline);
        stopTouching();
        clearTimeout(this.#checkTimer);
        clearTimeout(this.#delayTimer);
      },
    };
  }

  /** An open wait is a heartbeat (protocol C4); in the same breath it finds out whether the place is still there. */
  async #touch(deadline: number): Promise<void> {
    const { expiresAt, told: own } = await this.#context.leases.prolong(this.#lease, deadline, (session) =>
      session.exists(this.place.path, deadline),
    );
    this.expiresAt = expiresAt;
    if (own?.czxid !== this.place.czxid) this.#inbox.post('lost');
  }
}
