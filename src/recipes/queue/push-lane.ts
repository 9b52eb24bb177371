/**
 * Pushing: everything of one queue that arrives at a replica goes through one lane, in order, in transactions.
 *
 * While one transaction is on its way the next one fills up: under load many pushes share one round trip (group commit), alone a
 * push is not delayed. Nothing is answered before its transaction is.
 *
 * A transaction is, for everything in the group:
 *
 *   check(segment at version 0) for each priority      the segment is open (`tails.ts`)
 *   check(queue at version 0) for delayed messages     they go into no segment, and must not go into a queue that is deleted (T7)
 *   setData(pushers/<lane>, number, version)           what tells, after a lost connection, whether it was done (protocol C25)
 *   for each message: its conditions, then create(message)
 *
 * The conditions of a message are what makes it one: the mark of its messageId (`dedup.ts`), the deletion of the place that it
 * leaves when it is moved (a delayed message that is due, a dead letter, one that is redriven). So nothing is ever pushed twice or
 * lost between two places. Two pushes with the same condition do not share a transaction: it would refuse itself for ever.
 *
 * When it fails, by the index of the operation that failed:
 *
 *   a segment is sealed or gone       looked up again; the same group once more, so the order stays
 *   a condition of a message          its push is asked what that means (`refused`), and leaves the group or stays with other
 *                                     operations; the others go on without it: a failing push costs its neighbours one round trip
 *   the connection is lost            the session is waited for, `sync`, and the number read: done, or once more
 *   the number is at another version  a transaction that was given up arrived after all: the number tells which
 *
 * The number and its version belong to one lane: what is left of an earlier lane of this replica says nothing about this one, and a
 * transaction that arrives late, after its session was given up, fails when another one was done since.
 *
 * What cannot be found out by the deadline of a push is `outcome-unknown`; with a messageId its repetition finds out.
 */
import { randomBytes } from 'node:crypto';
import { fullJitter, pause } from '../../time.js';
import type { ControlSession } from '../../zookeeper/control-session.js';
import { isReason, isTransient, mayBeApplied, NoReplyError, unless, ZooKeeperError } from '../../zookeeper/errors.js';
import type { MultiOperation } from '../../zookeeper/operations.js';
import { parentOf, parseSequence } from '../../zookeeper/paths.js';
import { QueueGoneError } from './queue-gone.js';
import { MESSAGE_PREFIX, type QueuePaths } from './queue-paths.js';
import { Tails } from './tails.js';
import { bytesOf, bytesOfAll, GROUP_BYTES_MAX, GROUP_OPERATIONS_MAX } from './transactions.js';

/** One message on its way into the queue. */
export interface Arrival {
  data: Buffer;
  priority: number;
  /** Not into the queue yet, but to where it waits until then: epoch ms on the ensemble's clock. */
  dueAt?: number | undefined;
  /** What has to be done in the same transaction. */
  conditions: MultiOperation[];
}

/** What is pushed at once: all or none. */
export interface Push {
  arrivals: readonly Arrival[];
  /** Monotonic. */
  deadline: number;
  /**
   * A condition was refused. Changes the arrivals, or what is remembered of them, so that it does not happen again.
   * @returns the arrivals that are still to be pushed; empty: there is nothing left to do
   * @throws what the push then fails with
   */
  refused(index: number, operation: number, error: unknown): Promise<readonly Arrival[]>;
}

/** A push in the lane. */
class Waiting implements Push {
  arrivals: readonly Arrival[];
  readonly deadline: number;
  /** A transaction with it was sent, and nothing is known of it yet. */
  maybeApplied = false;
  /** A transaction with it went out in a session that was given up: it may arrive as long as none was done since. */
  inDoubt = false;
  /** Its caller was told. */
  over = false;
  readonly #push: Push;
  readonly #resolve: () => void;
  readonly #reject: (error: unknown) => void;
  readonly #timer: NodeJS.Timeout;

