/**
 * What locks, read-write locks and elections have in common: a request for a name under one requestId, with a lease that the client has
 * or that is made in the same call.
 *
 * How a place is got is in `join.ts`, how it is waited in `line-waiter.ts`, how it ends in `acquire.ts` and `release.ts`, and
 * who may hold beside whom in `rule.ts`.
 */
import { LeaseExpiredError, PosternError } from '../errors.js';
import type { LineKind } from '../leases/layout.js';
import { requestGuid, type Lease } from '../leases/lease.js';
import { endReason, fullJitter, pause } from '../time.js';
import { unless } from '../zookeeper/errors.js';
import { acquire, type AcquireRequest, type Granted, type NotGranted } from './acquire.js';
import { decodeRecord, guidOf } from './contender.js';
import type { Coordination } from './coordination.js';
import { readLine } from './line-view.js';
import { release, type ReleaseRequest } from './release.js';
import type { Mode } from './rule.js';

export interface AcquireLine {
  kind: LineKind;
  mode: Mode;
  /** Of a semaphore: how many there are, as the caller knows it, and how many it wants. */
  permits?: { limit: number; count: number } | undefined;
  name: string;
  requestId: string;
  waitMs: number;
  keepPlace: boolean;
  oneOfMany?: boolean | undefined;
  data: unknown;
  /** For how long nobody is granted what the hold excludes, if it is lost; of locks and read-write locks. */
  lockDelayMs?: number | undefined;
  receivedAt: number;
  hardDeadline: number;
  signal: AbortSignal;
}

export interface NewLease {
  principal: string;
  namespace: string;
  ttlMs: number | undefined;
  label: string | undefined;
}

const RIVAL_BASE_MS = 5;
const RIVAL_CAP_MS = 100;

export function acquireLine(context: Coordination, lease: Lease, request: AcquireLine): Promise<Granted | NotGranted> {
  const { kind, name, requestId } = request;
  const own = lease.guid(kind, name, requestId);
  // A lock that this lease got in one call stands under the guid of that call; it is the same hold.
  const shared = requestId === '' ? undefined : requestGuid(lease.principal, lease.namespace, kind, name, requestId);
  return acquire(context, kind, context.layout.line(kind, lease.namespace, name), {
    // Member by member, and not as a copy with more: this is read everywhere on the way, and V8 reads objects of one shape fastest.
    mode: request.mode,
    permits: request.permits,
    lease,
    name,
    requestId,
    waitMs: request.waitMs,
    keepPlace: request.keepPlace,
    oneOfMany: request.oneOfMany,
    stays: kind === 'election' && request.keepPlace,
    data: request.data,
    lockDelayMs: request.lockDelayMs ?? 0,
    guids: { own, shared, create: 'own' },
    leaseToken: undefined,
    endLease: undefined,
    receivedAt: request.receivedAt,
    hardDeadline: request.hardDeadline,
    signal: request.signal,
  });
}

/**
 * Takes a lease and the lock in one call. Repeated by the same principal with the same requestId it answers the same hold
 * and the same token while the lease lives: the node is found by a guid that needs no token, and the sealed
 * token lies in its data. Two tries at once make two leases; the first in line stays, the other one ends its own.
 */
export async function acquireLineWithLease(
  context: Coordination,
  newLease: NewLease,
  request: AcquireLine,
): Promise<{ result: Granted | NotGranted; lease: Lease; leaseToken: string }> {
  const { principal, namespace } = newLease;
  const { kind, name, requestId, hardDeadline } = request;
  const shared = requestGuid(principal, namespace, kind, name, requestId);
  const directory = context.layout.line(kind, namespace, name);
  for (let attempt = 0; ; attempt += 1) {
    const known = await findOneCallLease(context, directory, shared, hardDeadline);
    const { lease, leaseToken } = known ?? (await context.leases.create(newLease, hardDeadline));
    const acquireRequest: AcquireRequest = {
      ...request,
      lockDelayMs: request.lockDelayMs ?? 0,
      lease,
      leaseToken,
      guids: { own: lease.guid(kind, name, requestId), shared, create: 'shared' },
      // The lease of an earlier try may be its client's by now; it lapses when it is nobody's.
      endLease: known === undefined ? (deadline) => endQuietly(context, lease, deadline) : undefined,
    };
    try {
      const result = await acquire(context, kind, directory, acquireRequest);
      if (result.held || result.why !== 'rival') return { result, lease, leaseToken };
    } catch (error) {
      // The lease of the earlier try ended just now, so its place is free for a new one.
      if (!(error instanceof LeaseExpiredError) || known === undefined) throw error;
    }
    const backOff = fullJitter(attempt, RIVAL_BASE_MS, RIVAL_CAP_MS);
    if (performance.now() + backOff >= hardDeadline)
      throw new PosternError(
        'conflict',
        `Several requests for "${name}" with this requestId got in each other's way; repeat the request.`,
      );
    if ((await pause(backOff, request.signal)) === 'aborted')
      throw new PosternError(
        endReason(request.signal) === 'draining' ? 'draining' : 'conflict',
        'The request was ended.',
      );
  }
}

/** Releases a hold or gives up a waiting place. */
export function releaseLine(context: Coordination, kind: LineKind, request: ReleaseRequest): Promise<void> {
  return release(context, kind, context.layout.line(kind, request.lease.namespace, request.name), request);
}

/** The lease of an earlier try of the same one-call acquire. */
async function findOneCallLease(
  context: Coordination,
  directory: string,
  guid: string,
  deadline: number,
): Promise<{ lease: Lease; leaseToken: string } | undefined> {
  const line = await readLine(context, directory, deadline, false);
  const earlier = line.find(({ name }) => guidOf(name) === guid);
  if (earlier === undefined) return undefined;
  const node = await unless(context.control.getData(`${directory}/${earlier.name}`, deadline), 'NO_NODE');
  const leaseToken = node === undefined ? undefined : decodeRecord(node.data)?.leaseToken;
  if (leaseToken === undefined) return undefined;
  const lease = await context.leases.openStored(leaseToken, deadline);
  return lease === undefined ? undefined : { lease, leaseToken };
}

/** Nobody has its token: when ZooKeeper cannot be told now, it lapses. @returns whether it has ended */
async function endQuietly(context: Coordination, lease: Lease, deadline: number): Promise<boolean> {
  try {
    await context.leases.end(lease, deadline);
    return true;
  } catch {
    return false;
  }
}
