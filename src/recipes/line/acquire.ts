/**
 * Acquires: joins the line, is first or waits to be, and leaves nothing behind if it fails.
 *
 * How a request ends, and what happens to its place:
 *
 *   granted                      the place is the hold
 *   refused, waited in vain,
 *   its credential has ended     given up; with `keepPlace` kept, and the same request goes on with it anywhere
 *   client gone                  given up; with `keepPlace` kept
 *   draining                     kept, so that a rolling restart loses nobody's place; one of many (`oneOfMany`) is
 *                                given up
 *                                (what is kept before its wait is over says that it is now: nobody is waiting, so it
 *                                may be abandoned)
 *   superseded                   another attempt of the same client has it: not ours to touch; also where it came
 *                                before this one stood again
 *   lost                         it was taken away while the lease lives: 409 `conflict`
 *   lease ended                  ZooKeeper has removed it
 *   outcome unknown              deleted in the background unless the client comes back for it first
 *
 * A grant whose answer cannot be delivered is given back (`Granted.undelivered`); with `keepPlace` it becomes a waiting
 * place again, which the repeated request turns into the hold.
 */
import { isPosternError, LeaseExpiredError, PosternError } from '../../errors.js';
import { ROOM } from '../../leases/layout.js';
import type { AcquireOutcome, Kind } from '../../metrics/metrics.js';
import type { Caller, EndReason } from '../../time.js';
import { isTransient, NoReplyError, orUnknown, unless } from '../../zookeeper/errors.js';
import { ABANDONED_GRACE_MS } from './abandoned.js';
import { isNamed, type Contender } from './contender.js';
import type { Coordination } from '../coordination.js';
import { describeContender, type ContenderView } from './describe.js';
import { hasMark } from './delay/mark.js';
import { grantFirst, isHeld, standBack } from './grant.js';
import { join } from './join/join.js';
import type { JoinRequest, Placed } from './join/request.js';
import type { Assign, Line } from './line.js';
import { findDelay, type Locked } from './delay/lock-delay.js';
import { againIfOvertaken, forgetNotice } from './revocation/record.js';
import { LineWaiter, type WaitEnd } from './waiter.js';
import type { Place, Written } from './place.js';

export interface AcquireRequest extends JoinRequest {
  /** A place that is of use only together with others: never left in line. */
  oneOfMany?: boolean | undefined;
  /**
   * Candidates of elections: the place is never abandoned (protocol C3), so it carries no `waitUntil`; and a grant that
   * could not be delivered is not taken back, because who is first leads whether it knows or not.
   */
  stays?: boolean | undefined;
  /** Of elections and rooms: what is done for a place that is not the first, before it waits. `lost`: it is gone. */
  advance?: ((place: Place, line: Line) => Promise<'written' | 'lost'>) | undefined;
  /** Of pools, and of rooms: what the turn gives, and what removes the place with it. */
  assign?: Assign | undefined;
  /** Until when work for the request may go on after its wait has ended, monotonic. */
  hardDeadline: number;
  requester: Caller;
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
  /** As `undelivered`. By the deadline (default: in 10 s) it says whether it is done; if not, it goes on. */
  giveBack: (deadline?: number) => Promise<boolean>;
}

export interface NotGranted {
  held: false;
  /** `rival`: another try of the same one-call acquire, with a lease of its own, came first. */
  why: 'refused' | 'kept' | 'draining' | 'client-gone' | 'rival';
  /** How many stand before; when the place was given up, how many did. */
  position: number;
  holder: ContenderView | undefined;
  /** The first in line, where it has not been granted yet: nobody holds. */
  next?: ContenderView | undefined;
  /** Epoch ms on the ensemble's clock, while a lock-delay runs. */
  lockedUntil?: number;
  /** Only if the place was kept. */
  holdId?: string;
}

const BACKGROUND_MS = 10_000;
/** For so long an answer waits for what is written to a place that is kept. */
const END_WAIT_MS = 2_000;

