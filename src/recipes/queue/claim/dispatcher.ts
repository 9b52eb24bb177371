/**
 * Hands messages to consumers, in the order of the queue and in the order in which the consumers asked.
 *
 * Guarantee: a message goes to one demand; within a priority, messages go out in the order in which they were pushed.
 *   Nothing is taken for a client that is known to have gone.
 * Not guaranteed: that the answer reaches the client. A popped message is then lost; a claim is taken back.
 *
 * The loop, which runs while there are demands:
 *
 * 1. Get the turn (`turn.ts`). Until then, look whether there are any messages, so that demands that do not wait can be
 *    answered; if there are some and the replica that has the turn does not take them, oust it.
 * 2. Ask the head for as many messages as are wanted, over segments and priorities. If there are none, or the queue is
 *    paused, demands that do not wait are answered after a look that began with a `sync`, which also checks what no
 *    event announces: messages that are due, and claims that are young or have expired. The others sleep until a watch
 *    fires, or the queue is resumed.
 * 3. Assign the messages and hand them out (`hand-out.ts`). All pops go out as one transaction on the control session,
 *    with the turn's fence; every claim as a transaction on its lease's session, which checks the fence (`take.ts`) and
 *    that the preceding claim was made (`order.ts`). Claims do not hold up the loop, but pops wait for them; if a claim
 *    fails or does not get through, nothing more is handed out until all claims are decided.
 * 4. Messages that could not be taken return to their places and are read again in their turn; their demands stay in
 *    line.
 * 5. Pass the turn if another replica waits, this one has worked for a while, and there are more messages.
 *
 * One wake-up per message: an event wakes the loop, which wakes exactly the demands that get something.
 *
 * Crash points. Before a transaction: nothing was taken. After it: a popped message is lost with its answer; a claimed
 * one returns when the lease ends, or is found when the client repeats its requestId. If only the connection was lost,
 * and the outcome is not known by the deadline, this replica looks for the claim and takes it back. The turn's node
 * goes with the replica's session, unless it is ousted before.
 */
import { fullJitter, pause } from '../../../time.js';
import { isTransient, unless } from '../../../zookeeper/errors.js';
import { Demand, type Assignment, type Delivered, type DemandOptions } from './demand.js';
import { ClaimOrder, decideLate, type Ticket } from './order.js';
import { DelayedMover } from './delayed.js';
import { moveToDeadLetters } from '../ack/dead-letters.js';
import { deliveriesOf, type Entry } from './entry.js';
import { HandOut, type Begin } from './hand-out.js';
import { Head } from './head.js';
import type { Dispatching, Queue } from '../queue.js';
import { QueueGoneError } from '../gone.js';
import { isExpired } from '../paths.js';
import { bytesInAnswer, fill, roomFor, type Room } from './room.js';
import { Turn, type TakerRecord } from './turn.js';

/** How long this replica works before it passes the turn to another one that waits. */
const TURN_MS = 10;
/** How long a replica may leave messages lying, while others wait, before it is ousted. */
const PATIENCE_MS = 250;
/** Without anybody asking, turn, view and watches are kept so long. */
const IDLE_MS = 500;
const REQUEST_MS = 10_000;
const RETRY_BASE_MS = 5;
const RETRY_CAP_MS = 500;
const WAITING_NOTED_EVERY_MS = 1_000;

export class Dispatcher implements Dispatching {
  readonly #queue: Queue;
  readonly #head: Head;
  readonly #turn: Turn;
  readonly #delayed: DelayedMover;
  readonly #order: ClaimOrder;
  readonly #out: HandOut;
  #demands: Demand[] = [];
  #running = false;
  #closed = false;
  #workedMs = 0;
  /** Begin of the last `sync` that was answered, monotonic. */
  #syncedAt = -Infinity;
  #wake: () => void = () => undefined;
  #woken = false;
  #idle: NodeJS.Timeout | undefined;
  #yielding = false;
  /** An event came while it was looked at. */
  #yieldAgain = false;
  /** The turn, named by its node, that the view of the head was made in; undefined: in somebody else's. */
  #viewedIn: string | undefined;
  /** The first message that is there for the taking while another replica has the turn. */
  #stalled: { first: string | undefined; path: string; since: number } | undefined;
  #noted = { waiting: 0, at: -Infinity };
  readonly changed = (): void => this.#wakeUp();

