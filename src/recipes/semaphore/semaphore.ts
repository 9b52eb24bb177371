/**
 * Semaphore held by a lease: a fixed number of permits, agreed on by all callers, taken one or several at once.
 *
 * Guarantee: at no time, as seen by ZooKeeper, do live leases hold more permits than the limit under which the last of
 * them was granted.
 *   Everybody is served in strict order of arrival: a request for many permits is not overtaken by requests for few.
 *   Every grant has a fencing token, the czxid of the holder's node, different for each.
 * Lowering the limit takes nothing away: holders go on, and nobody is granted until there is room under the new limit.
 * Not guaranteed: that a paused holder has noticed that its lease ended. Let the resource check the fencing token.
 *
 * Layout:  <root>/ns/<namespace>/semaphores/<name>   data = the agreed limit (`agreement.ts`)
 *          <root>/ns/<namespace>/semaphores/<name>/_c_<guid>-permit<count>-<sequence>
 *            ephemeral, of the lease's session
 * Source:  ZooKeeper recipes, "Locks", with a sum in place of the first one. Not the layout of Curator's
 *          InterProcessSemaphoreV2, which takes a lock around every acquire and wakes everybody at every release.
 *
 * One walk through, with a limit of 2, holders H1 and H2, and W1, W2 waiting, W1 at replica A and W2 at B:
 *
 * 1. A request creates its node as `waiting`, in a transaction that checks that the limit is the one it was asked for
 *    (or, where it names none, the one it was shown), and lists. All before it and it fit: step 4. A crash here leaves
 *    a place that nobody asks for; 5 s after its wait it is removed (C3).
 * 2. They do not fit: it waits. A and B each watch H1 and H2, once per replica (`permits/turns.ts`).
 * 3. H1 is released or its lease ends: one notification to A, one to B. Each strikes H1 and sees that W1 is admitted. B
 *    watches W1 in place of H1 and wakes nobody. A wakes W1's request.
 * 4. W1's request writes `granted`, in a transaction that checks the limit's version (`grant.ts`). A crash before it:
 *    step 1. After it: a hold that its client was not told of; the repeated request finds it, the end of the lease
 *    frees it.
 * 5. W1 gives up in that moment instead: its node goes, B's watch on it says so, and W2 is admitted.
 * 6. Somebody changes the limit between 3 and 4: the transaction fails, the limit is read and it is counted again.
 */
import { StandingConflictError } from '../../errors.js';
import type { Lease } from '../../leases/lease.js';
import type { Awaited } from '../../time.js';
import { isReason } from '../../zookeeper/errors.js';
import { parentOf } from '../../zookeeper/paths.js';
import type { Granted, NotGranted } from '../line/acquire.js';
import { decodeAgreement, encodeAgreement } from '../line/permits/agreement.js';
import type { Coordination } from '../coordination.js';
import { acquireLine, acquireLineWithLease, releaseLine, type AcquireLine } from '../line/request.js';
import type { NewLease } from '../with-lease.js';
import type { ReleaseRequest } from '../line/release.js';

export type AcquirePermits = Omit<AcquireLine, 'kind' | 'mode' | 'permits'> & {
  /** Undefined: what is agreed on. */
  limit: number | undefined;
  count: number;
};

const KIND = 'semaphore';

export function acquirePermits(
  context: Coordination,
  lease: Lease,
  request: AcquirePermits,
): Promise<Granted | NotGranted> {
  return acquireLine(context, lease, lineRequest(request));
}

/** Takes a lease and the permits in one call. */
export function acquirePermitsWithLease(
  context: Coordination,
  newLease: NewLease,
  request: AcquirePermits,
): Promise<{ result: Granted | NotGranted; lease: Lease; leaseToken: string }> {
  return acquireLineWithLease(context, newLease, lineRequest(request));
}

/** Releases all permits of one acquire, or gives up a waiting place. */
export function releasePermits(context: Coordination, request: ReleaseRequest): Promise<void> {
  return releaseLine(context, KIND, request);
}

/**
 * Changes the limit, or sets the first one. Holders go on; waiting requests that fit are granted at once. It can be
 * repeated safely.
 */
export async function setLimit(
  context: Coordination,
  { namespace, name, limit }: { namespace: string; name: string; limit: number },
  { deadline, requester }: Awaited,
): Promise<void> {
  const zk = context.control.writingFor(requester).until(deadline);
  const directory = context.layout.line(KIND, namespace, name);
  for (;;) {
    // By a quorum: that it is no semaphore is answered without a write.
    const node = await zk.fresh(() => zk.find(directory));
    const agreed = node === undefined ? undefined : decodeAgreement(node);
    if (node !== undefined && agreed === undefined)
      throw new StandingConflictError(`The directory of "${name}" was made by another client: it is no semaphore.`);
    // Also when that is the limit: a write of another one that was given up, and is on its way at this version, is
    // refused by this one (C35).
    if (node === undefined) await context.names.admit(parentOf(directory), deadline);
    const data = encodeAgreement({ limit, high: Math.max(limit, agreed?.high ?? 0) });
    try {
      if (agreed !== undefined) await zk.set(directory, data, agreed.version);
      else await zk.create(directory, data);
      return;
    } catch (error) {
      if (isReason(error, 'NO_NODE') && agreed === undefined) await zk.ensure(parentOf(directory));
      else if (!isReason(error, 'BAD_VERSION', 'NODE_EXISTS', 'NO_NODE')) throw error;
    }
  }
}

function lineRequest({ limit, count, ...request }: AcquirePermits): AcquireLine {
  return { ...request, kind: KIND, mode: 'shared', permits: { limit, count } };
}
