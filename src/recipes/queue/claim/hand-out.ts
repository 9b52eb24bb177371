/**
 * Hands assigned messages to their demands: pops in one transaction on the control session (`group-commit.ts`), each
 * claim in one on its lease's session. Messages that could not be taken go back to the head; their demands go back into
 * the dispatcher's line, which decides who gets what (`dispatcher.ts`).
 */
import { ClientGoneError } from '../../../errors.js';
import { sharing } from '../../../time.js';
import { isReason, mayBeApplied, noAnswer } from '../../../zookeeper/errors.js';
import type { MultiOperation } from '../../../zookeeper/operations.js';
import { OwnedTransaction } from '../../../zookeeper/owned-transaction.js';
import { retrying } from '../../../zookeeper/retrying.js';
import type { Queue } from '../queue.js';
import { QueueGoneError } from '../gone.js';
import type { Assignment, Delivered, Demand } from './demand.js';
import { deliveriesOf, removalOf, type Entry } from './entry.js';
import type { Head } from './head.js';
import type { Ticket } from './order.js';
import { takeBack, takeBackLater, takeClaims } from './take.js';
import { decodeTaker, type Turn } from './turn.js';

/** Claims behind one that does not get through wait so long for it. */
const LATE_MS = 250;
const REQUEST_MS = 10_000;

/** How things were before messages were looked for: the queue may be paused, or some come back, in the meantime. */
export interface Begin {
  /** Of the head. */
  handedBack: number;
  /** Refuses what was decided on once the queue is not what it was. */
  unchanged: MultiOperation;
  deadline: number;
}

/** A pop that was sent. */
interface Sent {
  path: string;
  number: number;
  session: bigint;
}

export class HandOut {
  readonly #queue: Queue;
  readonly #head: Head;
  readonly #turn: Turn;
  readonly #onChange: () => void;
  #number = 0;
  #claiming = 0;
  #closed = false;
  /** What is known of the queue was found not to be what it is: to be read anew before anything more is handed out. */
  outdated = false;

  /** @param onChange called when claims have come out, however */
  constructor(queue: Queue, head: Head, turn: Turn, onChange: () => void) {
    this.#queue = queue;
    this.#head = head;
    this.#turn = turn;
    this.#onChange = onChange;
  }

  /** Of the last pop: the node of the turn says it, which tells after a lost connection whether it was done. */
  get number(): number {
    return this.#number;
  }

  /** Whether claims are under way. */
  get claiming(): boolean {
    return this.#claiming > 0;
  }

  close(): void {
    this.#closed = true;
  }

