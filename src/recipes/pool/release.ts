/**
 * Releases members, or gives up a place in the pool's line.
 *
 * Each hold goes together with its mark, whose name has the hold's fencing token: so a release that comes late frees
 * nothing that was given out since, whoever has it. What is released is what the lease's own session has, as it says
 * (`own.ts`); a holdId is public. By requestId the place in line goes first: after that nothing is assigned any more to
 * what was on its way.
 */
import { NotHolderError } from '../../errors.js';
import { poolMarksOf } from '../../leases/layout.js';
import type { Lease } from '../../leases/lease.js';
import type { Requester } from '../../time.js';
import type { BoundClient, BoundWriter } from '../../zookeeper/bound.js';
import { isReason, mayBeApplied, orUnknown } from '../../zookeeper/errors.js';
import type { LeaseSession } from '../../zookeeper/lease-session.js';
import type { MultiOperation } from '../../zookeeper/operations.js';
import { parentOf } from '../../zookeeper/paths.js';
import type { Coordination } from '../coordination.js';
import { releaseLine } from '../line/request.js';
import { memoryOf, parseMark } from './marks.js';
import { heldBy, type HeldMember } from './own.js';
import { parsePool, type PoolRef } from './pool.js';

export interface ReleaseMembers {
  readonly ref: PoolRef;
  readonly lease: Lease;
  /** Exactly one hold; without it everything under `requestId`. */
  readonly holdId: string | undefined;
  readonly requestId: string;
  readonly deadline: number;
  readonly requester: Requester;
}

const AT_ONCE = 32;

/** @throws NotHolderError, LeaseExpiredError, ClientGoneError, NoReplyError */
export async function releaseMembers(context: Coordination, request: ReleaseMembers): Promise<void> {
  const { ref, lease, holdId, requestId, deadline, requester } = request;
  const guid = lease.guid('pool', ref.name, requestId);
  let found = holdId === undefined && (await gaveUpPlace(context, request));
  const isMeant = ({ hold }: HeldMember): boolean =>
    holdId === undefined ? hold.guid === guid : hold.holdId === holdId;
  const work = async (session: LeaseSession): Promise<void> => {
    const zk = session.until(deadline);
    for (;;) {
      const held = (await ownOf(zk, context, ref)).filter(isMeant);
      if (held.length === 0) return;
      const releasing = giveBack(context, zk, lease, held);
      const done = await releasing.catch((error: unknown) => {
        found ||= mayBeApplied(error);
        throw error;
      });
      if (done) return void (found = true);
    }
  };
  await orUnknown(context.leases.sessions.useRepeatedly(lease, deadline, work, requester), () => found);
  if (!found) throw new NotHolderError('pool', ref.name);
}

/** @returns whether there was a place in line, or may have been */
async function gaveUpPlace(context: Coordination, { ref, ...request }: ReleaseMembers): Promise<boolean> {
  try {
    await releaseLine(context, 'pool', { ...request, name: ref.name });
    return true;
  } catch (error) {
    if (error instanceof NotHolderError) return false;
    throw error;
  }
}

async function ownOf(
  zk: BoundClient,
  { layout }: Coordination,
  { namespace, name, path }: PoolRef,
): Promise<HeldMember[]> {
  const [, node] = await Promise.all([zk.sync(path), zk.find(path)]);
  const pool = node === undefined ? undefined : parsePool(name, node);
  return pool === undefined ? [] : heldBy(zk, layout.poolHolds(namespace, pool.id));
}

/**
 * Frees members in one transaction, each with its mark; to whom they are remembered stays.
 * @returns false when one of them is not held any more, or has been taken over (`own.ts`); then nothing was done
 */
export async function giveBack(
  { granted, metrics }: Pick<Coordination, 'granted' | 'metrics'>,
  zk: BoundWriter,
  { leaseId }: Pick<Lease, 'leaseId'>,
  held: readonly HeldMember[],
): Promise<boolean> {
  try {
    await zk.multi(held.flatMap(removalOf));
  } catch (error) {
    if (isReason(error, 'NO_NODE', 'BAD_VERSION', 'NODE_EXISTS')) return false;
    throw error;
  }
  metrics.poolMembersTotal.inc({ outcome: 'released' }, held.length);
  for (const { path, hold } of held) {
    // Also where another replica gave it out: only this hold was released, not the next one of that member.
    granted.remember(path, leaseId, hold.fencingToken, false);
    granted.forget(path, leaseId);
  }
  return true;
}

function removalOf({ path, version, hold }: HeldMember): MultiOperation[] {
  const marks = poolMarksOf(parentOf(path));
  const parsed = parseMark(hold.mark);
  const memory = parsed === undefined ? undefined : memoryOf(parsed);
  return [
    { type: 'delete', path: `${marks}/${hold.mark}` },
    { type: 'delete', path, version },
    ...(memory === undefined ? [] : [{ type: 'create' as const, path: `${marks}/${memory}` }]),
  ];
}

/**
 * Before a lease is ended on purpose: what it has in pools is released, and does not count as lost.
 * @param onRelease called before the first release is sent: whatever fails after that, it may be done
 */
export async function releaseAllMembers(
  context: Coordination,
  zk: BoundClient,
  lease: Lease,
  onRelease: () => void,
): Promise<void> {
  const held = await heldBy(zk, context.layout.allPoolHolds(lease.namespace));
  for (let i = 0; i < held.length; i += AT_ONCE) {
    onRelease();
    const batch = held.slice(i, i + AT_ONCE);
    await Promise.all(batch.map((member) => giveBack(context, zk, lease, [member])));
  }
}
