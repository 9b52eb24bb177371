/**
 * Read-write lock held by a lease: readers share, a writer excludes.
 *
 * Guarantee: at no time, as seen by ZooKeeper, does a live lease hold it for writing while another one holds it at all.
 * Everybody is
 *   served in strict order of arrival: a reader that comes after a waiting writer waits behind it, so neither side
 *   starves. Every grant has a fencing token, the czxid of the holder's node; a writer's is higher than those of all
 *   readers and writers that it waited for.
 * Not guaranteed: that a paused holder has noticed that its lease ended. Let the resource check the fencing token.
 *
 * Layout:  <root>/ns/<namespace>/rwlocks/<name>/_c_<guid>-__READ__<sequence>, or -__WRIT__<sequence>   ephemeral
 * Source:  ZooKeeper recipes, "Shared Locks"; Curator's InterProcessReadWriteLock (names).
 *
 * One lease has one mode per requestId. There is no upgrade: two readers that both want to write would wait for each
 * other for ever (kazoo #649); release, and acquire again. A writer that has said so beforehand may downgrade
 * (`line/join/downgrade.ts`).
 */
import type { Lease } from '../../leases/lease.js';
import type { Granted, NotGranted } from '../line/acquire.js';
import type { Coordination } from '../coordination.js';
import { acquireLine, acquireLineWithLease, releaseLine, type AcquireLine } from '../line/request.js';
import type { NewLease } from '../with-lease.js';
import type { ReleaseRequest } from '../line/release.js';

export type AcquireReadWriteLock = Omit<AcquireLine, 'kind' | 'mode'> & { mode: 'read' | 'write' };

const KIND = 'rwlock';

export function acquireReadWriteLock(
  context: Coordination,
  lease: Lease,
  request: AcquireReadWriteLock,
): Promise<Granted | NotGranted> {
  return acquireLine(context, lease, { ...request, kind: KIND });
}

/** Takes a lease and the lock in one call. */
export function acquireReadWriteLockWithLease(
  context: Coordination,
  newLease: NewLease,
  request: AcquireReadWriteLock,
): Promise<{ result: Granted | NotGranted; lease: Lease; leaseToken: string }> {
  return acquireLineWithLease(context, newLease, { ...request, kind: KIND });
}

/** Releases a hold or gives up a waiting place. */
export function releaseReadWriteLock(context: Coordination, request: ReleaseRequest): Promise<void> {
  return releaseLine(context, KIND, request);
}
