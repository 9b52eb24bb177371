/**
 * Barrier: while it is raised, everybody who waits at it waits; when it is lifted, all go on.
 *
 * Guarantee: who waits at a raised barrier is told as soon as it is lifted, also when it is raised anew at once. A barrier that nobody raised
 *   is lifted. It belongs to nobody: it stays raised when whoever raised it is gone, and anybody may lift it.
 *
 * Layout:  <root>/ns/<namespace>/barriers/<name>   persistent, exists = raised; data: {"principal"}, who raised it
 * Source:  ZooKeeper recipes, "Barriers"; Curator's DistributedBarrier (the same node, any data).
 *
 * One walk through:
 *
 * 1. *raise*: create; it exists: it is raised already. *lift*: delete; it does not exist: it is lifted already. So both can be repeated. An
 *    answer that was lost is found out by repeating; a raise that is repeated after somebody lifted raises anew.
 * 2. *wait*: read after a `sync`, together with everybody who asks at the moment. Lifted: told at once. Raised: wait at the replica's one watch
 *    (`barrier-observer.ts`).
 * 3. It is lifted: one notification per replica, one reading, all are told.
 * 4. It is lifted and raised again before the replica has read: what exists is a later barrier, by its czxid. The one that was waited for
 *    has been lifted, and so it is told: at that moment it was so.
 * 5. The replica's server lags, and has not seen the raising that the wait began with: "no such node" counts only when the server had
 *    seen the node (C2).
 * 6. The replica dies: the client repeats at another one. Nothing was held.
 */
import { PosternError } from '../errors.js';
import { pageOfNames, type Page } from '../page.js';
import { isReason, unless } from '../zookeeper/errors.js';
import type { ControlSession } from '../zookeeper/control-session.js';
import type { NodeData } from '../zookeeper/operations.js';
import { parentOf } from '../zookeeper/paths.js';

export interface BarrierView {
  raised: boolean;
  /** Of the node; 0 when there is none. */
  czxid: number;
  /** How new the server's state was that this was read from. */
  zxid: number;
  /** Epoch ms; undefined when it is not raised. */
  since: number | undefined;
  /** Who raised it; undefined when it is not raised, or by somebody else than Postern. */
  principal: string | undefined;
  external: boolean;
  /** Of two states of one barrier: whether it is raised, and which time. */
  etag: string;
}

/** @returns whether this request raised it */
export async function raiseBarrier(
  control: ControlSession,
  path: string,
  principal: string,
  deadline: number,
): Promise<{ created: boolean; barrier: BarrierView }> {
  const data = Buffer.from(JSON.stringify({ principal }));
  for (;;) {
    try {
      const { stat } = await control.create(path, data, {}, deadline);
      return { created: true, barrier: describeBarrier({ data, stat, zxid: stat.czxid }) };
    } catch (error) {
      if (isReason(error, 'NO_NODE')) await control.ensurePath(parentOf(path), deadline);
      else if (!isReason(error, 'NODE_EXISTS')) throw error;
    }
    const barrier = await readBarrier(control, path, deadline);
    if (barrier.raised) return { created: false, barrier };
  }
}

/** Lifting a barrier that is not raised does no harm. */
export async function liftBarrier(control: ControlSession, path: string, deadline: number): Promise<void> {
  try {
    await unless(control.delete(path, undefined, deadline), 'NO_NODE');
  } catch (error) {
    if (isReason(error, 'NOT_EMPTY'))
      throw new PosternError('conflict', 'Another client has put nodes below this barrier; they have to go first.');
    throw error;
  }
}

export async function readBarrier(
  control: ControlSession,
  path: string,
  deadline: number,
  stale = false,
): Promise<BarrierView> {
  const [, node] = await Promise.all([
    stale ? undefined : control.sync(path, deadline), // sent first: what is sent behind it sees what it brings
    control.getData(path, deadline).catch((error: unknown) => {
      if (isReason(error, 'NO_NODE')) return error.zxid;
      throw error;
    }),
  ]);
  return typeof node === 'number' ? liftedAt(node) : describeBarrier(node);
}

/** Barriers that are raised, in the order of their names. */
export async function listBarriers(
  control: ControlSession,
  parent: string,
  page: Page,
  deadline: number,
): Promise<{ items: (BarrierView & { name: string })[]; next: string | undefined }> {
  await control.sync(parent, deadline);
  const names = pageOfNames((await unless(control.getChildren(parent, deadline), 'NO_NODE'))?.children ?? [], page);
  const shown = names.slice(0, page.limit);
  const barriers = await Promise.all(shown.map((name) => readBarrier(control, `${parent}/${name}`, deadline, true)));
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
