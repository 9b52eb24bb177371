/**
 * Acquiring: join the line, be first or wait to be, and leave nothing behind when it comes to nothing.
 *
 * How a request ends, and what becomes of its place:
 *
 *   granted                      the place is the hold
 *   refused, waited in vain      given up; with `keepPlace` kept, and the same request goes on with it anywhere
 *   client gone                  given up; with `keepPlace` kept
 *   draining                     kept, so that a rolling restart loses nobody's place; one of many (`oneOfMany`) is given up
 *   superseded                   another attempt of the same client has it: not ours to touch
 *   lost                         it was taken away while the lease lives: 409 `conflict`
 *   lease ended                  ZooKeeper has removed it
 *   outcome unknown              deleted in the background unless the client comes back for it first
 *
 * A grant whose answer cannot be delivered is given back (`Granted.undelivered`); with `keepPlace` it
 * becomes a waiting place again, which the same request turns into the hold.
 */
import type { Lease } from '../leases/lease.js';
import { isPosternError, LeaseExpiredError, LimitMismatchError, PosternError } from '../errors.js';
import type { AcquireOutcome, Kind } from '../metrics/metrics.js';
import { NoReplyError, unless } from '../zookeeper/errors.js';
import { compareSequences } from '../zookeeper/paths.js';
import { ABANDONED_GRACE_MS } from './abandoned.js';
import { guidOf, type Contender } from './contender.js';
import type { Coordination } from './coordination.js';
import { describeContender, type ContenderView } from './describe.js';
import { hasMark } from './delay-mark.js';
import { grant, grantPermits } from './grant.js';
import { join, type Joined, type JoinRequest } from './join.js';
import type { Line } from './line.js';
import { delayBefore, findDelay, type Locked } from './lock-delay.js';
import { LineWaiter, type WaitEnd } from './line-waiter.js';
import type { Place, Written } from './place.js';
import type { Mode } from './rule.js';

export interface AcquireRequest {
  mode: Mode;
  /** Of a semaphore: how many there are, as the caller knows it, and how many it wants. */
  permits?: JoinRequest['permits'];
  lease: Lease;
  name: string;
  requestId: string;
  waitMs: number;
  keepPlace: boolean;
  /** A place that is of use only together with others: never left in line. */
  oneOfMany?: boolean | undefined;
  /**
   * Candidates of elections: the place is never abandoned (protocol C3), so it carries no `waitUntil`; and a grant that could not
   * be delivered is not taken back, because who is first leads whether it knows or not.
   */
  stays?: boolean | undefined;
  data: unknown;
  /** See `JoinRequest`. */
  lockDelayMs: number;
  guids: JoinRequest['guids'];
  /** One-call acquires: kept with the node, so that a repeated call finds it. */
  leaseToken?: string | undefined;
  /** One-call acquires, in the try that made the lease: ends it, and says whether it could. Called when nothing comes of the request, and nobody else has the place. */
  endLease?: ((deadline: number) => Promise<boolean>) | undefined;
  /** Arrival of the request, monotonic: what `waitedMs` and the deadline count from. */
  receivedAt: number;
  /** What may still be done for the request after its wait is over ends here, monotonic. */
  hardDeadline: number;
  signal: AbortSignal;
}

export interface Granted {
  held: true;
  holdId: string;
  fencingToken: number;
  alreadyHeld: boolean;
  waitedMs: number;
  /** Epoch ms: the lease lives at least until then. */
  expiresAt: number;
  /** Gives the hold back because the client was not told of it. */
  undelivered: () => void;
  /** The same, for somebody who waits until it is done. What was held before this request stays held. */
  giveBack: () => Promise<void>;
}

export interface NotGranted {
  held: false;
  /** `rival`: another try of the same one-call acquire, with a lease of its own, came first. */
  why: 'refused' | 'kept' | 'draining' | 'client-gone' | 'rival';
  /** How many stand before; when the place was given up, how many did. */
  position: number;
  holder: ContenderView | undefined;
  /** Epoch ms on the ensemble's clock, while a lock-delay runs. */
  lockedUntil?: number;
  /** Of a place that was kept. */
  holdId?: string;
}

const BACKGROUND_MS = 10_000;

/** @throws LeaseExpiredError, PosternError `conflict` (the place was taken away or over), NoReplyError */
export async function acquire(
  context: Coordination,
  kind: Kind,
  directory: string,
  request: AcquireRequest,
): Promise<Granted | NotGranted> {
  const count = (outcome: AcquireOutcome): void => context.metrics.acquireTotal.inc({ kind, outcome });
  const line = context.lines.enter(directory, kind);
  try {
    const result = await acquireIn(context, kind, line, request);
    if (result.held) {
      count(result.waited ? 'waited' : 'immediate');
      context.metrics.acquireWaitSeconds.observe({ kind }, result.granted.waitedMs / 1_000);
      return result.granted;
    }
    count(result.why === 'client-gone' ? 'left' : 'refused');
    return result;
  } catch (error) {
    if (error instanceof LeaseExpiredError) count('expired');
    throw error;
  } finally {
    context.lines.leave(line);
  }
}

