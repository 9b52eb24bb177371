/**
 * Housekeeping of revocations (the fourth step of `revocation.ts`): removes those whose hold is gone, and everything
 * kept for a lease that has ended. Before that, somebody could still be told.
 */
import { isReason, unless } from '../../../zookeeper/errors.js';
import { breakIfDue } from './break-hold.js';
import type { Coordination } from '../../coordination.js';
import { decodeRevocation } from './record.js';

export async function tidyRevocations(context: Coordination, leaseId: string, deadline: number): Promise<void> {
  const { control, layout } = context;
  const directory = layout.revocationsOf(leaseId);
  // The lease's own node is as old as the lease: once this server has shown a revocation of it, NO_NODE means that it
  // has ended.
  const listing = await unless(control.getChildren(directory, deadline), 'NO_NODE');
  if (listing === undefined) return;
  for (const holdId of listing.children) {
    await breakIfDue(context, leaseId, holdId, deadline);
    const node = await unless(control.getData(layout.revocation(leaseId, holdId), deadline), 'NO_NODE');
    if (node === undefined) continue;
    const { state, namespace } = decodeRevocation(node.data);
    const lease = await control.exists(layout.lease(namespace, leaseId), deadline);
    if (lease !== undefined || state !== 'broken') continue;
    await unless(
      control.delete(layout.revocation(leaseId, holdId), node.stat.version, deadline),
      'NO_NODE',
      'BAD_VERSION',
    );
  }
  try {
    await control.delete(directory, undefined, deadline);
  } catch (error) {
    if (!isReason(error, 'NOT_EMPTY', 'NO_NODE')) throw error; // there is still something to be told
  }
}
