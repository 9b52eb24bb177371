/**
 * Waits in line: one request, from the moment its place is known not to be the first until it is granted or ends.
 *
 *   loop:  whom do I wait for? ──nobody──▶ write `granted` at the version I know ─▶ granted | superseded | lost
 *            │ watch them; gone already ─▶ strike them from the list, loop
 *            │ one that waits in this replica itself: it will tell
 *            ▼
 *          asleep ──the last of them deleted──▶ strike it, loop
 *            │ ├── that one does not wait any more ─▶ loop, in a moment
 *            │ ├── handed over by a release in this replica ─▶ granted
 *            │ ├── every ttl/3, and when the lease may have ended: touch it, look for my own node ─▶ expired | lost
 *            │ ├── one of them was abandoned ─▶ remove whoever is abandoned and admitted
 *            │ ├── I wait for nobody but the end of a lock-delay (`lock-delay.ts`), and that is reached ─▶ loop
 *            │ ├── I am first, and what I want may be had by now (`Assign`) ─▶ loop
 *            └── deadline | client gone | draining | another attempt took the place
 *
 * If the one before me waits in this replica, it need not be watched: when its request waits no more, however that
 * ends, it tells me. And what it is granted is most likely released here too, with a hand-over to me, so I watch it
 * only once it has stood for a moment. If one is released elsewhere sooner than that, holds are watched at once for
 * some time. So of a crowd in one replica, one at most has a watch.
 *
 * The watches, and who counts as gone, are in `blockers.ts`. At a semaphore everybody waits for the same few, and in a
 * room others come to stand in front. There one for all of this replica looks and watches (`Turns`), and says whose
 * turn it is; all the rest is the same.
 */
import type { Lease } from '../../leases/lease.js';
import type { Metrics } from '../../metrics/metrics.js';
import { LeaseExpiredError } from '../../errors.js';
import type { Caller, EndReason } from '../../time.js';
import { isTransient } from '../../zookeeper/errors.js';
import type { Leases } from '../../leases/leases.js';
import { ABANDONED_CHECK_MS, removeAbandoned } from './abandoned.js';
import { Blockers, type BlockerEvent } from './blockers.js';
import type { Contender } from './contender.js';
import type { Contention } from '../waiting/contention.js';
import { Inbox } from '../waiting/inbox.js';
import { keepAlive } from '../waiting/kept-alive.js';
import type { Assign, Line, Turns, Waiter } from './line.js';
import { grant, grantPermits } from './grant.js';
import type { DelayContext, Locked } from './delay/lock-delay.js';
import { PermitTurns } from './permits/turns.js';
import type { Place } from './place.js';

const CHECK_REQUEST_MS = 2_000;
/** For so long the next in line does not watch a new hold of this replica, nor a place in which nobody waits now. */
const UNWATCHED_MS = 25;
/** After one was released unseen within that time, they are watched at once for so long. */
const WATCHED_AT_ONCE_MS = 60_000;

export type WaitEnd = 'granted' | 'deadline' | 'superseded' | 'lost' | EndReason;
/** `awake`: the line has to be looked at. */
type Step = WaitEnd | 'asleep' | 'awake';

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
  caller: Caller;
  assign?: Assign | undefined;
}

