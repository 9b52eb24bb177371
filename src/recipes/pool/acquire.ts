/**
 * Acquires members: what the lease has already under this request, or a place in the pool's line (`line/acquire.ts`)
 * and what its turn gives (`assign.ts`).
 *
 * How a request ends, and what it leaves:
 *
 *   members                       its holds; no place
 *   refused, client gone          nothing; with `keepPlace` its place
 *   draining                      its place, which the repeated request adopts
 *   lease ended                   nothing
 *   outcome unknown               what was assigned is given back in the background, unless the client comes back
 *                                 for it; its place goes as that of a lock
 */
import { InvalidError, LeaseExpiredError, PosternError } from '../../errors.js';
import type { Lease } from '../../leases/lease.js';
import type { Caller } from '../../time.js';
import { baseName, parentOf } from '../../zookeeper/paths.js';
import type { BoundClient } from '../../zookeeper/bound.js';
import { raiseFence } from '../../zookeeper/lease/fence.js';
import { readNodes } from '../../zookeeper/read-nodes.js';
import type { LeaseSession } from '../../zookeeper/lease-session.js';
import type { Coordination } from '../coordination.js';
import { guidOf, newAttempt } from '../line/contender.js';
import type { NotGranted } from '../line/acquire.js';
import { acquireLine } from '../line/request.js';
import { Assigning, type Assigned } from './assign.js';
import { choose } from './choose.js';
import { hashOwner } from './marks.js';
import { ownMembers, takeOver, type HeldMember } from './own.js';
import { decodePool, fitting, parseHold, type Pool, type PoolHold, type PoolRef } from './pool.js';
import { giveBack } from './release.js';
import { restsOf } from './rest.js';
import { usageOf } from './state.js';

export interface AcquireMembers {
  readonly ref: PoolRef;
  readonly requestId: string;
  readonly count: number;
  readonly labels: readonly string[];
  /** For whom it asks for what that one had before; empty: for nobody. */
  readonly owner: string;
  readonly waitMs: number;
  /** The place stays in line if the wait ends first. */
  readonly keepPlace: boolean;
  /** As in `AcquireLine`. */
  readonly receivedAt: number;
  readonly hardDeadline: number;
  readonly requester: Caller;
}

export type Acquired = { readonly held: true; readonly hold: PoolHold; readonly undelivered: () => void } & Assigned & {
    readonly waitedMs: number;
    /** Epoch ms: the lease lives at least until then. */
    readonly expiresAt: number;
  };

/** For so long a request that does not wait waits for those who are being served. */
const TURN_MS = 1_000;
const BACKGROUND_MS = 10_000;

/** @throws InvalidError, PosternError `not-found`, `conflict`; LeaseExpiredError, ClientGoneError, NoReplyError */
export async function acquireMembers(
  context: Coordination,
  lease: Lease,
  asked: AcquireMembers,
): Promise<Acquired | NotGranted> {
  const { ref, hardDeadline, receivedAt } = asked;
  const { pool, refusal } = await readSuitable(context, asked);
  const { members: earlier, hasPlace } = await findEarlier(context, lease, asked, pool);
  if (earlier.length > 0) {
    const expiresAt = await context.leases.touch(lease, hardDeadline);
    const waitedMs = Math.round(performance.now() - receivedAt);
    const { hold } = earlier[0] as HeldMember;
    return { held: true, hold, members: earlier, alreadyHeld: true, waitedMs, expiresAt, undelivered: () => undefined };
  }
  // Only now: what was given before stays given when the pool has become too small for it.
  if (refusal !== undefined) throw refusal;
  // A place that an earlier attempt has left is taken over, so that it stands in nobody's way.
  if (asked.waitMs === 0 && !asked.keepPlace && !hasPlace && !(await hasFree(context, pool, asked)))
    return { held: false, why: 'refused', position: 0, holder: undefined };
  const assigning = new Assigning(context, { ...asked, lease, ownerHash: hashOwner(asked.owner) });
  try {
    const result = await acquireLine(context, lease, {
      kind: 'pool',
      mode: 'exclusive',
      name: ref.name,
      requestId: asked.requestId,
      waitMs: Math.max(asked.waitMs, TURN_MS),
      keepPlace: asked.keepPlace,
      data: undefined,
      assign: (turn) => assigning.take(turn),
      receivedAt,
      hardDeadline: hardDeadline + TURN_MS,
      requester: asked.requester,
    });
    const { assigned } = assigning;
    if (!result.held || assigned === undefined) return result as NotGranted;
    const { waitedMs, expiresAt } = result;
    const { hold } = assigned.members[0] as HeldMember;
    return {
      held: true,
      hold,
      ...assigned,
      waitedMs,
      expiresAt,
      undelivered: () => takeBack(context, lease, assigned),
    };
  } catch (error) {
    // Also where the client has gone: an earlier try of the transaction may have been done.
    if (!(error instanceof LeaseExpiredError)) takeBackUnknown(context, lease, assigning.sent);
    throw error;
  } finally {
    assigning.stop();
  }
}

