/**
 * Releases a hold, or gives up a waiting place.
 *
 * By holdId: the path follows from it, so nothing is read when this replica granted the hold; otherwise the node is
 * looked at first, because a holdId is public and must name a node of *this* lease's session, in this very incarnation
 * (protocol C7, C8). By requestId: the session's own nodes are listed and every one under the guid is deleted (C6).
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
import { NotHolderError } from '../../errors.js';
import type { Requester } from '../../time.js';
import type { Kind } from '../../metrics/metrics.js';
import { isReason, NoReplyError, orUnknown, unless } from '../../zookeeper/errors.js';
import type { LeaseSession } from '../../zookeeper/lease-session.js';
import type { MultiOperation, NodeData } from '../../zookeeper/operations.js';
import { baseName, parentOf } from '../../zookeeper/paths.js';
import { deleteContender, deleteTail } from './candidate-tail.js';
import {
  contenderOf,
  decodeHoldId,
  encodeRecord,
  guidOf,
  parseContender,
  withState,
  type Contender,
} from './contender.js';
import type { Coordination } from '../coordination.js';
import { createMark, delayOf, deleteMark, deleteWithMark } from './delay/mark.js';
import { directoryGuard } from './grant.js';
import type { GrantedHold } from './granted-holds.js';
import type { Line, Waiter } from './line.js';
import { readLineDirectory } from './directory.js';

export interface ReleaseRequest {
  lease: Lease;
  name: string;
  /** Exactly one hold; without it everything under `requestId`. */
  holdId: string | undefined;
  requestId: string;
  deadline: number;
  requester: Requester;
}

/** @throws NotHolderError, LeaseExpiredError, NoReplyError */
export async function release(
  context: Coordination,
  kind: Kind,
  directory: string,
  request: ReleaseRequest,
): Promise<void> {
  let everMaybeApplied = false;
  const found = await context.leases.sessions.useRepeatedly(
    request.lease,
    request.deadline,
    async (session, attempt) => {
      try {
        const releasing = new Releasing(context, kind, directory, request, session);
        return request.holdId === undefined
          ? await releasing.byRequestId()
          : await releasing.byHoldId(request.holdId, attempt);
      } catch (error) {
        everMaybeApplied ||= error instanceof NoReplyError && error.maybeApplied;
        throw error;
      }
    },
    request.requester,
  );
  if (!found && !everMaybeApplied) throw new NotHolderError(kind, request.name);
}

class Releasing {
  readonly #context: Coordination;
  readonly #kind: Kind;
  readonly #directory: string;
  readonly #request: ReleaseRequest;
  readonly #session: LeaseSession;

  constructor(context: Coordination, kind: Kind, directory: string, request: ReleaseRequest, session: LeaseSession) {
    this.#context = context;
    this.#kind = kind;
    this.#directory = directory;
    this.#request = request;
    this.#session = session;
  }