  /**
   * Takes all of it, or nothing.
   * @param waiting how many wait here, for the turn's node to say
   * @throws QueueGoneError when the queue was deleted
   */
  async pop(
    assignments: readonly Assignment[],
    { unchanged, waiting, deadline }: Pick<Begin, 'unchanged' | 'deadline'> & { waiting: number },
  ): Promise<void> {
    const entries = assignments.flatMap((assignment) => assignment.entries);
    this.#number += 1;
    const number = this.#number;
    const sent = { path: this.#turn.path, number, session: this.#queue.control.sessionId };
    const transaction = this.#popping(entries, unchanged, this.#turn.fence({ number, waiting }));
    // Nothing is taken for who has hung up while it waited to be sent.
    const requester = sharing(assignments, ({ demand }) => demand.left);
    try {
      await this.#queue.control.groupCommit.until(deadline, requester).multi(transaction.operations);
      this.#popped(assignments);
    } catch (error) {
      if (mayBeApplied(error)) {
        const done = await this.#wasDone(sent);
        if (done === true) return this.#popped(assignments);
        for (const entry of entries) this.#head.returned(entry);
        if (done === undefined) for (const { demand } of assignments) demand.fail(error);
        else again(assignments);
        return;
      }
      const culprit = transaction.culpritOf(error);
      if (culprit === 'turn') this.#turn.lost();
      else if (culprit === 'unchanged') this.outdated = true;
      else if (culprit !== undefined && culprit !== 'queue') this.#conflict(culprit, error);
      for (const entry of entries) if (entry.state === 'busy') this.#head.putBack(entry);
      again(assignments);
      if (culprit === undefined && !(error instanceof ClientGoneError)) throw error;
      if (culprit === 'queue') throw new QueueGoneError();
    }
  }

  #popping(
    entries: readonly Entry[],
    unchanged: MultiOperation,
    fence: MultiOperation,
  ): OwnedTransaction<'turn' | 'queue' | 'unchanged' | Entry> {
    const transaction = new OwnedTransaction<'turn' | 'queue' | 'unchanged' | Entry>()
      .add('turn', fence)
      .add('queue', this.#queue.paths.exists)
      .add('unchanged', unchanged);
    for (const entry of entries) transaction.add(entry, ...removalOf(entry.path, entry.claims));
    return transaction;
  }

  #popped(assignments: readonly Assignment[]): void {
    for (const { demand, entries } of assignments) {
      const items = entries.map((entry) => delivered(this.#queue, entry));
      for (const entry of entries) this.#head.gone(entry);
      this.#served(demand, items, 'pop');
    }
  }

  /** After a lost connection: whether the transaction was done; undefined when nobody knows. */
  #wasDone({ path, number, session }: Sent): Promise<boolean | undefined> {
    const { control } = this.#queue;
    const zk = control.until(performance.now() + REQUEST_MS);
    const look = async (): Promise<boolean | undefined> => {
      await zk.sync(path);
      const node = await zk.find(path);
      if (node !== undefined && decodeTaker(node.data).number >= number) return true;
      // In a session that was given up it may arrive yet; in this one nothing overtakes the `sync`.
      return node === undefined || session !== control.sessionId ? undefined : false;
    };
    return retrying(zk.deadline, look).catch(noAnswer);
  }

  /** Claims what is assigned to one demand; whatever comes of it, `ticket` is decided. */
  async claim(assignment: Assignment, ticket: Ticket): Promise<void> {
    const { demand, entries } = assignment;
    this.#claiming += 1;
    const late = setTimeout(() => {
      ticket.late = true;
      this.#onChange();
    }, LATE_MS);
    try {
      const result = await takeClaims(this.#queue, demand, entries, ticket);
      for (const { entry, error } of result.conflicts) this.#conflict(entry, error);
      if (result.outcome === 'outdated') this.outdated = true;
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
      if (result.items.length === 0) again([assignment]);
      else if (!demand.over) this.#served(demand, result.items, 'claim');
      else takeBack(this.#queue, result.items);
    } catch (error) {
      // The lease has ended, its session could not be reached, or the queue was deleted: what was meant for it is for
      // the next one.
      for (const entry of entries) this.#head.returned(entry);
      ticket.decide(false);
      if (mayBeApplied(error) || error instanceof ClientGoneError) takeBackLater(this.#queue, entries, ticket);
      demand.fail(error);
    } finally {
      clearTimeout(late);
      this.#claiming -= 1;
      this.#onChange();
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

  /**
   * Somebody else has taken it: not possible under the turn, but for those who take without one (a purge, a redrive).
   */
  #conflict(entry: Entry, error: unknown): void {
    const { context, path } = this.#queue;
    context.metrics.queueClaimConflictsTotal.inc();
    context.contention.conflict('queue', path);
    if (isReason(error, 'NO_NODE') && entry.claims === undefined) this.#head.gone(entry);
    else this.#head.returned(entry);
  }
}

function again(assignments: readonly Assignment[]): void {
  for (const { demand } of assignments) demand.again();
}

function delivered({ name }: Queue, entry: Entry): Delivered {
  const { message, priority, enqueuedAt, expiresAt, path } = entry;
  if (message === undefined) throw new Error(`${path} was assigned before it was read`);
  return {
    queue: name,
    message,
    priority,
    enqueuedAt,
    expiresAt,
    deliveries: deliveriesOf(entry) + 1,
    path,
    version: (entry.claims ?? -1) + 1,
  };
}
