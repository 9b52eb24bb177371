/**
 * Semaphore held by a lease: so many permits that all users agree on, taken one or several at once.
 *
 * Guarantee: at no time, as seen by ZooKeeper, do live leases hold more permits than the limit under which the last of them was granted.
 *   Everybody is served in strict order of arrival: who wants many permits is not overtaken by those who want few. Every grant has
 *   a fencing token, the czxid of the holder's node, different for each.
 * A limit that is lowered takes nothing away: who holds goes on, and nobody is granted until there is room under the new one.
 * Not guaranteed: that a paused holder has noticed that its lease ended. Let the resource check the fencing token.
 *
 * Layout:  <root>/ns/<namespace>/semaphores/<name>                                 data = the agreed limit (`agreement.ts`)
 *          <root>/ns/<namespace>/semaphores/<name>/_c_<guid>-permit<count>-<sequence>   ephemeral, of the lease's session
 * Source:  ZooKeeper recipes, "Locks", with a sum in place of the first one. Not the layout of Curator's InterProcessSemaphoreV2, which
 *          takes a lock around every acquire and wakes everybody at every release.
 *
 * One walk through, with a limit of 2, holders H1 and H2, and W1, W2 waiting, W1 at replica A and W2 at B:
 *
 * 1. A request creates its node as `waiting`, in a transaction that checks that the limit is the one it was asked for, and lists. All
 *    before it and it fit: step 4. A crash here leaves a place that nobody asks for; 5 s after its wait it is removed (C3).
 * 2. They do not fit: it waits. A and B each watch H1 and H2, once per replica (`permit-turns.ts`).
 * 3. H1 is released or its lease ends: one notification to A, one to B. Each strikes H1 and sees that W1 is admitted. B watches W1 in
 *    place of H1 and wakes nobody. A wakes W1's request.
 * 4. W1's request writes `granted`, in a transaction that checks the limit's version (`grant.ts`). A crash before it: step 1. After
 *    it: a hold that its client was not told of; the repeated request finds it, the end of the lease frees it.
 * 5. W1 gives up in that moment instead: its node goes, B's watch on it says so, and W2 is admitted.
 * 6. Somebody changes the limit between 3 and 4: the transaction fails, the limit is read and it is counted again.
 */
import { PosternError } from '../errors.js';
import type { Lease } from '../leases/lease.js';
import { isReason, unless } from '../zookeeper/errors.js';
import { parentOf } from '../zookeeper/paths.js';
import type { Granted, NotGranted } from './acquire.js';
import { decodeAgreement, encodeAgreement } from './agreement.js';
import type { Coordination } from './coordination.js';
import { acquireLine, acquireLineWithLease, releaseLine, type AcquireLine, type NewLease } from './line-lock.js';
import type { ReleaseRequest } from './release.js';

export type AcquirePermits = Omit<AcquireLine, 'kind' | 'mode' | 'permits'> & { limit: number; count: number };

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
 * Changes the limit, or agrees on one where nobody has yet. Who holds goes on; waiting requests that fit are granted at once.
 * Repeating it does no harm.
 */
export async function setLimit(
  { control, layout }: Coordination,
  namespace: string,
  name: string,
  limit: number,
  deadline: number,
): Promise<void> {
  const directory = layout.line(KIND, namespace, name);
  for (;;) {
    const [, node] = await Promise.all([
      control.sync(directory, deadline),
      unless(control.getData(directory, deadline), 'NO_NODE'),
    ]);
    const agreed = node === undefined ? undefined : decodeAgreement(node);
    if (node !== undefined && agreed === undefined)
      throw new PosternError('conflict', `The directory of "${name}" was made by another client: it is no semaphore.`);
    if (agreed?.limit === limit) return;
    const data = encodeAgreement({ limit, high: Math.max(limit, agreed?.high ?? 0) });
    try {
      if (agreed !== undefined) await control.setData(directory, data, agreed.version, deadline);
      else await control.create(directory, data, {}, deadline);
      return;
    } catch (error) {
      if (isReason(error, 'NO_NODE') && agreed === undefined) await control.ensurePath(parentOf(directory), deadline);
      else if (!isReason(error, 'BAD_VERSION', 'NODE_EXISTS', 'NO_NODE')) throw error;
    }
  }
}

function lineRequest({ limit, count, ...request }: AcquirePermits): AcquireLine {
  return { ...request, kind: KIND, mode: 'shared', permits: { limit, count } };
}