type Ended = { held: true; waited: boolean; granted: Granted } | NotGranted;

async function acquireIn(context: Coordination, kind: Kind, line: Line, request: AcquireRequest): Promise<Ended> {
  const { lease, waitMs, hardDeadline, receivedAt, signal } = request;
  let joined: Joined;
  try {
    joined = await join(context, kind, line, request);
  } catch (error) {
    if (error instanceof LimitMismatchError) await request.endLease?.(hardDeadline);
    throw error;
  }
  if (joined.how === 'refused') {
    await request.endLease?.(hardDeadline);
    if (joined.head !== undefined) return refused(context, line, joined.head, 0, hardDeadline);
    return { held: false, why: 'refused', position: 0, holder: undefined, lockedUntil: joined.lockedUntil };
  }
  const { place, expiresAt } = joined;
  let { alreadyHeld } = joined;
  const granted = (waited: boolean, until: number): Ended => {
    // What was held before this request stays held: an earlier answer may have told the client of it.
    const back = alreadyHeld ? () => Promise.resolve() : () => giveBack(context, line.path, place, request);
    context.granted.remember(place.path, lease.leaseId, place.czxid, line.directory?.removable !== true, {
      marked: hasMark(place.record),
      seen: joined.seen,
    });
    return {
      held: true,
      waited,
      granted: {
        held: true,
        holdId: place.holdId,
        fencingToken: place.czxid,
        alreadyHeld,
        waitedMs: Math.max(0, Math.round(performance.now() - receivedAt)),
        expiresAt: until,
        undelivered: () => void back(),
        giveBack: back,
      },
    };
  };
  const deadline = receivedAt + waitMs;
  let until = expiresAt;
  let end: WaitEnd = 'deadline';
  try {
    // Among others of this replica the node is made as `waiting`; they may all have gone by now.
    let first: Written | 'not-yet' | Locked = 'not-yet';
    if (joined.first) first = isHeld(line, place) ? 'written' : await grantFirst(context, line, place, hardDeadline);
    if (first === 'written') return granted(false, expiresAt);
    // What is found granted while a lock-delay runs was never a hold (`lock-delay.ts`).
    if (typeof first === 'object') alreadyHeld = false;
    const written = first === 'superseded' || first === 'lost' ? first : await keepWaiting(context, place, request);
    if (written !== 'written') throw await taken(context, request, written);
    if (hasRival(line, place, request)) {
      const left = await giveUp(context, line, place, request, hardDeadline);
      if (left === 'superseded') throw await taken(context, request, left);
      return { held: false, why: 'rival', position: 0, holder: undefined };
    }
    if (waitMs > 0) {
      const waiter = new LineWaiter(context, kind, line, lease, place, expiresAt);
      end = await waiter.wait({ deadline, hardDeadline, signal });
      until = waiter.expiresAt;
    }
  } catch (error) {
    // ZooKeeper did not answer: the place goes as soon as it can be said, unless it was a hold before.
    if (!alreadyHeld && !(error instanceof LeaseExpiredError) && !isPosternError(error, 'conflict'))
      void giveBack(context, line.path, place, request);
    throw error;
  }
  if (end === 'granted') return granted(true, until);
  if (end === 'superseded' || end === 'lost') throw await taken(context, request, end);
  return withoutGrant(context, line, place, request, end);
}

async function withoutGrant(
  context: Coordination,
  line: Line,
  place: Place,
  request: AcquireRequest,
  end: 'deadline' | 'client-gone' | 'draining',
): Promise<NotGranted> {
  const { keepPlace, oneOfMany, stays, hardDeadline } = request;
  const position = line.positionOf(place);
  const { holdId } = place;
  if (end === 'draining' && oneOfMany !== true)
    return { held: false, why: keepPlace ? 'kept' : 'draining', position, holder: undefined, holdId };
  if (keepPlace && end === 'client-gone') return { held: false, why: 'client-gone', position, holder: undefined };
  if (keepPlace) {
    // The first in line of an election leads, whatever its node says.
    const waiting = stays !== true && (await isHeadWaiting(context, line, hardDeadline));
    return { held: false, why: 'kept', position: waiting ? position + 1 : position, holder: undefined, holdId };
  }
  const left = await giveUp(
    context,
    line,
    place,
    request,
    end === 'deadline' ? hardDeadline : performance.now() + BACKGROUND_MS,
  );
  if (end !== 'deadline') return { held: false, why: end, position, holder: undefined };
  if (left === 'superseded') throw await taken(context, request, left);
  if (left === 'pending') throw new NoReplyError('the end of the wait', 'deadline', true);
  return refused(context, line, line.members[0], position, hardDeadline);
}

/** Positions are counted from the next to be granted: a head that does not hold has position 1 itself. */
async function isHeadWaiting(context: Coordination, line: Line, deadline: number): Promise<boolean> {
  const [head] = line.members;
  if (head === undefined) return false;
  const node = await unless(context.control.getData(`${line.path}/${head.name}`, deadline), 'NO_NODE').catch(
    (error: unknown) => {
      if (error instanceof NoReplyError) return undefined; // the place is kept all the same
      throw error;
    },
  );
  return node !== undefined && describeContender(head, node).state === 'waiting';
}

