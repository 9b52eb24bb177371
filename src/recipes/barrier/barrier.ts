/**
 * Barrier: while it is raised, its waiters wait; when it is lifted, all go on.
 *
 * Guarantee: a waiter at a raised barrier is told as soon as it is lifted, even if it is raised again at once. A
 * barrier that nobody raised is lifted. It has no owner: it stays raised when the client that raised it is gone, and
 * anybody may lift it.
 *
 * Layout:  <root>/ns/<namespace>/barriers/<name>       persistent, exists = raised; data: {"principal"}, who raised it
 *          <root>/ns/<namespace>/barrier-turns/<bb>    persistent; its version counts what was raised and lifted
 * Source:  ZooKeeper recipes, "Barriers"; Curator's DistributedBarrier (the same node, any data).
 *
 * Reading order: this; `observer.ts`.
 *
 * One walk through:
 *
 * 1. *raise*: create; if the node exists, it is raised already. *lift*: delete; if there is none, it is lifted already.
 *    So both can be repeated, which also recovers a lost answer; a raise repeated after somebody has lifted raises
 *    anew. Each is a transaction that also writes the barrier's turn (`name-turn.ts`), at the version that was read at
 *    its beginning, even if there is nothing to raise or to lift: one that was given up and arrives after another raise
 *    or lift was answered fails, and leaves the barrier as that one did.
 * 2. *wait*: read behind a quorum, shared with concurrent callers: a deposed leader would show a barrier as lifted that
 *    has been raised since. Lifted: answered at once. Raised: wait at the replica's one watch (`observer.ts`); that it
 *    is lifted later counts from whatever server has seen it raised.
 * 3. It is lifted: one notification per replica, one reading, all are told.
 * 4. It is lifted and raised again before the replica has read: by its czxid, the node is a later barrier. The one that
 *    was waited for has been lifted, and its waiters are told so.
 * 5. The replica's server lags, and has not seen the raising that the wait began with: "no such node" counts only when
 *    the server had seen the node (C2).
 * 6. The replica dies: the client repeats at another one. Nothing was held.
 */
import { isPosternError, StandingConflictError } from '../../errors.js';
import type { Page } from '../../page.js';
import type { Awaited } from '../../time.js';
import type { BoundClient } from '../../zookeeper/bound.js';
import { isReason, orUnknown, unless } from '../../zookeeper/errors.js';
import type { NodeData } from '../../zookeeper/operations.js';
import { parentOf } from '../../zookeeper/paths.js';
import { AGAIN } from '../../zookeeper/retrying.js';
import type { Coordination } from '../coordination.js';
import { AFTER_TURN, inTurn, type NameTurn } from '../name-turn.js';

export interface BarrierView {
  raised: boolean;
  /** The node's czxid; 0 if there is none. */
  czxid: number;
  /** How new the server's state was. */
  zxid: number;
  /** Epoch ms; undefined when it is not raised. */
  since: number | undefined;
  /** The principal that raised it; undefined if it is not raised, or was raised by another program. */
  principal: string | undefined;
  external: boolean;
  /** Tells states apart: whether it is raised, and for which time. */
  etag: string;
}

export interface BarrierRef {
  namespace: string;
  name: string;
}

/** @returns whether this request raised it @throws PosternError `conflict`, ClientGoneError, NoReplyError */
export function raiseBarrier(
  context: Coordination,
  ref: BarrierRef,
  principal: string,
  awaited: Awaited,
): Promise<{ created: boolean; barrier: BarrierView }> {
  const path = context.layout.barrier(ref.namespace, ref.name);
  const data = Buffer.from(JSON.stringify({ principal }));
  const naming = turnOf(context, ref, awaited);
  const { zk } = naming;
  return inTurn(naming, async (turn) => {
    await context.names.admit(parentOf(path), zk.deadline).catch(async (error: unknown) => {
      // A barrier that is raised already takes no room.
      if (!isPosternError(error, 'too-many-names') || (await zk.exists(path)) === undefined) throw error;
    });
    try {
      const [, made] = await zk.multi([turn, { type: 'create', path, data }]);
      if (made?.type !== 'create') return AGAIN;
      // Older servers do not tell when a transaction made it.
      const known = made.stat.ctime > 0 ? made.stat : await orUnknown(zk.exists(path));
      const stat = known ?? made.stat;
      return { created: true, barrier: describeBarrier({ data, stat, zxid: stat.czxid }) };
    } catch (error) {
      if (!isReason(error, 'NO_NODE', 'NODE_EXISTS') || error.failedIndex !== AFTER_TURN) throw error;
      if (isReason(error, 'NO_NODE')) {
        await zk.ensure(parentOf(path));
        return AGAIN;
      }
    }
    if ((await unless(zk.multi([turn, { type: 'check', path }]), 'NO_NODE')) === undefined) return AGAIN;
    const barrier = await orUnknown(readBarrierStale(zk, path)); // behind a write on the same connection
    return barrier.raised ? { created: false, barrier } : AGAIN;
  });
}

