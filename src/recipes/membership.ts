/**
 * A node under a name that the client chose, which stands for one lease: a member of a group or of a double barrier.
 *
 * The name is not derived from the lease, so another lease may own it (protocol T10). Whose it is tells `ephemeralOwner` alone. Step by step:
 *
 * - *put*: create it on the lease's own session. It exists: `sync`, read it. Not mine: 409 with its owner. Mine: written over at the version
 *   that was read. Gone meanwhile, or written to: begin again.
 * - *remove*: `sync`, look at it. Mine: deleted at the version that was read.
 *
 * What could go wrong is that between reading and writing my node goes and another lease's comes, under the same path and at
 * the same version (C10). My session lives, so only a request of my own lease can have deleted it:
 *
 * - through another replica: that took the session to another connection, and then the write on mine is refused;
 * - through this replica: here requests for one path take turns.
 *
 * So reading and writing happen on one connection and within one turn. Cut off in between: all of it again on a new connection. What an
 * earlier try of the same request wrote is known by the attempt in it.
 */
import { PosternError } from '../errors.js';
import type { Leases } from '../leases/leases.js';
import type { Lease } from '../leases/lease.js';
import type { ControlSession } from '../zookeeper/control-session.js';
import { isReason, orUnknown, unless } from '../zookeeper/errors.js';
import type { LeaseSession } from '../zookeeper/lease-session.js';
import type { NodeData, Stat } from '../zookeeper/operations.js';
import { parentOf } from '../zookeeper/paths.js';
import { Turns } from './turns.js';

export interface Put {
  lease: Lease;
  path: string;
  data: Buffer;
  /** Whether these data were written by this very request. */
  isMine: (data: Buffer) => boolean;
  /** Of the directory, should it have to be made. */
  directory: Buffer;
  deadline: number;
}

export interface PutResult {
  stat: Stat;
  created: boolean;
  /** Epoch ms: the lease lives at least until then. */
  expiresAt: number;
}

/** The directory is ours, and stays: ADR 3. */
export const OWN_DIRECTORY = Buffer.from('postern');

/** The name belongs to somebody else: what the node says of its owner is for the recipe to tell. */
export class OtherOwner extends Error {
  override readonly name = 'OtherOwner';

  constructor(readonly node: Pick<NodeData, 'data' | 'stat'>) {
    super('the node belongs to another session');
  }
}

export class Memberships {
  readonly #control: ControlSession;
  readonly #leases: Leases;
  readonly #turns = new Turns();

  constructor({ control, leases }: { control: ControlSession; leases: Leases }) {
    this.#control = control;
    this.#leases = leases;
  }

  /** Creates the node, or writes to it. @throws OtherOwner, LeaseExpiredError, NoReplyError */
  put(put: Put): Promise<PutResult> {
    const { lease, path, deadline } = put;
    return this.inTurn(lease, path, deadline, async (session) => {
      const expiresAt = this.#leases.expiresAt(lease);
      for (;;) {
        const made = await this.create(session, put);
        if (made !== undefined) return { stat: made, created: true, expiresAt };
        const node = await this.find(session, lease, path, deadline);
        if (node === undefined) continue;
        if (put.isMine(node.data)) return { stat: node.stat, created: true, expiresAt };
        const stat = await unless(
          session.setData(path, put.data, node.stat.version, deadline),
          'NO_NODE',
          'BAD_VERSION',
        );
        if (stat === undefined) continue;
        if (stat.czxid !== node.stat.czxid) throw changedHands();
        return { stat, created: false, expiresAt };
      }
    });
  }

  /** @returns what was deleted; undefined when there was nothing. @throws as `put` */
  remove(lease: Lease, path: string, deadline: number): Promise<Stat | undefined> {
    let own: Stat | undefined;
    return this.inTurn(lease, path, deadline, async (session) => {
      for (;;) {
        const node = await this.find(session, lease, path, deadline).catch((error: unknown) => {
          // Mine was there when this began. The reply to its deletion was lost, and somebody else has come since.
          if (error instanceof OtherOwner && own !== undefined) return undefined;
          throw error;
        });
        if (node === undefined) return own;
        own = node.stat;
        if (await this.delete(session, path, own, deadline)) return own;
      }
    });
  }

  /** Runs `work` on the lease's session, when no other request of this replica is at work on the path; again after a lost connection. */
  inTurn<T>(
    lease: Lease,
    path: string,
    deadline: number,
    work: (session: LeaseSession, attempt: number) => Promise<T>,
  ): Promise<T> {
    return this.#turns.take([`${lease.leaseId} ${path}`], deadline, () =>
      this.#leases.sessions.useRepeatedly(lease, deadline, work),
    );
  }

  /** The lease's own node, up to date. @throws OtherOwner */
  async find(session: LeaseSession, lease: Lease, path: string, deadline: number): Promise<NodeData | undefined> {
    const [, node] = await Promise.all([
      session.sync(path, deadline),
      unless(session.getData(path, deadline), 'NO_NODE'),
    ]);
    if (node !== undefined && node.stat.ephemeralOwner !== lease.sessionId) throw new OtherOwner(node);
    return node;
  }

  /** @returns false when somebody else deleted it, or wrote to it */
  async delete(session: LeaseSession, path: string, { version }: Stat, deadline: number): Promise<boolean> {
    try {
      await session.delete(path, version, deadline);
      return true;
    } catch (error) {
      if (isReason(error, 'NO_NODE', 'BAD_VERSION')) return false;
      throw error;
    }
  }

  /** Directory and first child in one transaction: a lease that has ended leaves no empty directory behind (C13). @returns undefined when the node exists */
  async create(
    session: LeaseSession,
    { path, data, directory, deadline }: Pick<Put, 'path' | 'data' | 'directory' | 'deadline'>,
  ): Promise<Stat | undefined> {
    const parent = parentOf(path);
    for (;;) {
      try {
        return (await session.create(path, data, { mode: 'ephemeral' }, deadline)).stat;
      } catch (error) {
        if (isReason(error, 'NODE_EXISTS')) return undefined;
        if (!isReason(error, 'NO_NODE')) throw error;
      }
      try {
        const [, created] = await session.multi(
          [
            { type: 'create', path: parent, data: directory },
            { type: 'create', path, data, mode: 'ephemeral' },
          ],
          deadline,
        );
        if (created?.type !== 'create') continue;
        // Older servers do not tell when a transaction made it, and the answer shall say what all others are told.
        return created.stat.ctime > 0
          ? created.stat
          : ((await orUnknown(session.exists(path, deadline))) ?? created.stat);
      } catch (error) {
        if (isReason(error, 'NO_NODE')) await this.#control.ensurePath(parentOf(parent), deadline);
        else if (!isReason(error, 'NODE_EXISTS')) throw error;
      }
    }
  }
}

function changedHands(): PosternError {
  return new PosternError('conflict', 'The member changed hands while it was written; repeat the request.');
}