  constructor(push: Push, resolve: () => void, reject: (error: unknown) => void) {
    this.arrivals = push.arrivals;
    this.deadline = push.deadline;
    this.#push = push;
    this.#resolve = resolve;
    this.#reject = reject;
    this.#timer = setTimeout(
      () => this.end(new NoReplyError('the push', 'deadline', this.maybeApplied)),
      Math.max(0, push.deadline - performance.now()),
    );
  }

  refused(index: number, operation: number, error: unknown): Promise<readonly Arrival[]> {
    return this.#push.refused(index, operation, error);
  }

  end(error?: unknown): void {
    if (this.over) return;
    this.over = true;
    clearTimeout(this.#timer);
    if (error === undefined) this.#resolve();
    else this.#reject(error);
  }
}

const RETRY_BASE_MS = 5;
const RETRY_CAP_MS = 250;
/** How long the lane looks for the outcome of a transaction; its pushes may be told earlier that it is not known. */
const RESOLVE_MS = 30_000;
const REQUEST_MS = 5_000;

export class PushLane {
  readonly #control: ControlSession;
  readonly #paths: QueuePaths;
  readonly #tails: Tails;
  readonly #marker: string;
  /** Of the marker, as it was last written or read; undefined: it is not there yet. */
  #version: number | undefined;
  #waiting: Waiting[] = [];
  #running = false;
  #closed = false;
  #number = 0;

  constructor(control: ControlSession, paths: QueuePaths) {
    this.#control = control;
    this.#paths = paths;
    this.#tails = new Tails(control, paths);
    this.#marker = `${paths.pushers}/${randomBytes(8).toString('hex')}`;
  }

  get busy(): boolean {
    return this.#running;
  }