/** Lifting a barrier that is not raised succeeds. @throws as `raiseBarrier` */
export function liftBarrier(context: Coordination, ref: BarrierRef, awaited: Awaited): Promise<void> {
  const path = context.layout.barrier(ref.namespace, ref.name);
  const naming = turnOf(context, ref, awaited);
  const { zk } = naming;
  return inTurn(naming, async (turn) => {
    try {
      await zk.multi([turn, { type: 'delete', path }]);
    } catch (error) {
      if (isReason(error, 'NOT_EMPTY'))
        throw new StandingConflictError('Another client has put nodes below this barrier; they have to go first.');
      if (!isReason(error, 'NO_NODE') || error.failedIndex !== AFTER_TURN) throw error;
      await zk.multi([turn]);
    }
  });
}

/** A barrier's turn, for `inTurn`, on behalf of the request. */
function turnOf(context: Coordination, { namespace, name }: BarrierRef, { deadline, requester }: Awaited): NameTurn {
  const path = context.layout.barrierTurn(namespace, name);
  const zk = context.control.writingFor(requester).until(deadline);
  return { zk, path, busy: `Others raised and lifted "${name}"` };
}

/** Reads from the connected server, without a quorum. */
export async function readBarrierStale(zk: BoundClient, path: string): Promise<BarrierView> {
  const node = await zk.get(path).catch((error: unknown) => {
    if (isReason(error, 'NO_NODE')) return error.zxid;
    throw error;
  });
  return typeof node === 'number' ? liftedAt(node) : describeBarrier(node);
}

/** Barriers that are raised, in the order of their names. */
export async function listBarriers(
  zk: BoundClient,
  parent: string,
  page: Page,
): Promise<{ items: (BarrierView & { name: string })[]; next: string | undefined }> {
  await zk.sync(parent);
  const names = (await zk.names(parent)).page(page);
  const shown = names.slice(0, page.limit);
  const barriers = await Promise.all(shown.map((name) => readBarrierStale(zk, `${parent}/${name}`)));
  return {
    items: shown.flatMap((name, i) => {
      const barrier = barriers[i];
      return barrier?.raised === true ? [{ ...barrier, name }] : [];
    }),
    next: names.length > page.limit ? shown.at(-1) : undefined,
  };
}

/** Whether the barrier that was seen raised has been lifted, as far as this later look tells. */
export function isLifted(seen: BarrierView, now: BarrierView): boolean {
  return now.raised ? now.czxid > seen.czxid : now.zxid >= seen.czxid;
}

export function liftedAt(zxid: number): BarrierView {
  return { raised: false, czxid: 0, zxid, since: undefined, principal: undefined, external: false, etag: '"0"' };
}

export function describeBarrier({ data, stat, zxid }: NodeData): BarrierView {
  const principal = principalIn(data);
  return {
    raised: true,
    czxid: stat.czxid,
    zxid,
    since: stat.ctime,
    principal,
    external: principal === undefined,
    etag: `"${stat.czxid}"`,
  };
}

/** @returns undefined for the data of a foreign client */
function principalIn(data: Buffer): string | undefined {
  if (data[0] !== 0x7b) return undefined;
  try {
    const { principal } = JSON.parse(data.toString('utf8')) as { principal?: unknown };
    return typeof principal === 'string' ? principal : undefined;
  } catch {
    return undefined;
  }
}
