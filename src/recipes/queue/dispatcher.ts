/**
 * Hands messages to those who ask for them, in the order of the queue and in the order in which they asked.
 *
 * Guarantee: a message goes to one demand; in one priority in the order in which they were pushed. Nothing is taken for a client that is
 *   known to have gone.
 * Not guaranteed: that the answer reaches the client. A pop is then a lost message, a claim is taken back.
 *
 * The loop, which runs while somebody asks:
 *
 * 1. Have the turn (`turn.ts`). Until then: look whether there is anything at all, so that those who do not wait are answered; and when
 *    there is and the one who has the turn does not take it, oust it.
 * 2. Ask the head for the next messages, as many as are wanted. None: those who do not wait are answered after a look that began with
 *    a `sync` (and at what no event tells of: messages that are due, claims that are young or have run out); the others sleep until a watch says that something came.
 * 3. Assign them. All pops go out as one transaction on the control session, with the turn's fence; every claim as a transaction on its
 *    lease's session, which checks the fence (`take-claims.ts`) and that the claim in front of it was made (`claim-order.ts`). Claims do not hold up the
 *    loop, but pops wait for them, and when one fails, or does not get through, nothing more is handed out until all of them are decided.
 * 4. What failed goes back to its place, and is read anew when it is its turn; who asked for it stays in line.
 * 5. Pass the turn when another replica waits, this one has worked for a while and there is more to take.
 *
 * One wake-up per message: an event wakes the loop, which wakes exactly those demands that get something.
 *
 * Crash points. Before a transaction: nothing was taken. After it: a popped message is gone with its answer, a claimed one comes back when
 * the lease ends or the client repeats its requestId; where only the connection was lost, and nothing known by the deadline, this replica looks for
 * the claim and takes it back. The turn's node goes with the replica's session, or is ousted before.
 */
import { fullJitter, pause } from '../../time.js';
import { isReason, isTransient, mayBeApplied, unless, ZooKeeperError } from '../../zookeeper/errors.js';
import type { MultiOperation } from '../../zookeeper/operations.js';
import { Demand, type Assignment, type Delivered, type DemandOptions } from './demand.js';
import { ClaimOrder, type Ticket } from './claim-order.js';
import { DelayedMover } from './delayed.js';
import { moveToDeadLetters } from './dead-letters.js';
import { claimPath, decodeClaim, deliveriesOf, recordPath, type Entry } from './entry.js';
import { Head } from './head.js';
import type { Queue } from './queue.js';
import { QueueGoneError } from './queue-gone.js';
import { takeBack, takeBackLater, takeClaims } from './take-claims.js';
import { decodeTaker, Turn, type TakerRecord } from './turn.js';

/** What one turn of the loop takes at most. */
const TAKE_MAX = 200;
/** What one answer carries at most; the next request gets the rest. */
const ANSWER_BYTES_MAX = 1024 * 1024;
/** How long this replica works before it passes the turn to another one that waits. */
const TURN_MS = 10;
/** How long a replica may leave messages lying, while others wait, before it is ousted. */
const PATIENCE_MS = 250;
/** Claims behind one that does not get through wait so long for it. */
const LATE_MS = 250;
/** Without anybody asking, turn, view and watches are kept so long. */
const IDLE_MS = 500;
const REQUEST_MS = 10_000;
const RETRY_BASE_MS = 5;
const RETRY_CAP_MS = 500;
/** Of the operations of a pop: behind the turn's fence. */
const QUEUE_CHECK = 1;
const WAITING_NOTED_EVERY_MS = 1_000;

export class Dispatcher {
  readonly #queue: Queue;
  readonly #head: Head;
  readonly #turn: Turn;
  readonly #delayed: DelayedMover;
  readonly #order: ClaimOrder;
  #demands: Demand[] = [];
  #running = false;
  #closed = false;
  #inFlight = 0;
  #number = 0;
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

  constructor(queue: Queue) {
    this.#queue = queue;
    const wake = (): void => this.#wakeUp();
    this.#head = new Head(queue, wake);
    this.#turn = new Turn(queue.control, queue.paths.takers, wake);
    this.#delayed = new DelayedMover(queue, () => this.#turn.held);
    this.#order = new ClaimOrder(wake);
  }

  get busy(): boolean {
    return this.#running || this.#inFlight > 0;
  }