  /**
   * Resolves when everything of it is in the queue.
   * @throws QueueGoneError when the queue was deleted: nothing was pushed
   * @throws NoReplyError by the deadline
   */
  push(push: Push): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#waiting.push(new Waiting(push, resolve, reject));
      if (!this.#running) void this.#run();
    });
  }

  /** Nothing more is pushed through it: its number is of no use to anybody. What stays behind housekeeping removes. */
  close(): void {
    this.#closed = true;
    if (this.#running || this.#version === undefined) return;
    this.#version = undefined;
    this.#control.delete(this.#marker, undefined, performance.now() + REQUEST_MS).catch(() => undefined);
  }

  async #run(): Promise<void> {
    this.#running = true;
    // What arrives in this turn of the event loop goes out together.
    await Promise.resolve();
    while (this.#waiting.length > 0) {
      const group = this.#takeGroup();
      if (group.length > 0) await this.#commit(group);
    }
    this.#running = false;
    if (this.#closed) this.close();
  }

  /** As many as fit into one transaction, at least one, of those whose time is not over. */
  #takeGroup(): Waiting[] {
    const group: Waiting[] = [];
    const conditions = new Set<string>();
    let bytes = 0;
    let operations = 0;
    let taken = 0;
    // Two with the same messageId cannot be in one transaction: the second would be refused by what the first had not done yet.
    for (const push of this.#waiting) {
      if (!push.over) {
        const [pushBytes, pushOperations] = sizeOf(push.arrivals);
        const paths = push.arrivals.flatMap((arrival) => arrival.conditions.map(({ path }) => path));
        const fits =
          bytes + pushBytes <= GROUP_BYTES_MAX &&
          operations + pushOperations <= GROUP_OPERATIONS_MAX &&
          !paths.some((path) => conditions.has(path));
        if (group.length > 0 && !fits) break;
        for (const path of paths) conditions.add(path);
        bytes += pushBytes;
        operations += pushOperations;
        group.push(push);
      }
      taken += 1;
    }
    this.#waiting.splice(0, taken);
    return group;
  }

  /** Until nothing of the group is open. */
  async #commit(group: Waiting[]): Promise<void> {
    let open = group;
    const first = this.#number + 1;
    for (let attempt = 0; ; attempt += 1) {
      open = open.filter((push) => !push.over);
      if (open.length === 0) return;
      const deadline = Math.max(...open.map((push) => push.deadline));
      try {
        open = await this.#attempt(open, first, deadline);
      } catch (error) {
        if (!isTransient(error)) return settle(open, error);
        // Not sent, or refused for now.
        await pause(fullJitter(attempt, RETRY_BASE_MS, RETRY_CAP_MS));
      }
    }
  }

  /**
   * One transaction, of those whose time is not over when it goes out: who has been told that nothing was done is in none.
   * @param first number of the first transaction with this group
   * @returns what is to be tried again, in order
   */
  async #attempt(wanted: readonly Waiting[], first: number, deadline: number): Promise<Waiting[]> {
    this.#version ??= await this.#makeMarker(deadline);
    const segments = new Map<number, number>();
    for (const { arrivals } of wanted) {
      for (const { priority, dueAt } of arrivals) {
        if (dueAt !== undefined || segments.has(priority)) continue;
        const segment = await this.#tails.of(priority, deadline);
        if (segment === undefined) throw new QueueGoneError();
        segments.set(priority, segment);
      }
    }
    const group = wanted.filter((push) => !push.over);
    if (group.length === 0) return [];
    this.#number += 1;
    const number = this.#number;
    const marker = { path: this.#marker, version: this.#version, number };
    const transaction = new Transaction(this.#paths, segments, marker, group);
    for (const push of group) push.maybeApplied = true;
    const session = this.#control.sessionId;
    try {
      const results = await this.#control.multi(transaction.operations, deadline);
      this.#version += 1;
      settle(group);
      for (const [priority, segment] of segments) {
        const prefix = `${this.#paths.segment(priority, segment)}/`;
        const last = results.findLast((result) => result.type === 'create' && result.path.startsWith(prefix));
        const sequence = last?.type === 'create' ? parseSequence(last.path) : undefined;
        if (sequence !== undefined)
          await this.#tails.pushed(priority, segment, sequence, performance.now() + RESOLVE_MS).catch(() => undefined);
      }
      return [];
    } catch (error) {
      if (mayBeApplied(error)) return this.#findOut(group, first, session);
      for (const push of group) push.maybeApplied = push.inDoubt;
      if (!(error instanceof ZooKeeperError) || error.failedIndex === undefined) throw error;
      return this.#repair(group, transaction.ownerOf(error.failedIndex), first, error, deadline);
    }
  }

  /** After a lost connection: the number tells whether one of the transactions with this group was done. At most one was. */
  async #findOut(group: Waiting[], first: number, session = this.#control.sessionId): Promise<Waiting[]> {
    const until = performance.now() + RESOLVE_MS;
    for (let attempt = 0; performance.now() < until; attempt += 1) {
      try {
        await this.#control.sync(this.#marker, performance.now() + REQUEST_MS);
        const node = await unless(this.#control.getData(this.#marker, performance.now() + REQUEST_MS), 'NO_NODE');
        if (node === undefined) break; // the queue was deleted, with or without these messages
        this.#version = node.stat.version;
        if (Number(node.data.toString('utf8')) < first) {
          for (const push of group) {
            push.inDoubt ||= session !== this.#control.sessionId;
            push.maybeApplied = push.inDoubt;
          }
          return group;
        }
        settle(group);
        return [];
      } catch (error) {
        if (!isTransient(error)) throw error;
        await pause(fullJitter(attempt, RETRY_BASE_MS, RETRY_CAP_MS));
      }
    }
    settle(group, new NoReplyError('the push', 'deadline', true));
    return [];
  }

  async #repair(group: Waiting[], owner: Owner, first: number, error: unknown, deadline: number): Promise<Waiting[]> {
    switch (owner.what) {
      case 'segment': {
        if (!isReason(error, 'BAD_VERSION', 'NO_NODE')) throw error;
        this.#tails.forget(owner.priority);
        await this.#control.sync(this.#paths.data, deadline); // this server may not know the next segment yet
        const queue = await this.#control.exists(this.#paths.data, deadline);
        if (queue === undefined || queue.version > 0) throw new QueueGoneError(); // then there is no next segment
        return group;
      }
      case 'queue':
        if (!isReason(error, 'BAD_VERSION', 'NO_NODE')) throw error;
        throw new QueueGoneError();
      case 'marker':
        if (isReason(error, 'BAD_VERSION')) return this.#findOut(group, first);
        if (!isReason(error, 'NO_NODE')) throw error;
        this.#version = undefined;
        return group;
      case 'arrival': {
        const { push, index, operation } = owner;
        if (operation === 'message') {
          if (!isReason(error, 'NO_NODE')) throw error;
          await this.#makeRoom(push.arrivals[index] as Arrival, deadline);
          return group;
        }
        try {
          push.arrivals = await push.refused(index, operation, error);
        } catch (reason) {
          push.end(reason);
          return group.filter((other) => other !== push);
        }
        if (push.arrivals.length > 0) return group;
        push.end();
        return group.filter((other) => other !== push);
      }
    }
  }

  /** @returns its version */
  async #makeMarker(deadline: number): Promise<number> {
    try {
      await this.#control.create(this.#marker, Buffer.from('0'), {}, deadline);
      return 0;
    } catch (error) {
      if (isReason(error, 'NO_NODE')) throw new QueueGoneError();
      if (isReason(error, 'NODE_EXISTS')) return (await this.#control.getData(this.#marker, deadline)).stat.version;
      throw mayBeApplied(error) ? new NoReplyError('the push', 'connection-lost', false, error) : error;
    }
  }

  /** The directory of a second in which a delayed message is due. Nothing above it is made: it would be the ghost of a deleted queue. */
  async #makeRoom({ dueAt }: Arrival, deadline: number): Promise<void> {
    if (dueAt === undefined) throw new QueueGoneError();
    const bucket = this.#paths.delayedBucket(dueAt);
    for (const directory of [parentOf(bucket), bucket]) {
      try {
        await this.#control.create(directory, undefined, {}, deadline);
      } catch (error) {
        if (isReason(error, 'NO_NODE') && directory !== bucket) throw new QueueGoneError();
        if (!isReason(error, 'NODE_EXISTS', 'NO_NODE')) throw error; // of the bucket: tidied away meanwhile, made anew
      }
    }
  }
}

