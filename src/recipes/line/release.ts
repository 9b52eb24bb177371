/**
 * Releases a hold, or gives up a waiting place.
 *
 * By holdId: the path follows from it, so nothing is read when this replica granted the hold. It is deleted through the
 * control session, in a transaction with other requests' writes (`group-commit.ts`), at the version that it got with
 * its grant: an acquire that was repeated since, at whichever replica, has written to it, so a late release does not
 * free what that was answered (protocol C7). Otherwise, and where that write does not tell, the node is looked at on
 * the lease's own session first, because a holdId is public and must name a node of *this* lease's session, in this
 * very incarnation (C8). By requestId: the session's own nodes are listed and every one under the guid is deleted (C6);
 * of a lock those in the room before its line as well (`lock/priority.ts`). Both delete what they have read at its
 * version, and read again when it was written to meanwhile.
 *
 * If the next in line waits in this replica, the deletion and its grant are one transaction (local hand-off): one round
 * trip instead of three, and no moment in which nobody holds. It is done only when this replica granted the hold that
 * is released, so that it is known to be the head of the line; the write of the next one's state is version-checked, so
 * a place that was given up or taken over meanwhile fails the transaction as a whole, and the release is done alone.
 *
 * A hold with a lock-delay goes together with its mark (`lock-delay.ts`), also in a hand-over. Whether it has one this
 * replica knows when it granted the hold; else the node's data tell, which are read only where the directory says that
 * delays are in use.
 *
 * A second attempt after a lost connection that finds nothing answers as the first would have.
 */
import type { Lease } from '../../leases/lease.js';
import { requestGuid } from '../../leases/lease.js';
import { tryWithoutSession, type Tried } from '../../leases/without-session.js';
import { NotHolderError } from '../../errors.js';
import type { Requester } from '../../time.js';
import type { Kind } from '../../metrics/metrics.js';
import type { BoundClient, BoundWriter } from '../../zookeeper/bound.js';
import { isReason, mayBeApplied, orUnknown, unless } from '../../zookeeper/errors.js';
import type { LeaseSession } from '../../zookeeper/lease-session.js';
import type { MultiOperation, NodeData } from '../../zookeeper/operations.js';
import { baseName, parentOf } from '../../zookeeper/paths.js';
import { deleteContender, deleteTail, mayHaveReader } from './candidate-tail.js';
import {
  contenderOf,
  decodeHoldId,
  encodeRecord,
  guidOf,
  parseContender,
  withState,
  type Contender,
  type Hold,
} from './contender.js';
import type { Coordination } from '../coordination.js';
import { createMark, delayOf, deleteMark, deleteWithMark } from './delay/mark.js';
import { directoryGuard } from './grant.js';
import type { GrantedHold } from './granted-holds.js';
import type { Line, Waiter } from './line.js';

export interface ReleaseRequest {
  lease: Lease;
  name: string;
  /** Exactly one hold; without it everything under `requestId`. */
  holdId: string | undefined;
  requestId: string;
  deadline: number;
  requester: Requester;
}

/** A node that is to be deleted. */
interface Removal {
  contender: Contender;
  /** Where this replica granted the hold: then it is the head of the line. */
  known: GrantedHold | undefined;
  /** The czxid of a hold that has a mark. */
  marked: number | undefined;
  /** Whether a reader's place stands behind it. */
  downgradable?: boolean | undefined;
  /** At which it is deleted. */
  version: number;
}

/**
 * @param room by requestId: in front of the line, where a place of the request may be instead, or as well
 * @throws NotHolderError, LeaseExpiredError, NoReplyError
 */
export async function release(
  context: Coordination,
  kind: Kind,
  directory: string,
  request: ReleaseRequest,
  room?: string,
): Promise<void> {
  const { lease, holdId, deadline, requester, name } = request;
  const releasing = new Releasing(context, kind, directory, request);
  const inRoom = room === undefined ? undefined : new Releasing(context, kind, room, request);
  const hold = holdId === undefined ? undefined : decodeHoldId(holdId);
  const tried = hold === undefined ? 'not-done' : await releasing.ofKnownHold(hold);
  if (tried === 'done') return;
  let everMaybeApplied = tried === 'in-doubt';
  const work = async (session: LeaseSession): Promise<boolean> => {
    try {
      if (holdId === undefined) return await releasing.byRequestId(session, inRoom);
      return hold !== undefined && (await releasing.byHoldId(hold, session));
    } catch (error) {
      everMaybeApplied ||= (releasing.hasDeleted || inRoom?.hasDeleted === true) && mayBeApplied(error);
      throw error;
    }
  };
  const found = await orUnknown(
    context.leases.sessions.useRepeatedly(lease, deadline, work, requester),
    () => tried === 'in-doubt',
  );
  if (!found && !everMaybeApplied) throw new NotHolderError(kind, name);
}