type Message =
  | BlockerEvent
  | 'turn'
  | 'handed-over'
  | 'not-handed-over'
  | 'deadline'
  | 'ended'
  | 'check-head'
  | 'look'
  | 'before-granted'
  | 'before-left'
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
  /** For the end of the wait, or the next look at the head if that comes first. */
  #alarm: NodeJS.Timeout | undefined;
  /** For the next look. */
  #lookTimer: NodeJS.Timeout | undefined;
  /** The request that I rely on, in place of a watch. */
  #before: Waiter | undefined;
  /** Those that rely on me. */
  #behind: Set<Waiter> | undefined;
  /** The hold before me has not been watched yet. */
  #unwatched = false;
  /** Somebody before me has gone, or will stay without a request. */
  #unsure = false;
  readonly #onEnd = (): void => this.#inbox.post('ended');

  constructor(context: WaitContext, line: Line, lease: Lease, place: Place, expiresAt: number) {
    this.#context = context;
    this.#line = line;
    this.#lease = lease;
    this.place = place;
    this.expiresAt = expiresAt;
    this.#blockers = new Blockers(context.control, line, place, this.#inbox);
    this.#turns = line.kind === 'semaphore' ? (line.turns ??= new PermitTurns(context, line)) : line.turns;
  }

  /** @throws LeaseExpiredError, NoReplyError */
  async wait(bounds: WaitBounds): Promise<WaitEnd> {
    const { metrics, contention } = this.#context;
    const { kind, path, waiters } = this.#line;
    const stopTouching = this.#keepAlive();
    this.#setAlarm(bounds, ABANDONED_CHECK_MS);
    bounds.caller.onEnd(this.#onEnd);
    waiters.get(this.place.name)?.supersede();
    waiters.set(this.place.name, this);
    metrics.waiters.inc({ kind });
    const endWait = contention.begin(kind, path);
    let end: Step | undefined;
    try {
      // The only function that waits for long: each other one between would take half a KiB of every waiting request.
      end = await this.#look(bounds);
      while (end === 'asleep' || end === 'awake')
        end = end === 'asleep' ? await this.#hear(await this.#inbox.next(), bounds) : await this.#look(bounds);
      if (end === 'granted') this.#countHandoff();
      return end;
    } finally {
      metrics.waiters.dec({ kind });
      endWait();
      this.#closed = true;
      this.#blockers.cancel();
      if (waiters.get(this.place.name) === this) waiters.delete(this.place.name);
      this.#turns?.leave(this);
      bounds.caller.offEnd(this.#onEnd);
      stopTouching();
      clearTimeout(this.#alarm);
      clearTimeout(this.#lookTimer);
      this.#before?.tellEndNoMore(this);
      const how = end !== 'granted' ? 'left' : bounds.assign === undefined ? 'granted' : 'gone';
      for (const waiter of this.#behind ?? []) waiter.beforeEnded(how);
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

  tellEnd(waiter: Waiter): void {
    (this.#behind ??= new Set()).add(waiter);
  }

  tellEndNoMore(waiter: Waiter): void {
    this.#behind?.delete(waiter);
  }

  beforeEnded(how: 'granted' | 'gone' | 'left'): void {
    this.#before = undefined;
    this.#unsure ||= how === 'gone';
    this.#inbox.post(how === 'gone' ? 'look' : `before-${how}`);
  }

  /** Whom do I wait for? Watches them, or writes the grant if there is nobody. */
  async #look(bounds: WaitBounds): Promise<Step> {
    if (this.#turns !== undefined) return this.#takeTurn(this.#turns, bounds);
    if ((this.#woken || this.#unsure) && (await this.#blockers.strikeGone(bounds)) === 'ended')
      return this.#ended(bounds);
    this.#unsure = false;
    const blockers = this.#line.blockersOf(this.place);
    if (blockers.length === 0) {
      const granted = await this.#grant(bounds);
      if (granted !== 'not-yet') return typeof granted === 'object' ? this.#sleepUntil(granted) : granted;
      this.#countSpurious();
      return 'asleep';
    }
    const relies = this.#reliesOn(blockers);
    const watching = await this.#blockers.watchAll(relies ? [] : blockers, bounds);
    if (watching === 'ended') return this.#ended(bounds);
    if (watching === 'gone' && this.#unwatched) this.#line.watchAtOnceUntil = performance.now() + WATCHED_AT_ONCE_MS;
    this.#unwatched = false;
    if (watching === 'gone') return 'awake';
    this.#countSpurious();
    return 'asleep';
  }

  /**
   * Only if my turn cannot come before that of the one before me: should its place have been taken away elsewhere, its
   * request notices when it is to be granted, and then tells me.
   * @returns whether I rely on its request
   */
  #reliesOn(blockers: readonly Contender[]): boolean {
    this.#before?.tellEndNoMore(this);
    this.#before = undefined;
    const { rule, waiters } = this.#line;
    const [only] = blockers;
    if (only === undefined || blockers.length > 1 || !rule.alone(this.place)) return false;
    const waiter = waiters.get(only.name);
    // The same name with a later czxid would be another node, from a directory made anew (protocol C10).
    if (waiter === undefined || waiter.place.czxid >= this.place.czxid) return false;
    this.#before = waiter;
    waiter.tellEnd(this);
    return true;
  }

  async #takeTurn(turns: Turns, bounds: WaitBounds): Promise<Step> {
    if (!this.#woken) {
      turns.look();
      return 'asleep';
    }
    const turn = { place: this.place, line: this.#line, deadline: bounds.hardDeadline, wake: undefined };
    const granted = await (bounds.assign?.(turn) ?? grantPermits(this.#context, turn.line, turn.place, turn.deadline));
    if (granted !== 'not-yet') return granted === 'written' ? 'granted' : granted;
    this.#countSpurious();
    turns.defer(this);
    return 'asleep';
  }

  /** The line admits me. The write proves that my lease still lives and that the place is still mine (protocol C3). */
  async #grant({ assign, hardDeadline: deadline }: WaitBounds): Promise<WaitEnd | Locked | 'not-yet'> {
    if (!(await this.#close())) return 'granted';
    const turn = { place: this.place, line: this.#line, deadline, wake: () => this.turn() };
    const written = await (assign?.(turn) ?? grant(this.#context, turn.line, turn.place, deadline));
    if (written === 'written' && assign !== undefined) this.#wake();
    return written === 'written' ? 'granted' : written;
  }

  /** Nobody stands before me whom I could watch, and nobody can hand anything over: only time passes. */
  #sleepUntil({ lockedUntil }: Locked): 'asleep' {
    const ms = Math.max(1, Math.ceil(lockedUntil - this.#context.zooKeeperClock.now()));
    this.#wokenAt = undefined;
    this.#lookIn(ms);
    return 'asleep';
  }

  async #hear(message: Message, bounds: WaitBounds): Promise<Step> {
    if (typeof message === 'object') {
      const heard = this.#blockers.heard(message);
      if (heard === 'standing') return 'asleep';
      // Who only comes to be first is not woken by that: it is told when there is something for it.
      if (heard === 'gone' && bounds.assign === undefined) this.#wake();
      this.#unsure ||= heard === 'gone';
      return 'awake';
    }
    switch (message) {
      case 'turn':
        this.#wake();
        return 'awake';
      case 'look':
        return 'awake';
      case 'before-left':
        // Not at once: those who began to wait together end together, and I may be one of them.
        this.#unsure = true;
        this.#lookIn(UNWATCHED_MS);
        return 'asleep';
      case 'before-granted':
        if (performance.now() < this.#line.watchAtOnceUntil) return 'awake';
        this.#unwatched = true;
        this.#lookIn(UNWATCHED_MS);
        return 'asleep';
      case 'handed-over':
        this.#wake();
        this.#blockers.forget();
        return 'granted';
      case 'check-head':
        await this.#checkHead(bounds);
        return 'asleep';
      case 'not-handed-over':
        return 'asleep';
      case 'deadline':
      case 'ended':
      case 'superseded':
      case 'lost':
      case 'expired':
        if (!(await this.#close())) return 'granted';
        if (message === 'expired') throw new LeaseExpiredError();
        return message === 'ended' ? (bounds.caller.ended ?? 'client-gone') : message;
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
    return bounds.caller.ended ?? 'deadline';
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
    this.#setAlarm(bounds, again);
  }

  /** @param checkMs until the head is worth a look; where there are turns, somebody else looks */
  #setAlarm({ deadline }: WaitBounds, checkMs: number): void {
    const leftMs = deadline - performance.now();
    const checks = this.#turns === undefined && checkMs < leftMs;
    const ring = (): void => this.#inbox.post(checks ? 'check-head' : 'deadline');
    this.#alarm = setTimeout(ring, Math.max(0, checks ? checkMs : leftMs));
  }

  #lookIn(ms: number): void {
    clearTimeout(this.#lookTimer);
    this.#lookTimer = setTimeout(() => this.#inbox.post('look'), ms);
  }

  /** @returns stops it */
  #keepAlive(): () => void {
    const { leases } = this.#context;
    const onExpired = (): void => this.#inbox.post('expired');
    return keepAlive(leases, this.#lease, onExpired, (until) => this.#touch(until));
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