/** @throws LeaseExpiredError, PosternError `conflict` (the place was taken away or over), NoReplyError */
export async function acquire(
  context: Coordination,
  kind: Kind,
  directory: string,
  request: AcquireRequest,
): Promise<Granted | NotGranted> {
  const count = (outcome: AcquireOutcome): void => context.metrics.acquireTotal.inc({ kind, outcome });
  const line = context.lines.enter(directory, request.priority === undefined ? kind : ROOM);
  try {
    const result = await acquireIn(context, line, request);
    if (result.held) {
      // What has had its turn was counted there.
      if (request.hasTurn === true) return result.granted;
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

async function acquireIn(context: Coordination, line: Line, request: AcquireRequest): Promise<Ended> {
  const { lease, waitMs, hardDeadline, receivedAt } = request;
  const joined = await join(context, line, request);
  if (joined.how === 'refused') {
    await request.endLease?.(hardDeadline);
    if (hasRival(line, request)) return RIVAL;
    if (joined.head !== undefined) return refused(context, line, joined.head, 0, hardDeadline);
    return { held: false, why: 'refused', position: 0, holder: undefined, lockedUntil: joined.lockedUntil };
  }
  if (joined.how === 'superseded') throw await taken(context, request, joined.how);
  const { place } = joined;
  await forgetNotice(context, request, hardDeadline);
  let end: WaitEnd = 'deadline';
  try {
    // Before anything else: where holds are shared, this place would be one beside the rival's.
    // A hold that was answered as held stays.
    if (!joined.alreadyHeld && hasRival(line, request, place)) {
      const left = await giveUp(context, line, place, request, hardDeadline);
      if (left === 'superseded') throw await taken(context, request, left);
      return RIVAL;
    }
    // Among others of this replica the node is made as `waiting`; they may all have gone by now.
    let first: Written | 'not-yet' | Locked = 'not-yet';
    if (joined.first) first = isHeld(line, place) ? 'written' : await grantFirst(context, line, place, request);
    if (first === 'written') return granted(context, line, request, joined, false);
    // A place that says `granted` while a lock-delay runs was never a hold (`lock-delay.ts`).
    if (typeof first === 'object') joined.alreadyHeld = false;
    const failed = first === 'superseded' || first === 'lost' ? first : undefined;
    const stands = failed ?? (await keepWaiting(context, line, place, request));
    if (stands !== 'written') end = stands;
    else if (waitMs > 0) {
      const waiter = new LineWaiter(context, line, lease, place, joined.expiresAt);
      const bounds = { deadline: receivedAt + waitMs, hardDeadline, caller: request.requester, assign: request.assign };
      end = await waiter.wait(bounds);
      joined.expiresAt = waiter.expiresAt;
    }
  } catch (error) {
    // ZooKeeper did not answer: the place goes as soon as it can be said, unless it was a hold before.
    if (!joined.alreadyHeld && !(error instanceof LeaseExpiredError) && !isPosternError(error, 'conflict'))
      void giveBack(context, line.path, place, request);
    // The place stands until that is done.
    return orUnknown(Promise.reject(error as Error));
  }
  if (end === 'granted') return granted(context, line, request, joined, true);
  const again = end === 'lost' ? await againIfOvertaken(context, place, request, hardDeadline) : undefined;
  if (again !== undefined) {
    line.remove(place);
    return acquireIn(context, line, again);
  }
  if (end === 'superseded' || end === 'lost') throw await taken(context, request, end);
  return withoutGrant(context, line, place, request, end);
}

/** The place is the hold. */
function granted(
  context: Coordination,
  line: Line,
  request: AcquireRequest,
  { place, seen, alreadyHeld, expiresAt }: Placed,
  waited: boolean,
): Ended {
  // A hold from before this request stays held: an earlier answer may have told the client of it.
  const back = alreadyHeld
    ? () => Promise.resolve(true)
    : (deadline?: number) => giveBack(context, line.path, place, request, deadline);
  const { path, czxid, record, version } = place;
  const known = { marked: hasMark(record), version, seen };
  // One that may be downgraded is released with its reader's place, which its data tell of.
  if (request.assign === undefined && record.downgradable !== true)
    context.granted.remember(path, request.lease.leaseId, czxid, line.directory?.removable !== true, known);
  return {
    held: true,
    waited,
    granted: {
      held: true,
      holdId: place.holdId,
      fencingToken: place.czxid,
      alreadyHeld,
      waitedMs: Math.max(0, Math.round(performance.now() - request.receivedAt)),
      expiresAt,
      undelivered: () => void back(),
      giveBack: back,
    },
  };
}

async function withoutGrant(
  context: Coordination,
  line: Line,
  place: Place,
  request: AcquireRequest,
  end: 'deadline' | EndReason,
): Promise<NotGranted> {
  const { keepPlace, oneOfMany, stays, hardDeadline } = request;
  const position = line.positionOf(place);
  const { holdId } = place;
  const drained = end === 'draining' && oneOfMany !== true;
  if (drained || (keepPlace && end !== 'deadline')) await endWaitNow(context, place, request);
  if (drained) return { held: false, why: keepPlace ? 'kept' : 'draining', position, holder: undefined, holdId };
  if (keepPlace && end === 'client-gone') return { held: false, why: 'client-gone', position, holder: undefined };
  if (keepPlace) {
    // The first in line of an election leads, whatever its node says.
    const mayHold = stays !== true && line.rule.isRoom !== true;
    const waiting = mayHold && (await isHeadWaiting(context, line, hardDeadline));
    return { held: false, why: 'kept', position: waiting ? position + 1 : position, holder: undefined, holdId };
  }
  const left = await giveUp(
    context,
    line,
    place,
    request,
    end === 'deadline' || end === 'refused' ? hardDeadline : performance.now() + BACKGROUND_MS,
  );
  // The repetition that has it now wants what there is for it to stay.
  if (left === 'superseded') throw await taken(context, request, left);
  if (end === 'client-gone' || end === 'draining') return { held: false, why: end, position, holder: undefined };
  if (left === 'pending') throw new NoReplyError('the end of the wait', 'deadline', true);
  if (end === 'refused') return { held: false, why: 'refused', position, holder: undefined };
  return refused(context, line, line.members[0], position, hardDeadline);
}

/**
 * The wait of a place that is kept is over before the end that it announced: from now on it has the same time to be
 * asked for again as any other, and no longer (protocol C3). A repetition that has taken it over meanwhile has
 * announced an end of its own.
 */
async function endWaitNow(context: Coordination, place: Place, { stays }: AcquireRequest): Promise<void> {
  if (stays === true) return;
  const waitUntil = atEnsemble(context, performance.now());
  const write = (): Promise<Written> => place.write({ state: 'waiting', waitUntil }, performance.now() + END_WAIT_MS);
  await write().catch(() => context.cleanup.persist(write));
}

/** Positions are counted from the next to be granted: a head that does not hold has position 1 itself. */
async function isHeadWaiting(context: Coordination, line: Line, deadline: number): Promise<boolean> {
  const [head] = line.members;
  if (head === undefined) return false;
  const node = await unless(context.control.getData(`${line.path}/${head.name}`, deadline), 'NO_NODE').catch(
    (error: unknown) => {
      if (isTransient(error)) return undefined; // the place is kept all the same
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
  const zk = context.control.until(deadline);
  const reading = Promise.all([
    head === undefined ? undefined : zk.find(`${line.path}/${head.name}`),
    line.directory?.delays === true
      ? findDelay(context, zk, line.path, { standing: new Set(line.members.map(({ name }) => name)) })
      : undefined,
  ]);
  const [node, locked] = await reading.catch((error: unknown) => {
    if (isTransient(error)) return []; // the refusal stands without the holder's name
    throw error;
  });
  const view = head === undefined || node === undefined ? undefined : describeContender(head, node);
  // Who is first may not have been granted yet: it waits for the end of a delay, or nobody has asked for its place
  // since it came to be first.
  if (view?.state === 'waiting' && !line.rule.leads)
    return { held: false, why: 'refused', position, holder: undefined, next: view, ...locked };
  return { held: false, why: 'refused', position, holder: view, ...locked };
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

const RIVAL: NotGranted = { held: false, why: 'rival', position: 0, holder: undefined };

/**
 * One-call acquires are found by a guid that does not depend on the lease: two tries at once make two leases, and the
 * first in line stays.
 * @param place absent: this try has none
 */
function hasRival(line: Line, { guids }: AcquireRequest, place?: Place): boolean {
  const { create, shared } = guids;
  if (create === 'own' || shared === undefined) return false;
  return line.members.some(
    ({ name, sequence }) => isNamed(name, shared) && (place === undefined || sequence < place.sequence),
  );
}

/** What is written before the wait: no state if the node was created as `waiting`. @returns as `standBack` */
async function keepWaiting(
  context: Coordination,
  line: Line,
  place: Place,
  { receivedAt, waitMs, hardDeadline, stays, advance }: AcquireRequest,
): Promise<Written | 'granted'> {
  if (place.record.state !== 'waiting') {
    const until = stays === true ? {} : { waitUntil: atEnsemble(context, receivedAt + waitMs) };
    const written = await standBack(context, line, place, until, hardDeadline);
    if (written !== 'written') return written;
  }
  return (await advance?.(place, line)) ?? 'written';
}

/** A point on the monotonic clock as the ensemble's clock will show it; never one that has passed. */
function atEnsemble({ zooKeeperClock }: Coordination, deadline: number): number {
  return Math.round(zooKeeperClock.now() + Math.max(0, deadline - performance.now()));
}

/**
 * Gives the place up, if it is still this attempt's. A lease that was made for this try ends with it; the place is
 * condemned first, so that no repetition of the call goes on with a lease that is about to end.
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
  const ended = await endLease(deadline);
  if (ended) line?.remove(place);
  else await place.leave(deadline); // the lease lapses, and nobody waits for that
  return ended ? 'gone' : 'pending';
}

async function giveBack(
  context: Coordination,
  directory: string,
  place: Place,
  request: AcquireRequest,
  deadline = performance.now() + BACKGROUND_MS,
): Promise<boolean> {
  if (request.stays === true) return true;
  context.granted.forget(place.path, place.record.leaseId);
  if (!request.keepPlace)
    return (await giveUp(context, context.lines.peek(directory), place, request, deadline)) !== 'pending';
  const waitUntil = atEnsemble(context, performance.now() + ABANDONED_GRACE_MS);
  const written = place.write({ state: 'waiting', waitUntil }, deadline);
  return (await written.catch(() => place.leave(performance.now() + BACKGROUND_MS))) !== 'pending';
}
