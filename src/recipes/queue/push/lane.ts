/**
 * Pushes: everything that a replica pushes to one queue goes through one lane, in order, in transactions.
 *
 * While one transaction is in flight, the next one fills up: under load many pushes share one round trip (group
 * commit); a lone push is not delayed. No push is answered before its transaction.
 *
 * A transaction (`transaction.ts`) is, for everything in the group:
 *
 *   check(segment at version 0) for each priority      the segment is open (`tails.ts`)
 *   check(queue at version 0) for delayed messages     they go into no segment, and must not go into a queue that is
 *                                                      deleted (T7)
 *   setData(pushers/<lane>, number, version)           what tells, after a lost connection, whether it was done
 *                                                      (protocol C25)
 *   for each message: its conditions, then create(message)
 *
 * The conditions of a message keep it unique: the mark of its messageId (`dedup.ts`), or the deletion of its old place
 * when it is moved (a delayed message that is due, a dead letter, a redriven one). So nothing is ever pushed twice or
 * lost between two places. Two pushes with the same condition never share a transaction, which would refuse itself
 * forever.
 *
 * When it fails, by the index of the operation that failed:
 *
 *   a segment is sealed or gone       looked up again; the same group once more, so the order stays
 *   a condition of a message          its push decides what that means (`refused`): it leaves the group, or stays with
 *                                     other operations; the others go on without it, so a failing push costs its
 *                                     neighbours one round trip
 *   the connection is lost            the session is waited for, `sync`, and the number read: done, or once more
 *   the number is at another version  a transaction that was given up arrived after all: the number tells which
 *
 * The number and its version belong to one lane: the remains of an earlier lane of this replica say nothing about this
 * one, and a transaction that arrives late, after its session was given up, fails if another one was done since.
 *
 * An outcome that cannot be found out by a push's deadline is `outcome-unknown`; with a messageId, the repeated push
 * finds it out.
 */
import { randomBytes } from 'node:crypto';
import { ClientGoneError } from '../../../errors.js';
import { sharing } from '../../../time.js';
import type { ControlSession } from '../../../zookeeper/control-session.js';
import { isReason, isTransient, mayBeApplied, noAnswer, NoReplyError } from '../../../zookeeper/errors.js';
import type { NodeData } from '../../../zookeeper/operations.js';
import { parentOf, parseSequence } from '../../../zookeeper/paths.js';
import { retrying } from '../../../zookeeper/retrying.js';
import { QueueGoneError } from '../gone.js';
import type { QueuePaths } from '../paths.js';
import { PendingPush, type Arrival, type Push } from './pending.js';
import { Tails } from './tails.js';
import { pushTransaction, takeGroup, type Owner } from './transaction.js';

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
  readonly #waiting: PendingPush[] = [];
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
      this.#waiting.push(new PendingPush(push, resolve, reject));
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
      const group = takeGroup(this.#waiting);
      if (group.length > 0) await this.#commit(group);
    }
    this.#running = false;
    if (this.#closed) this.close();
  }

  /** Until nothing of the group is open. */
  async #commit(group: PendingPush[]): Promise<void> {
    let open = group;
    const first = this.#number + 1;
    const attempts = async (): Promise<void> => {
      for (;;) {
        open = open.filter((push) => !push.over);
        if (open.length === 0) return;
        open = await this.#attempt(open, first, Math.max(...open.map((push) => push.deadline)));
      }
    };
    // Not sent, or refused for now: until the time of all of them is over.
    await retrying(Infinity, attempts).catch((error: unknown) => settle(open, error));
  }

  /**
   * One transaction, of those whose time is not over when it goes out: who has been told that nothing was done, or has
   * gone, is in none.
   * @param first number of the first transaction with this group
   * @returns what is to be tried again, in order
   */
  async #attempt(wanted: readonly PendingPush[], first: number, deadline: number): Promise<PendingPush[]> {
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
    // While a connection is waited for, pushes end: nothing goes out for who has hung up, or whose time is over.
    if (!this.#control.connected) await this.#control.whenConnected(deadline);
    const group = wanted.filter((push) => !push.over);
    if (group.length === 0) return [];
    this.#number += 1;
    const number = this.#number;
    const marker = { path: this.#marker, version: this.#version, number };
    const transaction = pushTransaction(this.#paths, segments, marker, group);
    for (const push of group) push.maybeApplied = true;
    const session = this.#control.sessionId;
    try {
      const results = await this.#control.groupCommit
        .until(
          deadline,
          sharing(group, (push) => push.over),
        )
        .multi(transaction.operations);
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
      if (error instanceof ClientGoneError) return group;
      const culprit = transaction.culpritOf(error);
      if (culprit === undefined) throw error;
      return this.#repair(group, culprit, first, error, deadline);
    }
  }

  /**
   * After a lost connection: the number tells whether one of the transactions with this group was done. At most one
   * was.
   */
  async #findOut(group: PendingPush[], first: number, session = this.#control.sessionId): Promise<PendingPush[]> {
    const look = async (): Promise<NodeData | undefined> => {
      const zk = this.#control.until(performance.now() + REQUEST_MS);
      await zk.sync(this.#marker);
      return zk.find(this.#marker);
    };
    const node = await retrying(performance.now() + RESOLVE_MS, look).catch(noAnswer);
    if (node === undefined) {
      // Not to be found out, or the queue was deleted, with or without these messages.
      settle(group, new NoReplyError('the push', 'deadline', true));
      return [];
    }
    this.#version = node.stat.version;
    if (Number(node.data.toString('utf8')) >= first) {
      settle(group);
      return [];
    }
    for (const push of group) {
      push.inDoubt ||= session !== this.#control.sessionId;
      push.maybeApplied = push.inDoubt;
    }
    return group;
  }

  async #repair(
    group: PendingPush[],
    owner: Owner,
    first: number,
    error: unknown,
    deadline: number,
  ): Promise<PendingPush[]> {
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
          if (isTransient(reason)) throw reason; // what it meant is asked again
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

  /**
   * The directory of a second in which a delayed message is due. Nothing above it is made: it would be the ghost of a
   * deleted queue.
   */
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

function settle(group: readonly PendingPush[], error?: unknown): void {
  for (const push of group) push.end(error);
}
