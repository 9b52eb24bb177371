/**
 * The request that locks, read-write locks and elections share: for a name under one requestId, with an existing lease
 * or one created in the same call.
 */
import { LeaseExpiredError, PosternError } from '../../errors.js';
import { ROOM, type LineKind, type PlaceKind } from '../../leases/layout.js';
import { requestGuid, type Lease } from '../../leases/lease.js';
import { checkSameLabel } from '../../leases/leases.js';
import { fullJitter, pause, type Caller } from '../../time.js';
import { acquire, type AcquireRequest, type Granted, type NotGranted } from './acquire.js';
import { decodeRecord, guidOf, type Mode } from './contender.js';
import type { Coordination } from '../coordination.js';
import type { NewLease } from '../with-lease.js';
import type { JoinRequest } from './join/request.js';
import { readLine } from './view.js';
import { release, type ReleaseRequest } from './release.js';

export interface AcquireLine {
  kind: LineKind;
  mode: Mode;
  /** Semaphores only; see `JoinRequest`. */
  permits?: JoinRequest['permits'];
  name: string;
  requestId: string;
  waitMs: number;
  keepPlace: boolean;
  oneOfMany?: boolean | undefined;
  data: unknown;
  /** For how long nobody is granted what the hold excludes, if it is lost; of locks and read-write locks. */
  lockDelayMs?: number | undefined;
  /** Of writers; see `JoinRequest`. */
  downgradable?: boolean | undefined;
  /** Of locks: the place is to outlive its lease. See `JoinRequest`. */
  reservation?: JoinRequest['reservation'];
  /** Of locks by priority; see `JoinRequest`. */
  priority?: number | undefined;
  hasTurn?: boolean | undefined;
  /** Of elections. See `JoinRequest`, `AcquireRequest`. */
  candidate?: JoinRequest['candidate'];
  advance?: AcquireRequest['advance'];
  /** Of pools, and of rooms. See `AcquireRequest`. */
  assign?: AcquireRequest['assign'];
  receivedAt: number;
  hardDeadline: number;
  requester: Caller;
}

const RIVAL_BASE_MS = 5;
const RIVAL_CAP_MS = 100;

export function acquireLine(context: Coordination, lease: Lease, request: AcquireLine): Promise<Granted | NotGranted> {
  const { kind, name, requestId } = request;
  const own = lease.guid(kind, name, requestId);
  // A lock that this lease got in one call stands under the guid of that call; it is the same hold.
  const shared = requestId === '' ? undefined : requestGuid(lease.principal, lease.namespace, kind, name, requestId);
  const where = request.priority === undefined ? kind : ROOM;
  return acquire(context, kind, context.layout.line(where, lease.namespace, name), {
    // Member by member, and not as a copy with more: this is read everywhere on the way, and V8 reads objects of one
    // shape fastest.
    mode: request.mode,
    permits: request.permits,
    priority: request.priority,
    hasTurn: request.hasTurn,
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
    reservation: request.reservation,
    downgradable: request.downgradable,
    endLease: undefined,
    candidate: request.candidate,
    notice: undefined,
    advance: request.advance,
    assign: request.assign,
    receivedAt: request.receivedAt,
    hardDeadline: request.hardDeadline,
    requester: request.requester,
  });
}

/**
 * Takes a lease and the lock in one call. Repeated by the same principal with the same requestId it answers the same
 * hold and the same token while the lease lives: the node is found by a guid that needs no token, and the sealed token
 * lies in its data. So the requestId has to be random; one with another label is refused as somebody else's. Two tries
 * at once make two leases; the first in line stays, the other one ends its own.
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
    const known = await findOneCallLease(context, namespace, directory, shared, hardDeadline);
    if (known !== undefined) checkSameLabel(known.lease, newLease.label);
    const { lease, leaseToken } = known ?? (await context.leases.create(newLease, hardDeadline));
    const acquireRequest: AcquireRequest = {
      ...request,
      stays: kind === 'election' && request.keepPlace,
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
    if ((await pause(backOff, request.requester.signal)) === 'aborted')
      throw new PosternError(
        request.requester.ended === 'draining' ? 'draining' : 'conflict',
        'The request was ended.',
      );
  }
}

/**
 * Releases a hold or gives up a waiting place.
 * @param where it stands: of a lock by priority maybe in its room
 * @param room of a lock, by requestId: what is there goes too
 */
export function releaseLine(
  context: Coordination,
  kind: LineKind,
  request: ReleaseRequest,
  where: PlaceKind = kind,
  room?: PlaceKind,
): Promise<void> {
  const directory = (of: PlaceKind): string => context.layout.line(of, request.lease.namespace, request.name);
  return release(context, kind, directory(where), request, room && directory(room));
}

/**
 * The lease of an earlier try of the same one-call acquire.
 * @throws PosternError `conflict` when its token cannot be read: somebody wrote over it a moment ago
 *   (`revocation/foreign.ts`), or its key is gone
 */
async function findOneCallLease(
  context: Coordination,
  namespace: string,
  directory: string,
  guid: string,
  deadline: number,
): Promise<{ lease: Lease; leaseToken: string } | undefined> {
  // An earlier try that this overlooks is found in the line itself, behind a write.
  const zk = context.control.until(deadline);
  const [, line] = await Promise.all([zk.sync(directory), readLine(zk, directory)]);
  const earlier = line.find(({ name }) => guidOf(name) === guid);
  if (earlier === undefined) return undefined;
  const node = await zk.find(`${directory}/${earlier.name}`);
  if (node === undefined) return undefined;
  const record = decodeRecord(node.data);
  let leaseToken = record?.leaseToken;
  let lease = leaseToken === undefined ? undefined : await context.leases.openStored(leaseToken, deadline);
  if (lease === undefined && record?.leaseToken !== undefined) {
    // Its key has been dropped: the lease's own record may have been sealed anew (`leases/reseal.ts`).
    leaseToken = (await context.leases.records.find(namespace, record.leaseId, deadline))?.token;
    lease = leaseToken === undefined ? undefined : await context.leases.openStored(leaseToken, deadline);
  }
  // Another lease would only ever stand behind it.
  if (leaseToken === undefined || lease === undefined)
    throw new PosternError(
      'conflict',
      'An earlier request with this requestId stands in line, and its lease token cannot be read: another client of ZooKeeper wrote over it a moment ago, or its key is not in use any more. Repeat the request in a while; the place ends with its lease.',
    );
  return { lease, leaseToken };
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
