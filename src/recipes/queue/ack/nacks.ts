/**
 * A lease's negative acknowledgements at a queue: a mark for each claim, in one node of the lease's session, which goes
 * with it.
 *
 *   nacks/<leaseId>      ephemeral, of the lease's session; data: the marks of the last 1 024 claims, eight bytes each,
 *                        the last one last
 *
 * The mark is written in the transaction that ends the claim, so it is there exactly when that has happened (as in
 * ADR 9). It tells a repetition whose first answer was lost that it was done, and an acknowledgement that comes later
 * that it was not this claim which acknowledged the message, though the message is gone (protocol C21).
 *
 * The node is always written at the version that was read: the slower of two writers reads again, and finds what the
 * other one has done.
 */
import type { Lease } from '../../../leases/lease.js';
import type { ZooKeeperClient } from '../../../zookeeper/client.js';
import { isReason, unless } from '../../../zookeeper/errors.js';
import type { LeaseSession } from '../../../zookeeper/lease-session.js';
import type { MultiOperation } from '../../../zookeeper/operations.js';
import type { Queue } from '../queue.js';

/** As many as one request may name: a repeated request finds all of them. */
const MARKS_MAX = 1_024;
const MARK_BYTES = 8;

export class Nacks {
  readonly #path: string;
  readonly #marks: Buffer;
  /** Of the node; undefined: it is not there. */
  readonly version: number | undefined;

  private constructor(path: string, marks: Buffer, version: number | undefined) {
    this.#path = path;
    this.#marks = marks;
    this.version = version;
  }

  /** As they are now. @param session the lease's, or the replica's own */
  static async read(session: ZooKeeperClient, queue: Queue, { leaseId }: Lease, deadline: number): Promise<Nacks> {
    const path = queue.paths.nacksOf(leaseId);
    await session.sync(path, deadline);
    const node = await unless(session.getData(path, deadline), 'NO_NODE');
    return new Nacks(path, node?.data ?? Buffer.alloc(0), node?.stat.version);
  }

  /**
   * Makes the node where it is not there, so that sessions other than the lease's can write it.
   * @returns false when the queue was deleted
   */
  static async ensure(session: LeaseSession, queue: Queue, { leaseId }: Lease, deadline: number): Promise<boolean> {
    try {
      await session.create(queue.paths.nacksOf(leaseId), Buffer.alloc(0), { mode: 'ephemeral' }, deadline);
    } catch (error) {
      if (isReason(error, 'NO_NODE')) return false;
      if (!isReason(error, 'NODE_EXISTS')) throw error;
    }
    return true;
  }

  has(claimId: string): boolean {
    const mark = markOf(claimId);
    for (let at = 0; at < this.#marks.length; at += MARK_BYTES)
      if (mark.equals(this.#marks.subarray(at, at + MARK_BYTES))) return true;
    return false;
  }

  /**
   * Adds these; fails when somebody else has written meanwhile. On the lease's session where the node is not there yet.
   */
  add(claimIds: readonly string[]): MultiOperation {
    const all = Buffer.concat([this.#marks, ...claimIds.map(markOf)]);
    const data = all.subarray(Math.max(0, all.length - MARKS_MAX * MARK_BYTES));
    return this.version === undefined
      ? { type: 'create', path: this.#path, data, mode: 'ephemeral' }
      : { type: 'setData', path: this.#path, data, version: this.version };
  }
}

/** Of its keyed hash, which stands at its end: no two claims have the same. */
function markOf(claimId: string): Buffer {
  return Buffer.from(claimId, 'base64url').subarray(-MARK_BYTES);
}
