/**
 * Exclusive lock held by a lease.
 *
 * Guarantee: at most one live lease holds the name, in arrival order, as seen by ZooKeeper. Every grant has a fencing
 *   token, strictly increasing per name: the czxid of the holder's node. (Not its sequence number, which restarts at 0
 *   when an unused directory is removed and created again.)
 * Not guaranteed: that a paused holder has noticed that its lease ended. Let the resource check the fencing token.
 *
 * Layout:  <root>/ns/<namespace>/locks/<name>/_c_<guid>-lock-<sequence>   ephemeral, of the lease's session
 * Source:  ZooKeeper recipes, "Locks" and "Recoverable Errors and the GUID"; Curator's InterProcessMutex (layout).
 *
 * Reading order: this, with `line/line.ts`; `priority.ts`, with `room-turns.ts`; `many-locks.ts`.
 */
import { NotHolderError } from '../../errors.js';
import { ROOM } from '../../leases/layout.js';
import type { Lease } from '../../leases/lease.js';
import type { Granted, NotGranted } from '../line/acquire.js';
import type { Coordination } from '../coordination.js';
import { decodeHoldId, isInRoom } from '../line/contender.js';
import { acquireLine, acquireLineWithLease, releaseLine, type AcquireLine } from '../line/request.js';
import type { NewLease } from '../with-lease.js';
import type { ReleaseRequest } from '../line/release.js';

export type AcquireLock = Omit<AcquireLine, 'kind' | 'mode'>;

const EXCLUSIVE = { kind: 'lock', mode: 'exclusive' } as const;

export function acquireLock(context: Coordination, lease: Lease, request: AcquireLock): Promise<Granted | NotGranted> {
  return acquireLine(context, lease, { ...request, ...EXCLUSIVE });
}

/** Takes a lease and the lock in one call. */
export function acquireLockWithLease(
  context: Coordination,
  newLease: NewLease,
  request: AcquireLock,
): Promise<{ result: Granted | NotGranted; lease: Lease; leaseToken: string }> {
  return acquireLineWithLease(context, newLease, { ...request, ...EXCLUSIVE });
}

/**
 * Releases a hold or gives up a waiting place. What is not in the line may be in the room in front of it, or have gone
 * from there into the line in that moment (`priority.ts`).
 */
export async function releaseLock(context: Coordination, request: ReleaseRequest): Promise<void> {
  const hold = request.holdId === undefined ? undefined : decodeHoldId(request.holdId);
  if (request.holdId !== undefined)
    return releaseLine(context, 'lock', request, hold !== undefined && isInRoom(hold) ? ROOM : 'lock');
  for (const where of ['lock', ROOM] as const)
    try {
      return await releaseLine(context, 'lock', request, where);
    } catch (error) {
      if (!(error instanceof NotHolderError)) throw error;
    }
  return releaseLine(context, 'lock', request);
}
