/**
 * Lease and members in one request (C14). The place in line goes when members are given, so that it cannot carry the
 * token as that of a lock does: the lease itself is found by the request, in its request node (`leases/grant.ts`).
 *
 *   repetition    raises that node from version 0 to 1 before it uses the lease; from then on the lease is its client's
 *   refusal       deletes that node, if it still has version 0, and the lease's own node with it, before it ends the
 *                 lease: so a repetition either keeps the lease alive or makes another one
 *   crash         between the two: nobody has the token, and the lease lapses
 *
 * The two nodes are made and deleted together. Whoever finds the lease's own node in the transaction that raises the
 * request node has raised that of this lease, and not of one that was made after it.
 */
import { ClientGoneError, LeaseExpiredError, PosternError } from '../../errors.js';
import type { GrantedLease } from '../../leases/grant.js';
import type { Lease } from '../../leases/lease.js';
import { fullJitter, pause } from '../../time.js';
import { isReason, isTransient } from '../../zookeeper/errors.js';
import type { Coordination } from '../coordination.js';
import type { NotGranted } from '../line/acquire.js';
import type { NewLease } from '../line/request.js';
import { acquireMembers, type Acquired, type AcquireMembers } from './acquire.js';
import { releaseAllMembers } from './release.js';

interface CallLease {
  readonly lease: Lease;
  readonly leaseToken: string;
  /** Ends it unless another attempt uses it. Of a lease that was found: undefined. @returns whether it ends */
  readonly end: (() => Promise<boolean>) | undefined;
}

const AGAIN_BASE_MS = 5;
const AGAIN_CAP_MS = 100;
const END_MS = 5_000;

/**
 * As `acquireMembers`, with a lease that is made for it, or was by an earlier attempt of this request.
 * @throws as `acquireMembers`, and PosternError `too-many-leases`; StandingConflictError for another label
 */
export async function acquireMembersWithLease(
  context: Coordination,
  newLease: NewLease,
  asked: AcquireMembers,
): Promise<{ result: Acquired | NotGranted; lease: Lease; leaseToken: string }> {
  const { hardDeadline, requester, ref } = asked;
  for (let attempt = 0; ; attempt += 1) {
    const made = await leaseOfCall(context, newLease, asked);
    if (made !== undefined) {
      const { lease, leaseToken, end } = made;
      try {
        const result = await acquireMembers(context, lease, asked);
        return { result: await settled(result, end, asked.keepPlace), lease, leaseToken };
      } catch (error) {
        const isRefusal = error instanceof PosternError && error.outcome === 'not-applied' && !isTransient(error);
        // A client that has gone asks for nothing any more, whatever was done for it on the way.
        const isGone = error instanceof ClientGoneError && !asked.keepPlace;
        if (isRefusal || isGone) await end?.();
        // The lease of the earlier attempt ended just now; this one may have another.
        if (!(error instanceof LeaseExpiredError) || end !== undefined) throw error;
      }
    }
    const backOff = fullJitter(attempt, AGAIN_BASE_MS, AGAIN_CAP_MS);
    if (performance.now() + backOff >= hardDeadline || (await pause(backOff, requester.signal)) === 'aborted')
      throw new PosternError(
        requester.ended === 'draining' ? 'draining' : 'conflict',
        `The leases of earlier requests for pool "${ref.name}" with this requestId were about to end; repeat the request.`,
      );
  }
}

/** A refusal ends the lease, as does an answer that does not arrive; a place that is kept needs it. */
async function settled(
  result: Acquired | NotGranted,
  end: CallLease['end'],
  keepsPlace: boolean,
): Promise<Acquired | NotGranted> {
  if (end === undefined) return result;
  if (!result.held) {
    if (result.why === 'refused' || (result.why === 'client-gone' && !keepsPlace)) await end();
    return result;
  }
  const undelivered = async (): Promise<void> => {
    if (!(await end())) result.undelivered();
  };
  return { ...result, undelivered: () => void undelivered() };
}

/** @returns undefined when the one that was found has just ended */
async function leaseOfCall(
  context: Coordination,
  newLease: NewLease,
  { ref, requestId, hardDeadline }: AcquireMembers,
): Promise<CallLease | undefined> {
  const { leases, layout, control } = context;
  const ownId = JSON.stringify(['pool', ref.name, requestId]);
  const { lease, leaseToken, found }: GrantedLease = await leases.create(
    { ...newLease, requestId: ownId },
    hardDeadline,
  );
  const requestPath = layout.request(newLease.namespace, newLease.principal, ownId);
  const leasePath = layout.lease(lease.namespace, lease.leaseId);
  if (!found) return { lease, leaseToken, end: () => endUnused(context, lease, requestPath) };
  try {
    await control.until(hardDeadline).multi([
      { type: 'check', path: leasePath },
      { type: 'setData', path: requestPath, data: Buffer.from(leaseToken), version: 0 },
    ]);
  } catch (error) {
    if (isReason(error, 'NO_NODE')) return undefined;
    if (!isReason(error, 'BAD_VERSION')) throw error; // else it is raised already
  }
  return { lease, leaseToken, end: undefined };
}

/** Nobody else has the token: when ZooKeeper cannot be told now, the lease lapses. */
async function endUnused(context: Coordination, lease: Lease, requestPath: string): Promise<boolean> {
  const { control, layout, leases } = context;
  const deadline = performance.now() + END_MS;
  try {
    await control.until(deadline).multi([
      { type: 'delete', path: requestPath, version: 0 },
      { type: 'delete', path: layout.lease(lease.namespace, lease.leaseId) },
    ]);
    await leases.sessions.end(lease, deadline, undefined, (session) =>
      releaseAllMembers(context, session.until(deadline), lease, () => undefined),
    );
    return true;
  } catch {
    return false;
  }
}
