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
 * Reading order: this, with `line/line.ts`; `priority.ts`, with `line/room/turns.ts`; `many-locks.ts`.
 */
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
 * Releases a hold or gives up a waiting place. By requestId that is what stands in the line and in the room in front of
 * it (`priority.ts`). By the holdId of a place in the room it is that place only: once its turn has come it is gone,
 * which is answered as not held, and the place in the line is given up by its requestId, or its own holdId.
 */
export function releaseLock(context: Coordination, request: ReleaseRequest): Promise<void> {
  if (request.holdId === undefined) return releaseLine(context, 'lock', request, 'lock', ROOM);
  const hold = decodeHoldId(request.holdId);
  return releaseLine(context, 'lock', request, hold !== undefined && isInRoom(hold) ? ROOM : 'lock');
}