async function refused(
  context: Coordination,
  line: Line,
  head: Contender | undefined,
  position: number,
  deadline: number,
): Promise<NotGranted> {
  const reading = Promise.all([
    head === undefined ? undefined : unless(context.control.getData(`${line.path}/${head.name}`, deadline), 'NO_NODE'),
    line.directory?.delays === true
      ? findDelay(context, line.path, { standing: new Set(line.members.map(({ name }) => name)) }, deadline)
      : undefined,
  ]);
  const [node, locked] = await reading.catch((error: unknown) => {
    if (error instanceof NoReplyError) return []; // the refusal stands without the holder's name
    throw error;
  });
  const view = head === undefined || node === undefined ? undefined : describeContender(head, node);
  // While a delay runs the first in line may be one who waits for its end.
  const holder = locked !== undefined && view?.state === 'waiting' ? undefined : view;
  return { held: false, why: 'refused', position, holder, ...locked };
}

/** Somebody deleted my node, or wrote to it, while I waited. */
async function taken(
  context: Coordination,
  request: AcquireRequest,
  how: 'superseded' | 'lost',
): Promise<PosternError> {
  if (how === 'lost') await context.leases.touch(request.lease, request.hardDeadline); // throws when it is the lease that has ended
  return new PosternError(
    'conflict',
    how === 'lost'
      ? `The place in line for "${request.name}" was taken away while the lease lives; repeat the request to line up again.`
      : `Another request of this lease with the same requestId took over the place in line for "${request.name}".`,
  );
}

/** One-call acquires are found by a guid that does not depend on the lease: two tries at once make two leases, and the first in line stays. */
function hasRival(line: Line, place: Place, { guids }: AcquireRequest): boolean {
  if (guids.create === 'own') return false;
  return line.members.some(
    (member) => guidOf(member.name) === guids.shared && compareSequences(member.sequence, place.sequence) < 0,
  );
}

/** Whether the place of who is first is the hold as it stands: it was made so, and no delay can be running. */
function isHeld(line: Line, place: Place): boolean {
  return place.record.state === 'granted' && (line.rule.kind === 'semaphore' || line.directory?.delays !== true);
}

/** What has to be written before a hold is one. */
async function grantFirst(
  context: Coordination,
  line: Line,
  place: Place,
  deadline: number,
): Promise<Written | 'not-yet' | Locked> {
  if (line.rule.kind === 'semaphore') return grantPermits(context, line, place, deadline);
  if (place.record.state === 'waiting') return grant(context, line, place, deadline);
  return (await delayBefore(context, line, place, deadline)) ?? 'written';
}

/** What has to be written before anybody waits; nothing when the node was made so. */
async function keepWaiting(context: Coordination, place: Place, request: AcquireRequest): Promise<Written> {
  if (place.record.state === 'waiting') return 'written';
  const { receivedAt, waitMs, hardDeadline, stays } = request;
  if (stays === true) return place.write({ state: 'waiting' }, hardDeadline);
  return place.write({ state: 'waiting', waitUntil: atEnsemble(context, receivedAt + waitMs) }, hardDeadline);
}

/** A point on the monotonic clock as the ensemble's clock will show it; never one that has passed. */
function atEnsemble({ zooKeeperClock }: Coordination, deadline: number): number {
  return Math.round(zooKeeperClock.now() + Math.max(0, deadline - performance.now()));
}

/**
 * Gives the place up, if it is still this attempt's. A lease that was made for this try ends with it; the place is condemned
 * first, so that no repetition of the call goes on with a lease that is about to end.
 */
async function giveUp(
  context: Coordination,
  line: Line | undefined,
  place: Place,
  { endLease }: AcquireRequest,
  deadline: number,
): Promise<'gone' | 'superseded' | 'pending'> {
  if (endLease === undefined) {
    const left = await place.leave(deadline);
    // Struck from the list only when it is gone: a place that another attempt took over still counts.
    if (left === 'gone') line?.remove(place);
    return left;
  }
  const left = await place.condemn(atEnsemble(context, deadline), deadline);
  if (left !== 'condemned') return left;
  if (!(await endLease(deadline))) return 'pending'; // it lapses
  line?.remove(place);
  return 'gone';
}

async function giveBack(
  context: Coordination,
  directory: string,
  place: Place,
  request: AcquireRequest,
): Promise<void> {
  if (request.stays === true) return;
  context.granted.forget(place.path, place.record.leaseId);
  const deadline = performance.now() + BACKGROUND_MS;
  if (!request.keepPlace) {
    await giveUp(context, context.lines.peek(directory), place, request, deadline);
    return;
  }
  const waitUntil = atEnsemble(context, performance.now() + ABANDONED_GRACE_MS);
  await place
    .write({ state: 'waiting', waitUntil }, deadline)
    .catch(() => place.leave(performance.now() + BACKGROUND_MS));
}