/** The pool; with a refusal, if it could not satisfy the request were all members free: read behind a quorum. */
async function readSuitable(
  context: Coordination,
  { ref, count, labels, hardDeadline }: AcquireMembers,
): Promise<{ pool: Pool; refusal?: InvalidError }> {
  const zk = context.control.until(hardDeadline);
  const known = await zk.find(ref.path);
  const isEnough = (pool: Pool): boolean => fitting(pool, labels).length >= count;
  if (known !== undefined) {
    const pool = decodePool(ref.name, known);
    if (isEnough(pool)) return { pool };
  }
  const node = await zk.fresh(() => zk.find(ref.path));
  if (node === undefined)
    throw new PosternError(
      'not-found',
      `There is no pool "${ref.name}" in namespace "${ref.namespace}"; PUT it first.`,
    );
  const pool = decodePool(ref.name, node);
  if (isEnough(pool)) return { pool };
  const most = fitting(pool, labels).length;
  const which = labels.length === 0 ? '' : ` with the labels ${labels.join(', ')}`;
  const rule = `at most the members of pool "${ref.name}"${which} that are not drained, ${most}`;
  return { pool, refusal: new InvalidError('count', count, rule, { limit: most }) };
}

/** Whether it is worth a place in line. */
async function hasFree(context: Coordination, pool: Pool, asked: AcquireMembers): Promise<boolean> {
  const { layout, control } = context;
  const { ref, count, labels, hardDeadline } = asked;
  const zk = control.until(hardDeadline);
  const directory = layout.poolMarks(ref.namespace, pool.id);
  const [node, marks, held] = await zk.fresh(() =>
    Promise.all([zk.find(ref.path), zk.children(directory), zk.children(layout.poolHolds(ref.namespace, pool.id))]),
  );
  const usage = usageOf(marks, held);
  const current = node === undefined ? pool : decodePool(ref.name, node); // `pool` may be what it was before
  const { quarantineMs } = current;
  const suitable = fitting(current, labels);
  const { members, lost } = choose(suitable, usage, { count, owner: '' }, () => quarantineMs > 0);
  if (members !== undefined || lost.length === 0) return members !== undefined;
  const ends = await restsOf(context, zk, { marks: lost, directory, quarantineMs });
  return choose(suitable, usage, { count, owner: '' }, ({ name }) => ends.has(name)).members !== undefined;
}

/** What an earlier attempt of this request was given, and whether it has left a place in line. */
function findEarlier(
  context: Coordination,
  lease: Lease,
  { ref, requestId, hardDeadline, requester }: AcquireMembers,
  pool: Pool,
): Promise<{ members: HeldMember[]; hasPlace: boolean }> {
  const line = context.layout.line('pool', ref.namespace, ref.name);
  const guid = lease.guid('pool', ref.name, requestId);
  const find = async (session: LeaseSession): Promise<{ members: HeldMember[]; hasPlace: boolean }> => {
    const zk = session.until(hardDeadline);
    for (;;) {
      const [own, places] = await Promise.all([
        ownMembers(zk, context.layout, { ref, requestId, lease }, pool),
        zk.ephemerals(line),
      ]);
      const hasPlace = places.some((path) => parentOf(path) === line && guidOf(baseName(path)) === guid);
      const members = own.length === 0 ? own : await takeOver(zk, own, newAttempt());
      if (members !== undefined) return { members, hasPlace };
    }
  };
  return context.leases.sessions.useRepeatedly(lease, hardDeadline, find, requester);
}

/** Nobody was told of it. */
function takeBack(context: Coordination, lease: Lease, { members, alreadyHeld }: Assigned): void {
  if (alreadyHeld) return;
  context.cleanup.persist(() => giveBack(context, zkOf(context), lease, members));
}

/**
 * Nobody knows whether it was given. Behind the lease's fence it was, or never will be (C46). Another attempt of this
 * request may have taken the same members from the same place: what is there has to say that it is of this one.
 */
function takeBackUnknown(context: Coordination, lease: Lease, sent: readonly HeldMember[]): void {
  const [first] = sent;
  if (first === undefined) return;
  context.cleanup.persist(async () => {
    const zk = zkOf(context);
    try {
      await raiseFence(zk, context.layout.lease(lease.namespace, lease.leaseId));
    } catch (error) {
      if (error instanceof LeaseExpiredError) return;
      throw error;
    }
    const [, nodes] = await Promise.all([
      zk.sync(first.path),
      readNodes(
        zk,
        sent.map(({ path }) => path),
      ),
    ]);
    const left = sent.filter((member, i) => {
      const hold = nodes[i] === undefined ? undefined : parseHold(nodes[i].data);
      return hold?.holdId === member.hold.holdId && hold.attempt === member.hold.attempt;
    });
    if (left.length > 0) await giveBack(context, zk, lease, left);
  });
}

function zkOf({ control }: Coordination): BoundClient {
  return control.until(performance.now() + BACKGROUND_MS);
}