class Releasing {
  /** Whether a deletion was sent; what came before that releases nothing. */
  hasDeleted = false;
  readonly #context: Coordination;
  readonly #kind: Kind;
  readonly #directory: string;
  readonly #request: ReleaseRequest;

  constructor(context: Coordination, kind: Kind, directory: string, request: ReleaseRequest) {
    this.#context = context;
    this.#kind = kind;
    this.#directory = directory;
    this.#request = request;
  }

  /** Releases what this replica granted, and nobody has written to since, in one write that it shares with others. */
  async ofKnownHold(hold: Hold): Promise<Tried> {
    const { lease } = this.#request;
    const contender = contenderOf(hold);
    const known = this.#context.granted.find(this.#path(contender), lease.leaseId, hold.czxid);
    if (known?.version === undefined) return 'not-done';
    const removal = { contender, known, marked: known.marked ? hold.czxid : undefined, version: known.version };
    return tryWithoutSession(this.#context.control, lease, this.#request, (zk) => this.#delete(zk, removal));
  }

  /** @returns whether there was anything to release */
  byHoldId(hold: Hold, session: LeaseSession): Promise<boolean> {
    const { lease, deadline } = this.#request;
    const contender = contenderOf(hold);
    const path = this.#path(contender);
    return this.#deleteAsRead(session.until(deadline), contender, async () => {
      const node = await session.readToWrite(
        path,
        () => unless(session.getData(path, deadline), 'NO_NODE'),
        (found) => isAt(found, hold.czxid, lease),
        deadline,
      );
      return isAt(node, hold.czxid, lease) ? node : undefined;
    });
  }

  async byRequestId(session: LeaseSession, room?: Releasing): Promise<boolean> {
    const { deadline } = this.#request;
    // The room before the line, as its places go: whoever is not seen in the one is in the other.
    const readOnce = (): Promise<[string[], string[]]> =>
      Promise.all([room === undefined ? [] : room.#listOwn(session), this.#listOwn(session)]);
    const read = (): Promise<[string[], string[]]> =>
      session.readToWrite(this.#directory, readOnce, (found) => found.flat().length > 0, deadline);
    let [inRoom, inLine] = await read();
    if (inRoom.length + inLine.length === 0) {
      // An acquire that was given up may be on its way still.
      await session.raiseFence(deadline);
      [inRoom, inLine] = await read();
    }
    const zk = session.until(deadline);
    let found = false;
    const deleting = async (): Promise<void> => {
      for (const path of inRoom) found = (await (room as Releasing).#deleteAt(zk, path)) || found;
      // One that was gone from there has had its turn meanwhile.
      if (inRoom.length > 0) [, inLine] = await read();
      for (const path of inLine) found = (await this.#deleteAt(zk, path)) || found;
    };
    await orUnknown(deleting(), () => found);
    return found;
  }

  /** Paths of what the session has here under the request's guids. */
  async #listOwn(session: LeaseSession): Promise<string[]> {
    const { lease, name, requestId, deadline } = this.#request;
    const guids = [
      lease.guid(this.#kind, name, requestId),
      requestGuid(lease.principal, lease.namespace, this.#kind, name, requestId),
    ];
    const paths = await session.getEphemerals(this.#directory, deadline);
    return paths.filter((path) => parentOf(path) === this.#directory && guids.includes(guidOf(baseName(path)) ?? ''));
  }

  #deleteAt(zk: BoundClient, path: string): Promise<boolean> {
    const contender = parseContender(baseName(path)) as Contender;
    return this.#deleteAsRead(zk, contender, () => zk.find(path));
  }

  /**
   * Deletes a node at the version that it was read at: should this arrive late, it does nothing to a place that the
   * lease has been answered since.
   * @param read undefined: there is nothing to delete
   * @returns whether the node was there
   */
  async #deleteAsRead(
    zk: BoundClient,
    contender: Contender,
    read: () => Promise<NodeData | undefined>,
  ): Promise<boolean> {
    const path = this.#path(contender);
    for (;;) {
      const node = await read();
      if (node === undefined) return false;
      const { czxid, version } = node.stat;
      const known = this.#context.granted.find(path, this.#request.lease.leaseId, czxid);
      const marked = (await delayOf(zk, path, node)) > 0 ? czxid : undefined;
      const downgradable = mayHaveReader(node.data);
      const deleting = this.#delete(zk, { contender, known, marked, version, downgradable }).then((wasThere) => ({
        wasThere,
      }));
      const done = await unless(deleting, 'BAD_VERSION');
      if (done !== undefined) return done.wasThere;
    }
  }

  /** @returns whether the node was there */
  async #delete(zk: BoundWriter, removal: Removal): Promise<boolean> {
    const { granted, lines, metrics, freeLines } = this.#context;
    const { contender, known } = removal;
    const path = this.#path(contender);
    this.hasDeleted = true;
    const line = lines.peek(this.#directory);
    const waiting = line?.waiters.get(contender.name);
    const next = known === undefined ? undefined : line?.waiterBehind(contender);
    const handedOver = line !== undefined && next !== undefined && (await this.#handOver(zk, removal, line, next));
    const released = handedOver || (await this.#deleteAlone(zk, removal));
    if (released && !handedOver && known !== undefined && this.#kind === 'lock')
      freeLines.left(this.#directory, { sequence: contender.sequence, seen: known.seen });
    // A waiting request of this replica for this very place learns at once that it is gone. Where nobody knows, it goes
    // on, and looks itself.
    waiting?.giveUp();
    line?.remove(contender);
    granted.forget(path, this.#request.lease.leaseId);
    if (released && known !== undefined)
      metrics.holdSeconds.observe({ kind: this.#kind }, (performance.now() - known.grantedAt) / 1_000);
    return released;
  }

  async #deleteAlone(zk: BoundWriter, { contender, marked, version, downgradable }: Removal): Promise<boolean> {
    const path = this.#path(contender);
    try {
      if (marked === undefined) await deleteContender(zk, path, version, downgradable);
      else await deleteWithMark(zk, { path, czxid: marked, version }, downgradable);
      return true;
    } catch (error) {
      if (isReason(error, 'NO_NODE')) return false;
      throw error;
    }
  }

  /** @returns false when the next one could not be granted; then nothing was done */
  async #handOver(
    zk: BoundWriter,
    { contender, marked, version }: Removal,
    line: Line,
    next: Waiter,
  ): Promise<boolean> {
    const path = this.#path(contender);
    const { place } = next;
    const { delayMs = 0 } = place.record;
    const { directory } = line;
    // Of a lock by priority there are no delays: the next one's own grant finds that (`grant.ts`).
    if (delayMs > 0 && (directory === undefined || directory.byPriority)) return false;
    if (!next.beginHandover()) return false;
    const record = withState(place.record, 'granted', {
      waitUntil: place.record.waitUntil,
      grantedAt: this.#context.zooKeeperClock.now(),
    });
    // No delay can be running: who releases was granted alone, after all that it could have waited for.
    const withMark: MultiOperation[] =
      delayMs > 0 && directory !== undefined
        ? [createMark(place, delayMs), directoryGuard(this.#directory, directory, delayMs)]
        : [];
    let done = false;
    try {
      const [, written] = await zk.multi([
        { type: 'delete', path, version },
        { type: 'setData', path: place.path, data: encodeRecord(record), version: place.version },
        ...withMark,
        ...(marked === undefined ? [] : [deleteMark({ path, czxid: marked })]),
        ...deleteTail(path),
      ]);
      if (written?.type === 'setData') place.version = written.stat.version;
      place.record = record;
      if (delayMs > 0 && directory?.delays === false) line.delaysInUse(directory);
      done = true;
      return true;
    } catch (error) {
      if (isReason(error, 'NO_NODE', 'BAD_VERSION')) return false;
      throw error;
    } finally {
      next.endHandover(done);
    }
  }

  #path(contender: Contender): string {
    return `${this.#directory}/${contender.name}`;
  }
}

/** Whether the node is this lease's place, and that very incarnation of it. */
function isAt(node: NodeData | undefined, czxid: number, { sessionId }: Lease): node is NodeData {
  return node?.stat.czxid === czxid && node.stat.ephemeralOwner === sessionId;
}