  constructor(queue: Queue) {
    this.#queue = queue;
    this.#head = new Head(queue, this.changed);
    this.#turn = new Turn(queue.control, queue.paths.takers, this.changed);
    this.#delayed = new DelayedMover(queue, () => this.#turn.held);
    this.#order = new ClaimOrder(this.changed);
    this.#out = new HandOut(queue, this.#head, this.#turn, this.changed);
  }

  get busy(): boolean {
    return this.#running || this.#out.claiming;
  }

  /** Those that would wait, should there be nothing. */
  get #waiting(): number {
    return this.#demands.filter(({ options }) => options.waitMs > 0).length;
  }

  take(options: DemandOptions): Promise<Delivered[]> {
    const demand = new Demand(options, this.#queue.context.metrics);
    this.serve(demand);
    return demand.answered;
  }

  serve(demand: Demand): void {
    if (this.#closed) demand.fail(new QueueGoneError());
    if (demand.over) return;
    // Who does not wait is no contention.
    const { contention } = this.#queue.context;
    const endWait = demand.options.waitMs > 0 ? contention.begin('queue', this.#queue.path) : undefined;
    demand.onChange(() => {
      if (demand.over) {
        endWait?.();
        this.#demands = this.#demands.filter((other) => other !== demand);
      }
      this.#wakeUp();
    });
    this.#demands.push(demand);
    clearTimeout(this.#idle);
    if (this.#running) this.#wakeUp();
    else void this.#run();
  }

  settled(path: string, how: 'gone' | 'free'): void {
    this.#head.settled(path, how);
  }

  close(): void {
    this.#closed = true;
    this.#out.close();
    clearTimeout(this.#idle);
    for (const demand of [...this.#demands]) demand.fail(new QueueGoneError());
    this.#release();
    this.#wakeUp();
  }

  /** Those for which nothing is being taken. Whose client has left is over now. */
  #open(): Demand[] {
    const open: Demand[] = [];
    for (const demand of this.#demands) {
      if (demand.taking) continue;
      if (demand.left) demand.end([]);
      else open.push(demand);
    }
    return open;
  }

  async #run(): Promise<void> {
    this.#running = true;
    this.#delayed.start();
    for (let failures = 0; this.#demands.length > 0 && !this.#closed;) {
      try {
        await this.#step();
        failures = 0;
      } catch (error) {
        if (isTransient(error)) {
          // Nothing is known for sure until there is a connection again; the demands end by their deadlines.
          this.#head.close();
          this.#turn.close();
          failures += 1;
          await pause(fullJitter(failures, RETRY_BASE_MS, RETRY_CAP_MS));
        } else {
          for (const demand of [...this.#demands]) demand.fail(error);
          this.#release();
        }
      }
    }
    this.#running = false;
    if (this.#closed) return this.#release(); // what the last step has set meanwhile
    if (this.#turn.joined) void this.#yield();
    this.#idle = setTimeout(() => this.#release(), IDLE_MS).unref();
  }

  async #step(): Promise<void> {
    const deadline = performance.now() + REQUEST_MS;
    const { late } = this.#order;
    if (late.length > 0) await this.#decide(late, deadline);
    if (this.#out.outdated) await this.#catchUp(deadline);
    await this.#turn.look(this.#record(), deadline);
    if (!this.#turn.joined) return; // lost while it was looked for
    const turn = this.#turn.held ? this.#turn.path : undefined;
    if (turn !== this.#viewedIn) {
      this.#viewedIn = turn;
      this.#head.forget();
      this.#workedMs = 0;
    }
    if (turn === undefined) return this.#wait(deadline);
    if (this.#order.broken) return this.#sleep();
    const begun = performance.now();
    const open = this.#open();
    if (open.length === 0) return this.#sleep();
    const begin = { handedBack: this.#head.handedBack, unchanged: this.#queue.unchanged, deadline };
    const found = await this.#next(roomFor(this.#queue, open), deadline);
    if (found.length === 0) {
      this.#workedMs = 0;
      return this.#nothing(open, deadline);
    }
    // Only while there is something to take: where many wait at an empty queue, passing would wake replicas for
    // nothing.
    if (this.#turn.asked && this.#workedMs >= TURN_MS)
      return this.#order.undecided === 0 ? this.#pass(true) : this.#sleep();
    await this.#hand(found, begin);
    this.#workedMs += performance.now() - begun;
  }

  /** Nothing while the queue is paused. */
  async #next(room: Room, deadline: number): Promise<Entry[]> {
    return this.#queue.paused ? [] : this.#head.next(room, deadline);
  }

  /** Another replica has the turn. */
  async #wait(deadline: number): Promise<void> {
    const { first } = this.#turn;
    const [next] = await this.#next({ messages: 1, bytes: 1 }, deadline);
    if (next === undefined) {
      this.#stalled = undefined;
      return this.#nothing(this.#open(), deadline);
    }
    const now = performance.now();
    if (first === undefined || this.#stalled?.first !== first || this.#stalled.path !== next.path)
      this.#stalled = { first, path: next.path, since: now };
    const patience = this.#stalled.since + PATIENCE_MS - now;
    if (patience > 0) {
      await this.#sleep(patience);
      // What it took meanwhile is seen by listing anew.
      this.#head.forget();
      return;
    }
    this.#stalled = undefined;
    if (first !== undefined) await this.#turn.oust(first, deadline);
  }

  /** There is nothing to take. */
  async #nothing(open: readonly Demand[], deadline: number): Promise<void> {
    const impatient = open.filter((demand) => demand.impatient && !demand.over);
    if (impatient.length > 0) {
      if (impatient.some(({ options }) => options.receivedAt > this.#syncedAt)) {
        // What was pushed before the request must be seen; the events of it come before the reply.
        const { paused } = this.#queue;
        this.#syncedAt = await this.#catchUp(deadline);
        if (paused) return; // it may have been resumed
        // What only time brings, or a claim that is not watched yet, no event tells of.
        await this.#delayed.looked();
        await this.#head.lookAtClaims(deadline);
        if (!this.#head.quiet) return;
      }
      for (const demand of impatient) if (!demand.taking && demand.options.receivedAt <= this.#syncedAt) demand.end([]);
      return;
    }
    for (const demand of open) demand.waited = true;
    await this.#sleep(await this.#noteWaiting(deadline));
  }

  /**
   * Learns what was done before.
   * @returns when this began, monotonic
   */
  async #catchUp(deadline: number): Promise<number> {
    const begun = performance.now();
    await this.#queue.control.sync(this.#queue.paths.data, deadline);
    if (!(await this.#queue.queues.isCurrent(this.#queue, deadline))) throw new QueueGoneError();
    this.#out.outdated = false;
    return begun;
  }

  /** Assigns messages, pops what is to be popped, and begins to claim the rest. */
  async #hand(found: readonly Entry[], { handedBack, unchanged, deadline }: Begin): Promise<void> {
    const { maxDeliveries } = this.#queue.config;
    const messages: Entry[] = [];
    for (const entry of found) {
      if (maxDeliveries === undefined || deliveriesOf(entry) < maxDeliveries) messages.push(entry);
      else if (!(await this.#bury(entry, deadline))) return; // read anew before anything behind it
    }
    // While a connection is waited for, who has hung up is struck from the list: nothing is popped for nobody.
    const { control } = this.#queue;
    if (!control.connected) await control.whenConnected(deadline);
    // What a claim has failed to take meanwhile is in front of these, or some expired while it was waited: looked anew.
    const now = this.#queue.context.zooKeeperClock.now();
    if (this.#head.handedBack !== handedBack || messages.some((entry) => isExpired(entry, now))) return;
    const open = this.#open();
    const popping = open[0]?.options.claim === undefined;
    // Messages handed out before must first be taken, or come back.
    if (popping && this.#order.undecided > 0) return this.#sleep();
    const pops: Assignment[] = [];
    let next = 0;
    for (const demand of open) {
      if ((demand.options.claim === undefined) !== popping) break; // when those in front of it are served
      const entries = fill(messages.slice(next), demand.options.max);
      if (entries.length === 0) break;
      const refused = demand.options.reserve(bytesInAnswer(entries));
      if (refused !== undefined) {
        demand.fail(refused);
        continue;
      }
      next += entries.length;
      for (const entry of entries) entry.state = 'busy';
      demand.taking = true;
      if (popping) pops.push({ demand, entries });
      else
        void this.#out.claim({ demand, entries }, this.#order.begin(entries[0] as Entry, unchanged, this.#turn.path));
    }
    if (pops.length > 0) await this.#out.pop(pops, { unchanged, waiting: this.#waiting, deadline });
  }

  /** @returns whether it is gone from here */
  async #bury(entry: Entry, deadline: number): Promise<boolean> {
    const moved = await moveToDeadLetters(this.#queue, entry, 'claim-ended', { deadline });
    this.#head[moved ? 'gone' : 'returned'](entry);
    return moved;
  }

  /** Claims that do not get through: with the node of their turn gone they were made before that, or never will be. */
  async #decide(late: readonly Ticket[], deadline: number): Promise<void> {
    const { control, paths } = this.#queue;
    for (const fence of new Set(late.map((ticket) => ticket.fence))) {
      if (this.#turn.joined && this.#turn.path === fence) await this.#pass(true);
      else await unless(control.delete(fence, undefined, deadline), 'NO_NODE');
    }
    await decideLate(control, paths.data, late, deadline);
    if (late.some(({ known }) => known === false)) this.#head.close(); // that is free, and no event tells of it
  }

  async #pass(again: boolean): Promise<void> {
    this.#workedMs = 0;
    await this.#turn.pass(again, this.#record(), performance.now() + REQUEST_MS);
  }

  #record(): TakerRecord {
    return { number: this.#out.number, waiting: this.#waiting };
  }

  /**
   * Tells the other replicas how many wait here, now and then.
   * @returns in how many ms it is time to, where it is not yet
   */
  async #noteWaiting(deadline: number): Promise<number | undefined> {
    const waiting = this.#waiting;
    const now = performance.now();
    if (!this.#turn.joined || waiting === this.#noted.waiting) return undefined;
    const early = this.#noted.at + WAITING_NOTED_EVERY_MS - now;
    if (early > 0) return early;
    this.#noted = { waiting, at: now };
    const fence = this.#turn.fence(this.#record());
    if (fence.type !== 'setData') return undefined;
    const written = await unless(
      this.#queue.control.setData(fence.path, Buffer.from(fence.data), undefined, deadline),
      'NO_NODE',
    );
    if (written === undefined) this.#turn.lost();
    return undefined;
  }

  #release(): void {
    this.#delayed.stop();
    this.#turn.close();
    this.#head.close();
  }

  #wakeUp(): void {
    this.#woken = true;
    this.#wake();
    if (!this.#running && this.#turn.joined && !this.#closed) void this.#yield();
  }

  /** Nobody asks here: the turn, also one that comes only now, goes to whoever waits for it. */
  async #yield(): Promise<void> {
    this.#yieldAgain = true;
    if (this.#yielding) return;
    this.#yielding = true;
    try {
      while (this.#yieldAgain && this.#turn.joined && !this.#running) {
        this.#yieldAgain = false;
        await this.#turn.look(this.#record(), performance.now() + REQUEST_MS);
        if (this.#turn.held && this.#turn.asked && this.#order.undecided === 0 && !this.#running)
          await this.#pass(false);
      }
    } catch {
      this.#turn.close(); // who waits for it ousts this replica, should even that fail
    } finally {
      this.#yielding = false;
      if (this.#closed) this.#turn.close(); // ousted while it looked, it has lined up again
    }
  }

  /** Until something has happened, or `ms` have passed. */
  async #sleep(ms?: number): Promise<void> {
    if (!this.#woken) {
      let timer: NodeJS.Timeout | undefined;
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
        if (ms !== undefined) timer = setTimeout(resolve, ms);
      });
      clearTimeout(timer);
      this.#wake = () => undefined;
    }
    this.#woken = false;
  }
}