  /**
   * Takes messages; none when the wait is over before there were any.
   * @throws LeaseExpiredError, QueueGoneError (nothing was taken), NoReplyError
   */
  take(options: DemandOptions): Promise<Delivered[]> {
    if (this.#closed) return Promise.reject(new QueueGoneError());
    const { metrics, contention } = this.#queue.context;
    // Who does not wait is no contention.
    const endWait = options.waitMs > 0 ? contention.begin('queue', this.#queue.path) : undefined;
    metrics.waiters.inc({ kind: 'queue' });
    const demand = new Demand(options, (over) => {
      endWait?.();
      metrics.waiters.dec({ kind: 'queue' });
      this.#demands = this.#demands.filter((other) => other !== over);
      this.#wakeUp();
    });
    if (demand.over) return demand.answered;
    this.#demands.push(demand);
    clearTimeout(this.#idle);
    if (this.#running) this.#wakeUp();
    else void this.#run();
    return demand.answered;
  }

  /** This replica has settled a claim: no need to find out. */
  settled(path: string, how: 'gone' | 'free'): void {
    this.#head.settled(path, how);
  }

  close(): void {
    this.#closed = true;
    clearTimeout(this.#idle);
    for (const demand of [...this.#demands]) demand.fail(new QueueGoneError());
    this.#release();
    this.#wakeUp();
  }

  async #run(): Promise<void> {
    this.#running = true;
    this.#delayed.start();
    for (let failures = 0; this.#demands.length > 0 && !this.#closed;) {
      try {
        await this.#step();
        failures = 0;
      } catch (error) {
        if (error instanceof QueueGoneError) {
          for (const demand of [...this.#demands]) demand.fail(error);
          this.#release();
        } else if (isTransient(error)) {
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
    const open = this.#demands.filter(({ taking }) => !taking);
    if (open.length === 0) return this.#sleep();
    const wanted = Math.min(
      TAKE_MAX,
      open.reduce((sum, { options }) => sum + options.max, 0),
    );
    const found = await this.#head.next(wanted, deadline);
    if (found.length === 0) {
      this.#workedMs = 0;
      return this.#nothing(open, deadline);
    }
    // Only while there is something to take: where many wait at an empty queue, passing would wake replicas for nothing.
    if (this.#turn.asked && this.#workedMs >= TURN_MS)
      return this.#order.undecided === 0 ? this.#pass(true) : this.#sleep();
    await this.#hand(found, deadline);
    this.#workedMs += performance.now() - begun;
  }

  /** Another replica has the turn. */
  async #wait(deadline: number): Promise<void> {
    const { first } = this.#turn;
    const [next] = await this.#head.next(1, deadline);
    if (next === undefined) {
      this.#stalled = undefined;
      const open = this.#demands.filter(({ taking }) => !taking);
      return this.#nothing(open, deadline);
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
        const begun = performance.now();
        await this.#queue.control.sync(this.#queue.paths.data, deadline);
        if (!(await this.#queue.queues.isCurrent(this.#queue, deadline))) throw new QueueGoneError();
        this.#syncedAt = begun;
        // What only time brings, or a claim that is not watched yet, no event tells of.
        await this.#delayed.looked();
        await this.#head.lookAtClaims(deadline);
        if (!this.#head.quiet) return;
      }
      for (const demand of impatient) if (demand.options.receivedAt <= this.#syncedAt) demand.end([]);
      return;
    }
    for (const demand of open) demand.waited = true;
    await this.#sleep(await this.#noteWaiting(deadline));
  }

  /** Assigns messages, pops what is to be popped, and begins to claim the rest. */
  async #hand(found: readonly Entry[], deadline: number): Promise<void> {
    const { maxDeliveries } = this.#queue.config;
    const messages: Entry[] = [];
    for (const entry of found) {
      if (maxDeliveries === undefined || deliveriesOf(entry) < maxDeliveries) messages.push(entry);
      else if (!(await this.#bury(entry, deadline))) return; // read anew before anything behind it
    }
    const open = this.#demands.filter(({ taking }) => !taking);
    const popping = open[0]?.options.claim === undefined;
    if (popping && this.#order.undecided > 0) return this.#sleep(); // what was handed out before must be taken, or come back
    const pops: Assignment[] = [];
    let next = 0;
    for (const demand of open) {
      if ((demand.options.claim === undefined) !== popping) break; // when those in front of it are served
      const entries = fill(messages.slice(next), demand.options.max);
      if (entries.length === 0) break;
      next += entries.length;
      for (const entry of entries) entry.state = 'busy';
      demand.taking = true;
      if (popping) pops.push({ demand, entries });
      else void this.#claim({ demand, entries }, this.#order.begin(entries[0] as Entry, this.#turn.path));
    }
    if (pops.length > 0) await this.#pop(pops, deadline);
  }

  /** @returns whether it is gone from here */
  async #bury(entry: Entry, deadline: number): Promise<boolean> {
    const moved = await moveToDeadLetters(this.#queue, entry, undefined, deadline);
    if (moved) this.#head.gone(entry);
    else this.#head.returned(entry);
    return moved;
  }

  async #pop(assignments: readonly Assignment[], deadline: number): Promise<void> {
    const entries = assignments.flatMap((assignment) => assignment.entries);
    this.#number += 1;
    const sent = { path: this.#turn.path, number: this.#number, session: this.#queue.control.sessionId };
    const operations: MultiOperation[] = [this.#turn.fence(this.#record()), this.#queue.paths.exists];
    const owners: (Entry | undefined)[] = [undefined, undefined];
    for (const entry of entries) {
      if (entry.claims !== undefined) {
        operations.push({ type: 'delete', path: recordPath(entry.path), version: entry.claims });
        owners.push(entry);
      }
      operations.push({ type: 'delete', path: entry.path });
      owners.push(entry);
    }
    try {
      await this.#queue.control.multi(operations, deadline);
      this.#popped(assignments);
    } catch (error) {
      if (mayBeApplied(error)) {
        const done = await this.#wasDone(sent);
        if (done === true) return this.#popped(assignments);
        for (const entry of entries) this.#head.returned(entry);
        if (done === undefined) for (const { demand } of assignments) demand.fail(error);
        else this.#again(assignments);
        return;
      }
      if (error instanceof ZooKeeperError && error.failedIndex !== undefined) {
        const culprit = owners[error.failedIndex];
        const gone = error.failedIndex === QUEUE_CHECK;
        if (culprit !== undefined) this.#conflict(culprit, error);
        else if (!gone) this.#turn.lost();
        for (const entry of entries) if (entry.state === 'busy') this.#head.putBack(entry);
        this.#again(assignments);
        if (gone) throw new QueueGoneError();
        return;
      }
      for (const entry of entries) this.#head.putBack(entry);
      this.#again(assignments);
      throw error;
    }
  }

  #popped(assignments: readonly Assignment[]): void {
    for (const { demand, entries } of assignments) {
      const items = entries.map((entry) => delivered(entry));
      for (const entry of entries) this.#head.gone(entry);
      this.#served(demand, items, 'pop');
    }
  }

  async #claim(assignment: Assignment, ticket: Ticket): Promise<void> {
    const { demand, entries } = assignment;
    this.#inFlight += 1;
    const late = setTimeout(() => {
      ticket.late = true;
      this.#wakeUp();
    }, LATE_MS);
    try {
      const result = await takeClaims(this.#queue, demand, entries, ticket);
      for (const { entry, error } of result.conflicts) this.#conflict(entry, error);
      if (result.outcome === 'turn-lost' && this.#turn.path === ticket.fence) this.#turn.lost();
      for (const { entry, until } of result.claimed) {
        entry.until = until;
        if (!this.#closed) this.#head.claimed(entry);
      }
      for (const entry of entries) if (entry.state === 'busy') this.#head.returned(entry);
      // Of what somebody else has there is nothing left to wait for, but for what was in front of it.
      if (result.outcome === 'none')
        void (ticket.before?.taken ?? Promise.resolve(true)).then((taken) => ticket.decide(taken));
      else ticket.decide(result.outcome === 'made');
      if (result.items.length === 0) this.#again([assignment]);
      else if (!demand.over) this.#served(demand, result.items, 'claim');
      else void takeBack(this.#queue, result.items, performance.now() + REQUEST_MS).catch(() => undefined); // they go with the lease
    } catch (error) {
      // The lease has ended, its session could not be reached, or the queue was deleted: what was meant for it is for the next one.
      for (const entry of entries) this.#head.returned(entry);
      ticket.decide(false);
      if (mayBeApplied(error)) takeBackLater(this.#queue, entries, ticket);
      demand.fail(error);
    } finally {
      clearTimeout(late);
      this.#inFlight -= 1;
      this.#wakeUp();
    }
  }

  /** Claims that do not get through: with the node of their turn gone they were made before that, or never will be. */
  async #decide(late: readonly Ticket[], deadline: number): Promise<void> {
    const { control, paths } = this.#queue;
    for (const fence of new Set(late.map((ticket) => ticket.fence))) {
      if (this.#turn.joined && this.#turn.path === fence) await this.#pass(true);
      else await unless(control.delete(fence, undefined, deadline), 'NO_NODE');
    }
    await control.sync(paths.data, deadline);
    const { results } = await control.multiRead(
      late.map(({ path }) => ({ type: 'getData', path: claimPath(path) })),
      deadline,
    );
    for (const [i, result] of results.entries()) {
      const ticket = late[i] as Ticket;
      ticket.decide('data' in result && decodeClaim(result.data)?.a === ticket.attempt);
    }
  }

  #served(demand: Demand, items: Delivered[], op: 'pop' | 'claim'): void {
    const { metrics } = this.#queue.context;
    this.#queue.count(op, items.length);
    const redelivered = items.filter(({ deliveries }) => deliveries > 1).length;
    if (redelivered > 0) metrics.queueRedeliveriesTotal.inc(redelivered);
    if (demand.waited) {
      metrics.wakeupsTotal.inc({ kind: 'queue' });
      metrics.handoffsTotal.inc({ kind: 'queue' });
    }
    demand.end(items);
  }

  #again(assignments: readonly Assignment[]): void {
    for (const { demand } of assignments) demand.again();
  }

  /** Somebody else has taken it: not possible under the turn, but for those who take without one (a purge, a redrive). */
  #conflict(entry: Entry, error: ZooKeeperError): void {
    const { context, path } = this.#queue;
    context.metrics.queueClaimConflictsTotal.inc();
    context.contention.conflict('queue', path);
    if (isReason(error, 'NO_NODE') && entry.claims === undefined) this.#head.gone(entry);
    else this.#head.returned(entry);
  }

  /** After a lost connection: whether the transaction was done; undefined when nobody knows. */
  async #wasDone({
    path,
    number,
    session,
  }: {
    path: string;
    number: number;
    session: bigint;
  }): Promise<boolean | undefined> {
    const until = performance.now() + REQUEST_MS;
    const { control } = this.#queue;
    for (let attempt = 0; performance.now() < until; attempt += 1) {
      try {
        await control.sync(path, until);
        const node = await unless(control.getData(path, until), 'NO_NODE');
        if (node !== undefined && decodeTaker(node.data).number >= number) return true;
        // In a session that was given up it may arrive yet; in this one nothing overtakes the `sync`.
        return node === undefined || session !== control.sessionId ? undefined : false;
      } catch (error) {
        if (!isTransient(error)) throw error;
        await pause(fullJitter(attempt, RETRY_BASE_MS, RETRY_CAP_MS));
      }
    }
    return undefined;
  }

  async #pass(again: boolean): Promise<void> {
    this.#workedMs = 0;
    await this.#turn.pass(again, this.#record(), performance.now() + REQUEST_MS);
  }

  #record(): TakerRecord {
    return { number: this.#number, waiting: this.#demands.length };
  }

  /** Tells the other replicas how many wait here, now and then. @returns in how many ms it is time to, where it is not yet */
  async #noteWaiting(deadline: number): Promise<number | undefined> {
    const waiting = this.#demands.length;
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

function fill(entries: readonly Entry[], max: number): Entry[] {
  const taken: Entry[] = [];
  let bytes = 0;
  for (const entry of entries) {
    bytes += entry.message?.body.length ?? 0;
    if (taken.length === max || (taken.length > 0 && bytes > ANSWER_BYTES_MAX)) break;
    taken.push(entry);
  }
  return taken;
}

function delivered(entry: Entry): Delivered {
  const { message, priority, enqueuedAt, path } = entry;
  if (message === undefined) throw new Error(`${path} was assigned before it was read`);
  return {
    message,
    priority,
    enqueuedAt,
    deliveries: deliveriesOf(entry) + 1,
    path,
    version: (entry.claims ?? -1) + 1,
  };
}
