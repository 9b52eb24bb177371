/**
 * A node under a name that the client chose, owned by one lease: a member of a group or of a double barrier.
 *
 * The name is not derived from the lease, so another lease may own it (protocol T10). Only `ephemeralOwner` tells whose
 * it is. Step by step:
 *
 * - *put*: create it on the lease's own session. It exists: `sync`, read it. Not mine: 409 with its owner. Mine:
 *   written over at the version that was read. Gone meanwhile, or written to: begin again.
 * - *remove*: `sync`, look at it. Mine: deleted at the version that was read.
 *
 * What could go wrong is that between reading and writing my node goes and another lease's comes, under the same path
 * and at the same version (C10). My session lives, so only a request of my own lease can have deleted it:
 *
 * - through another replica: that took the session to another connection, and then the write on mine is refused;
 * - through this replica: here requests for one path take turns.
 *
 * So reading and writing happen on one connection and within one turn. Cut off in between: all of it again on a new
 * connection. What an earlier try of the same request wrote is known by the attempt in it.
 */
import { isPosternError, PosternError } from '../../errors.js';
import type { Leases } from '../../leases/leases.js';
import type { Lease } from '../../leases/lease.js';
import type { Requester } from '../../time.js';
import type { BoundClient } from '../../zookeeper/bound.js';
import type { ControlSession } from '../../zookeeper/control-session.js';
import { isReason, orUnknown, unless } from '../../zookeeper/errors.js';
import type { LeaseSession } from '../../zookeeper/lease-session.js';
import type { NodeData, Stat } from '../../zookeeper/operations.js';
import { parentOf } from '../../zookeeper/paths.js';
import type { Coordination } from '../coordination.js';
import type { NameBounds } from '../name-bounds.js';
import { Turns } from '../waiting/turns.js';

export interface Put {
  lease: Lease;
  path: string;
  data: Buffer;
  /** Whether these data were written by this very request. */
  isMine: (data: Buffer) => boolean;
  /** Of the directory, should it have to be made. */
  directory: Buffer;
  deadline: number;
  requester: Requester;
}

export type Turn = Pick<Put, 'lease' | 'path' | 'deadline' | 'requester'>;

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
  readonly #names: NameBounds;
  readonly #turns = new Turns();

  constructor({ control, leases, names }: Pick<Coordination, 'control' | 'leases' | 'names'>) {
    this.#names = names;
    this.#control = control;
    this.#leases = leases;
  }

  /** Creates the node, or writes to it. @throws OtherOwner, LeaseExpiredError, NoReplyError */
  put(put: Put): Promise<PutResult> {
    const { lease, path } = put;
    return this.inTurn(put, async (zk, session) => {
      const expiresAt = (): number => this.#leases.expiresAt(session);
      for (;;) {
        await this.admit(zk, path);
        const made = await this.create(zk, put);
        if (made !== undefined) return { stat: made, created: true, expiresAt: expiresAt() };
        const node = await this.find(zk, lease, path);
        if (node === undefined) continue;
        if (put.isMine(node.data)) return { stat: node.stat, created: true, expiresAt: expiresAt() };
        const stat = await unless(zk.set(path, put.data, node.stat.version), 'NO_NODE', 'BAD_VERSION');
        if (stat === undefined) continue;
        if (stat.czxid !== node.stat.czxid) throw changedHands();
        return { stat, created: false, expiresAt: expiresAt() };
      }
    });
  }

  /** @returns what was deleted; undefined when there was nothing. @throws as `put` */
  remove(turn: Turn): Promise<Stat | undefined> {
    const { lease, path } = turn;
    let own: Stat | undefined;
    return this.inTurn(turn, async (zk, session) => {
      // What a given-up request was to create is there behind this, or never comes (protocol C46); also where there
      // is a node already, which a repetition may have made.
      await session.raiseFence(zk.deadline);
      for (;;) {
        const node = await this.find(zk, lease, path).catch((error: unknown) => {
          // Mine was there when this began. The reply to its deletion was lost, and somebody else has come since.
          if (error instanceof OtherOwner && own !== undefined) return undefined;
          throw error;
        });
        if (node === undefined) return own;
        own = node.stat;
        if (await this.delete(zk, path, own)) return own;
      }
    });
  }

  /**
   * Runs `work` on the lease's session, when no other request of this replica is at work on the path; again after a
   * lost connection.
   * @param work is given the session also as it is asked until the deadline
   */
  inTurn<T>(
    { lease, path, deadline, requester }: Turn,
    work: (zk: BoundClient, session: LeaseSession) => Promise<T>,
  ): Promise<T> {
    return this.#turns.take([`${lease.leaseId} ${path}`], deadline, () =>
      this.#leases.sessions.useRepeatedly(
        lease,
        deadline,
        (session) => work(session.until(deadline), session),
        requester,
      ),
    );
  }

  /**
   * The lease's own node. That it is there, or is not, is answered as it is, so it is read behind a quorum.
   * @throws OtherOwner
   */
  async find(zk: BoundClient, lease: Lease, path: string): Promise<NodeData | undefined> {
    const node = await zk.fresh(() => zk.find(path));
    if (node !== undefined && node.stat.ephemeralOwner !== lease.sessionId) throw new OtherOwner(node);
    return node;
  }

  /** @returns false when somebody else deleted it, or wrote to it */
  async delete(zk: BoundClient, path: string, { version }: Stat): Promise<boolean> {
    try {
      await zk.remove(path, version);
      return true;
    } catch (error) {
      if (isReason(error, 'NO_NODE', 'BAD_VERSION')) return false;
      throw error;
    }
  }

  /**
   * To be asked before the node is created: members are listed, as names are.
   * @throws PosternError `too-many-names`, unless the node exists: it takes no room any more
   */
  async admit(zk: BoundClient, path: string): Promise<void> {
    await this.#names.admit(parentOf(path), zk.deadline).catch(async (error: unknown) => {
      if (!isPosternError(error, 'too-many-names') || (await zk.exists(path)) === undefined) throw error;
    });
  }

  /**
   * Directory and first child in one transaction: a lease that has ended leaves no empty directory behind (C13).
   * @returns undefined when the node exists
   */
  async create(
    zk: BoundClient,
    { path, data, directory }: Pick<Put, 'path' | 'data' | 'directory'>,
  ): Promise<Stat | undefined> {
    const parent = parentOf(path);
    for (;;) {
      try {
        return (await zk.create(path, data, 'ephemeral')).stat;
      } catch (error) {
        if (isReason(error, 'NODE_EXISTS')) return undefined;
        // Whoever is a member already asks for nothing more.
        if (isPosternError(error, 'too-many-holds') && (await zk.exists(path)) !== undefined) return undefined;
        if (!isReason(error, 'NO_NODE')) throw error;
      }
      await this.#names.admit(parentOf(parent), zk.deadline);
      try {
        const [, created] = await zk.multi([
          { type: 'create', path: parent, data: directory },
          { type: 'create', path, data, mode: 'ephemeral' },
        ]);
        if (created?.type !== 'create') continue;
        // Older servers do not tell when a transaction made it, and the answer shall say what all others are told.
        return created.stat.ctime > 0 ? created.stat : ((await orUnknown(zk.exists(path))) ?? created.stat);
      } catch (error) {
        if (isReason(error, 'NO_NODE')) await this.#control.ensurePath(parentOf(parent), zk.deadline);
        else if (!isReason(error, 'NODE_EXISTS')) throw error;
      }
    }
  }
}

function changedHands(): PosternError {
  return new PosternError('conflict', 'The member changed hands while it was written; repeat the request.');
}
