/**
 * Writes for a lease that need not go through its own session: they go out with those of other requests, and
 * the lease stays with the replica that has its session. They must be exact by what they check: unlike that session,
 * which moves with its client, they may arrive after something newer was done at another replica.
 */
import type { Awaited } from '../time.js';
import type { BoundWriter } from '../zookeeper/bound.js';
import type { ControlSession } from '../zookeeper/control-session.js';
import { isTransient, mayBeApplied, ZooKeeperError } from '../zookeeper/errors.js';
import { patienceMs } from '../zookeeper/lease/patience.js';
import type { Lease } from './lease.js';

/** `not-done`, and `in-doubt`: the lease's own session tells what is so. */
export type Tried = 'done' | 'not-done' | 'in-doubt';

/**
 * @param write says whether it was done
 * @throws ClientGoneError
 */
export async function tryWithoutSession(
  control: ControlSession,
  lease: Lease,
  { deadline, requester }: Awaited,
  write: (zk: BoundWriter) => Promise<boolean>,
): Promise<Tried> {
  // No longer than the lease's own session would be waited for.
  const by = Math.min(deadline, performance.now() + patienceMs(lease.ttlMs));
  try {
    return (await write(control.groupCommit.until(by, requester))) ? 'done' : 'not-done';
  } catch (error) {
    if (mayBeApplied(error)) return 'in-doubt';
    if (isTransient(error) || error instanceof ZooKeeperError) return 'not-done';
    throw error;
  }
}
