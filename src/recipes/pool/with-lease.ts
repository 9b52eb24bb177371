/** Lease and members in one request (C14). */
import type { Coordination } from '../coordination.js';
import type { NotGranted } from '../line/acquire.js';
import { withNewLease, type NewLease, type WithLease } from '../with-lease.js';
import { acquireMembers, type Acquired, type AcquireMembers } from './acquire.js';
import { releaseAllMembers } from './release.js';

/**
 * As `acquireMembers`, with a lease that is made for it, or was by an earlier attempt of this request.
 * @throws as `acquireMembers` and `withNewLease`
 */
export async function acquireMembersWithLease(
  context: Coordination,
  newLease: NewLease,
  asked: AcquireMembers,
): Promise<WithLease<Acquired | NotGranted>> {
  const made = await withNewLease<Acquired | NotGranted>(context, {
    newLease,
    subject: ['pool', asked.ref.name],
    requestId: asked.requestId,
    deadline: asked.hardDeadline,
    requester: asked.requester,
    work: (lease) => acquireMembers(context, lease, asked),
    // A place that is kept needs the lease.
    isInVain: (result) =>
      !result.held && (result.why === 'refused' || (result.why === 'client-gone' && !asked.keepPlace)),
    endsWhenGone: !asked.keepPlace,
    releaseFirst: (lease, zk) => releaseAllMembers(context, zk, lease, () => undefined),
  });
  const { result } = made;
  if (!result.held) return made;
  return { ...made, result: { ...result, undelivered: () => made.undelivered(result.undelivered) } };
}