type Owner =
  | { what: 'segment'; priority: number }
  | { what: 'queue' }
  | { what: 'marker' }
  | { what: 'arrival'; push: Waiting; index: number; operation: number | 'message' };

/** The operations of a group, and which of them belongs to whom. */
class Transaction {
  readonly operations: MultiOperation[] = [];
  readonly #owners: Owner[] = [];

  constructor(
    paths: QueuePaths,
    segments: ReadonlyMap<number, number>,
    { path: marker, version, number }: { path: string; version: number; number: number },
    group: readonly Waiting[],
  ) {
    for (const [priority, segment] of segments)
      this.#add({ type: 'check', path: paths.segment(priority, segment), version: 0 }, { what: 'segment', priority });
    if (group.some(({ arrivals }) => arrivals.some(({ dueAt }) => dueAt !== undefined)))
      this.#add(paths.exists, { what: 'queue' });
    this.#add({ type: 'setData', path: marker, data: Buffer.from(String(number)), version }, { what: 'marker' });
    for (const push of group) {
      for (const [index, arrival] of push.arrivals.entries()) {
        for (const [operation, condition] of arrival.conditions.entries())
          this.#add(condition, { what: 'arrival', push, index, operation });
        const path =
          arrival.dueAt === undefined
            ? `${paths.segment(arrival.priority, segments.get(arrival.priority) as number)}/${MESSAGE_PREFIX}`
            : paths.delayedMessage(arrival.dueAt);
        this.#add(
          { type: 'create', path, data: arrival.data, mode: 'persistent-sequential' },
          { what: 'arrival', push, index, operation: 'message' },
        );
      }
    }
  }

  ownerOf(index: number): Owner {
    return this.#owners[index] as Owner;
  }

  #add(operation: MultiOperation, owner: Owner): void {
    this.operations.push(operation);
    this.#owners.push(owner);
  }
}

function sizeOf(arrivals: readonly Arrival[]): [bytes: number, operations: number] {
  let bytes = 0;
  let operations = 0;
  for (const { data, conditions } of arrivals) {
    bytes += bytesOf({ type: 'create', path: '', data }) + bytesOfAll(conditions);
    operations += 1 + conditions.length;
  }
  return [bytes, operations];
}

function settle(group: readonly Waiting[], error?: unknown): void {
  for (const push of group) push.end(error);
}