  /** @returns whether there was anything to release */
  async byHoldId(holdId: string, attempt: number): Promise<boolean> {
    const { lease, name, deadline } = this.#request;
    const hold = decodeHoldId(holdId);
    if (hold === undefined) throw new NotHolderError(this.#kind, name);
    const contender = contenderOf(hold);
    const path = this.#path(contender);
    const granted = this.#context.granted.find(path, lease.leaseId, hold.czxid);
    if (granted === undefined || attempt > 0) {
      const node = await this.#session.readToWrite(
        path,
        () => unless(this.#session.getData(path, deadline), 'NO_NODE'),
        (found) => isAt(found, hold.czxid, lease),
        deadline,
      );
      if (!isAt(node, hold.czxid, lease)) return false;
      const marked = (await delayOf(this.#session.until(deadline), path, node)) > 0;
      return await this.#delete(contender, granted, marked ? hold.czxid : undefined);
    }
    return await this.#delete(contender, granted, granted.marked ? granted.czxid : undefined);
  }

  async byRequestId(): Promise<boolean> {
    const { lease, name, requestId, deadline } = this.#request;
    const guids = [
      lease.guid(this.#kind, name, requestId),
      requestGuid(lease.principal, lease.namespace, this.#kind, name, requestId),
    ];
    const isOwn = (path: string): boolean =>
      parentOf(path) === this.#directory && guids.includes(guidOf(baseName(path)) ?? '');
    const [paths, directory] = await this.#session.readToWrite(
      this.#directory,
      () =>
        Promise.all([
          this.#session.getEphemerals(this.#directory, deadline),
          this.#session.exists(this.#directory, deadline),
        ]),
      ([found]) => found.some(isOwn),
      deadline,
    );
    const delays = directory !== undefined && readLineDirectory(directory).delays;
    const own = paths.filter(isOwn);
    let found = false;
    const deleting = async (): Promise<void> => {
      for (const path of own) {
        const contender = parseContender(baseName(path)) as Contender;
        const granted = this.#context.granted.findAt(path, lease.leaseId);
        const marked = delays ? await this.#markedIncarnation(path) : undefined;
        found = (await this.#delete(contender, granted, marked)) || found;
      }
    };
    await orUnknown(deleting(), () => found);
    return found;
  }

  /** @returns the czxid of a hold that has a mark */
  async #markedIncarnation(path: string): Promise<number | undefined> {
    const zk = this.#session.until(this.#request.deadline);
    const node = await zk.find(path);
    if (node === undefined || (await delayOf(zk, path, node)) === 0) return undefined;
    return node.stat.czxid;
  }

  /**
   * @param hold where this replica granted it: then it is the head of the line
   * @param marked the czxid of a hold that has a mark
   * @returns whether the node was there
   */
  async #delete(contender: Contender, hold: GrantedHold | undefined, marked: number | undefined): Promise<boolean> {
    const { granted, lines, metrics } = this.#context;
    const path = this.#path(contender);
    const line = lines.peek(this.#directory);
    const waiting = line?.waiters.get(contender.name);
    const next = hold === undefined ? undefined : line?.waiterBehind(contender);
    const handedOver = line !== undefined && next !== undefined && (await this.#handOver(path, marked, line, next));
    const released = handedOver || (await this.#deleteAlone(path, marked));
    if (released && !handedOver && hold !== undefined && this.#kind === 'lock')
      this.#context.freeLines.left(this.#directory, { sequence: contender.sequence, seen: hold.seen });
    // A waiting request of this replica for this very place learns at once that it is gone. Where nobody knows, it goes
    // on, and looks itself.
    waiting?.giveUp();
    line?.remove(contender);
    granted.forget(path, this.#request.lease.leaseId);
    if (released && hold !== undefined)
      metrics.holdSeconds.observe({ kind: this.#kind }, (performance.now() - hold.grantedAt) / 1_000);
    return released;
  }

  async #deleteAlone(path: string, marked: number | undefined): Promise<boolean> {
    const zk = this.#session.until(this.#request.deadline);
    try {
      if (marked === undefined) await deleteContender(zk, path, undefined);
      else await deleteWithMark(zk, { path, czxid: marked });
      return true;
    } catch (error) {
      if (isReason(error, 'NO_NODE')) return false;
      throw error;
    }
  }

  /** @returns false when the next one could not be granted; then nothing was done */
  async #handOver(path: string, marked: number | undefined, line: Line, next: Waiter): Promise<boolean> {
    const { place } = next;
    const { delayMs = 0 } = place.record;
    const { directory } = line;
    if (delayMs > 0 && directory === undefined) return false;
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
      const [, written] = await this.#session.multi(
        [
          { type: 'delete', path },
          { type: 'setData', path: place.path, data: encodeRecord(record), version: place.version },
          ...withMark,
          ...(marked === undefined ? [] : [deleteMark({ path, czxid: marked })]),
          ...deleteTail(path),
        ],
        this.#request.deadline,
      );
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
