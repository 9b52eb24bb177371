/**
 * Gets a place in line, exactly one, however often the request is repeated and wherever it is cut off.
 *
 * Reading order: `request.ts`; this; `joining.ts` (what the others share); `create.ts`; `adopt.ts`.
 *
 * 1. When nobody waits here for this name: create my node as `granted`, and list, in one round trip (a session's
 *    requests are answered in order, so the listing shows my node). First in line: held, after one write. Where this
 *    replica saw the lock become free, nothing is listed: the number that the node is given says whether it is first
 *    (`known-free.ts`). When requests of this replica wait already, the node is created as `waiting`, and the listing
 *    is one that all joiners of the moment share.
 * 2. The listing shows an older node under my guid: an earlier try of this request made it. That one is my place, and I
 *    *adopt* it.
 * 3. After a lost connection: attach, raise the fence of the lease (protocol C46), list, and create only if there is
 *    nothing under my guid.
 * 4. With `waitMs: 0` the line is looked at first, and nothing is created when somebody stands in it; except where this
 *    replica saw the lock become free, and nobody else has been seen since. It is looked at first also where this
 *    replica has read that the lock is taken by priority, and the request has none: a place would be a use of the lock.
 *
 * A contender with a lock-delay is always created as `waiting`, and so is everybody where a delay may be running: their
 * grants are transactions (`grant.ts`). So is the place of a reservation, which is not removed with its lease: one that
 * nobody asks for any more is abandoned (protocol C56).
 *
 * In the line of a pool the node is created as `waiting`, and stays so: what is granted is elsewhere.
 *
 * For a semaphore:
 *
 * - The node is always created as `waiting`; its grant checks the limit in the same transaction (`grant.ts`).
 * - The directory is made with the limit of who comes first. Everybody else compares (`permits/permit-terms.ts`). A
 *   limit that differs is read once more after a `sync` before it is refused, and whoever has a place already keeps it:
 *   a request that is repeated after the limit was changed goes on.
 *
 * The guid is derived from the lease's secret, so a node of that name is this session's (CURATOR-498). The one that a
 * one-call acquire uses is not: there the record must name this lease.
 */
import {
  ClientGoneError,
  InvalidError,
  isPosternError,
  LeaseExpiredError,
  PosternError,
  StandingConflictError,
} from '../../../errors.js';
import { isTransient, mayBeApplied, NoReplyError } from '../../../zookeeper/errors.js';
import type { LeaseSession } from '../../../zookeeper/lease-session.js';
import type { Stat } from '../../../zookeeper/operations.js';
import { baseName } from '../../../zookeeper/paths.js';
import type { Coordination } from '../../coordination.js';
import { removeIfAbandoned } from '../abandoned.js';
import { newAttempt, numberOf, parseContender, withState, type Contender, type ContenderRecord } from '../contender.js';
import { tellOfDelays } from '../delay/end-lease.js';
import { findDelay } from '../delay/lock-delay.js';
import type { SeenDirectory } from '../directory.js';
import { mayProve, proves } from '../known-free.js';
import type { Line } from '../line.js';
import { obstacle } from '../rule.js';
import { PLACES_END } from '../worn-directory.js';
import { adopt, removeDuplicates } from './adopt.js';
import { createNode } from './create.js';
import { Joining, LOOK_AGAIN, type LookAgain, type Trace } from './joining.js';
import type { JoinRequest, Joined, Placed } from './request.js';

export async function join(context: Coordination, line: Line, request: JoinRequest): Promise<Joined> {
  const { lease, hardDeadline } = request;
  const trace: Trace = { attempt: newAttempt(), wrote: false };
  const joinOn = async (session: LeaseSession, attempt: number): Promise<Joined> => {
    const joining = new Joining(context, line, request, session, trace);
    const told = request.lockDelayMs > 0 ? tellOfDelays(context, session.until(hardDeadline), lease) : undefined;
    told?.catch(() => undefined); // awaited below; here the other requests may fail first
    const free = isKnownFree(joining);
    for (let look = attempt > 0 || (onlyIfFree(request) && !free) || mayBeOutOfOrder(joining); ; look = true) {
      const looks =
        look || request.hasTurn === true || (request.permits !== undefined && !(await joining.terms.agree()));
      let joined: Joined | LookAgain;
      try {
        joined = looks ? await lookThenCreate(joining) : await create(joining);
      } catch (error) {
        trace.wrote ||= mayBeApplied(error);
        // The place of an earlier try of this request is answered again all the same.
        if (looks || !isPosternError(error, 'too-many-holds')) throw error;
        continue;
      }
      if (joined !== LOOK_AGAIN) {
        if (joined.how === 'placed' && !joined.alreadyHeld && isOutOfOrder(joining)) await leaveOrder(joining, joined);
        if (told !== undefined) await told;
        return joined;
      }
      if (performance.now() > hardDeadline)
        throw new PosternError(
          'conflict',
          `The place in line for "${request.name}" changed hands while it was taken; repeat the request.`,
        );
    }
  };
  try {
    return await context.leases.sessions.useRepeatedly(lease, hardDeadline, joinOn, request.requester);
  } catch (error) {
    const maybePlaced = trace.wrote || mayBeApplied(error);
    // Where there never was a place, no repetition finds the lease that was made for this try.
    if (leavesNothing(error) || (error instanceof ClientGoneError && !maybePlaced))
      await request.endLease?.(hardDeadline);
    const expired = error instanceof LeaseExpiredError;
    // The place of a reservation does not go with the lease.
    if (!maybePlaced || (expired && request.reservation === undefined)) throw error;
    const { own, shared } = request.guids;
    const guids = shared === undefined ? [own] : [own, shared];
    // After a conflict there is nothing to come back for: what was wanted kept is not what this attempt made. Nor is
    // there after the end of the lease.
    const keeps = request.keepPlace && !expired && !isPosternError(error, 'conflict');
    if (!keeps || request.stays !== true)
      context.cleanup.endAttempt(line.path, guids, trace.attempt, {
        fence: context.layout.lease(lease.namespace, lease.leaseId),
        heldBefore: trace.heldBefore,
        keptUntil: keeps ? Math.round(context.zooKeeperClock.now()) : undefined,
      });
    if (!isTransient(error) || mayBeApplied(error)) throw error;
    throw new NoReplyError('the place in line', 'connection-lost', true, error);
  }
}

/** Whether a request that failed so has no place: its terms were refused, or its name would be one too many. */
export function leavesNothing(error: unknown): boolean {
  if (error instanceof StandingConflictError || error instanceof InvalidError) return true;
  return isPosternError(error, 'too-many-names');
}

/** Whether the lock is taken by priority, and the request has come without one. What is held stays held. */
function isOutOfOrder(joining: Joining): boolean {
  return joining.line.directory?.byPriority === true && comesByArrival(joining);
}

/** As far as this replica knows. */
function mayBeOutOfOrder(joining: Joining): boolean {
  const { context, line } = joining;
  return comesByArrival(joining) && (line.directory?.byPriority ?? context.lines.wasByPriority(line.path));
}

function comesByArrival({ line, request }: Joining): boolean {
  return line.kind === 'lock' && line.rule.isRoom !== true && request.hasTurn !== true;
}

function outOfOrder({ name }: JoinRequest): StandingConflictError {
  return new StandingConflictError(
    `Lock "${name}" is taken by priority: give a \`priority\`. Its order is forgotten when nobody has asked for it for an hour.`,
  );
}

/**
 * Gives up a place that stands out of order. A repetition may have taken it over, and been told that it holds: then it
 * stays.
 */
async function leaveOrder({ request, trace }: Joining, { place }: Placed): Promise<never> {
  const left = await place.leave(request.hardDeadline);
  if (left === 'pending') throw new NoReplyError('the place in line', 'deadline', true);
  trace.wrote = false;
  if (left === 'gone') throw outOfOrder(request);
  throw new PosternError(
    'conflict',
    `Another request of this lease with the same requestId took over the place in line for "${request.name}".`,
  );
}

/** The caller does not wait and does not want to be left in line. */
function onlyIfFree({ waitMs, keepPlace }: JoinRequest): boolean {
  return waitMs === 0 && !keepPlace;
}

/** Whether this replica saw the lock become free, and knows of nobody in front. */
function isKnownFree(joining: Joining): boolean {
  return mayBeFirst(joining) && joining.context.freeLines.has(joining.line.path);
}

/** Whether a place may be first by its number alone: in a lock, if nothing else has to be checked. */
function mayBeFirst({ line, record, request }: Joining): boolean {
  return (
    line.kind === 'lock' &&
    request.guids.create === 'own' &&
    record.state === 'granted' &&
    line.waiters.size === 0 &&
    line.directory?.delays !== true
  );
}

async function lookThenCreate(joining: Joining): Promise<Joined | LookAgain> {
  const { context, line, request, session, terms } = joining;
  const { mode, permits, hardDeadline } = request;
  const { path } = line;
  for (;;) {
    const [, listed] = await Promise.all([session.sync(path, hardDeadline), joining.list()]);
    const own = await joining.own(listed);
    if (own.length > 0) return adopt(joining, listed, own);
    if (request.hasTurn === true)
      throw new PosternError('conflict', `The place in line for "${request.name}" was taken away; repeat the request.`);
    // Where there is no directory any more, what is known of it may be old.
    if (isOutOfOrder(joining) && (await line.readDirectory(hardDeadline))?.byPriority === true)
      throw outOfOrder(request);
    if (!(await terms.agree())) throw terms.refusal();
    const reads = mode === 'read';
    const head = obstacle(line.rule, listed, { reads, permits: permits?.count });
    if (!onlyIfFree(request)) return create(joining);
    if (head === undefined) {
      if (line.directory?.delays !== true) return create(joining);
      const locked = await findDelay(context, context.control.until(hardDeadline), path, { reads, zxid: line.zxid });
      return locked === undefined ? create(joining) : { how: 'refused', head: undefined, ...locked };
    }
    if ((await isInNobodysWay(joining)) || !(await removeIfAbandoned(context, path, head, hardDeadline)))
      return { how: 'refused', head };
  }
}

/** Whether whoever is first is so in a room: nobody waits for it while somebody stands in the line. */
async function isInNobodysWay({ context, line, request }: Joining): Promise<boolean> {
  if (line.rule.isRoom !== true) return false;
  const { lease, name, hardDeadline } = request;
  const standing = await context.control
    .until(hardDeadline)
    .children(context.layout.line('lock', lease.namespace, name));
  return standing.length > 0;
}

async function create(joining: Joining): Promise<Joined | LookAgain> {
  const { context, line, request, trace } = joining;
  const crowded = line.waiters.size > 0;
  const startedAt = performance.now();
  const free = mayBeFirst(joining) ? context.freeLines.take(line.path) : undefined;
  const record = newRecord(joining, crowded);
  const creating = createNode(joining, record);
  const listing = crowded || (free !== undefined && mayProve(free)) ? undefined : joining.list();
  listing?.catch(() => undefined);
  const outcome = await creating;
  if (outcome === LOOK_AGAIN) {
    await listing?.catch(() => undefined);
    return LOOK_AGAIN;
  }
  const { created, directory } = outcome;
  trace.wrote = true;
  const mine = parseContender(baseName(created.path));
  if (mine === undefined || numberOf(mine) >= PLACES_END) {
    await listing?.catch(() => undefined);
    return joining.giveUpWorn(created.path);
  }
  const firstEver = directory !== undefined;
  if (firstEver) line.merge([mine], created.stat.czxid, directory);
  const place = joining.placeAt(mine, created.stat, record);
  // Nobody can be ahead of sequence 0 in a directory that was made in the same transaction.
  if (firstEver) return joining.placed(place, true, seen(line, startedAt, created.stat.ctime));
  if (free !== undefined && proves(free, { sequence: mine.sequence, ctime: created.stat.ctime })) {
    line.merge([mine], created.stat.czxid);
    line.directory ??= free.seen?.directory;
    return joining.placed(place, true, free.seen);
  }
  let listed: readonly Contender[];
  if (crowded && follows(joining, mine, created.stat)) {
    line.append(mine, created.stat.czxid);
    listed = line.members;
  } else if (crowded) {
    await line.refresh(place.czxid, request.hardDeadline);
    listed = line.members;
    if (line.listedZxid >= place.czxid) line.seen = seen(line, startedAt, created.stat.ctime);
  } else {
    listed = await (listing ?? joining.list());
    // The directory was made after the listing had been sent.
    if (!listed.some(({ name }) => name === mine.name)) listed = await joining.list();
    line.seen = seen(line, startedAt, created.stat.ctime);
  }
  const own = await joining.own(listed, mine.name);
  const [lowest] = own;
  if (lowest === undefined) return LOOK_AGAIN; // taken away in between
  // What is known of a crowded line may be older than a delay that has begun since: who is first is found by a listing.
  if (lowest.name !== mine.name) return adopt(joining, crowded ? await joining.list() : listed, own);
  await removeDuplicates(joining, own);
  const seenNow = crowded ? undefined : seen(line, startedAt, created.stat.ctime);
  return joining.placed(place, joining.admitted(listed, mine), seenNow);
}

/** The record of a new node: `granted` if that is to count should it turn out to be first. */
function newRecord(joining: Joining, crowded: boolean): ContenderRecord {
  const { context, line, record } = joining;
  return crowded || record.state === 'waiting' || line.directory?.delays === true
    ? joining.waiting(record)
    : withState(record, 'granted', { grantedAt: context.zooKeeperClock.now() });
}

/**
 * Whether the number of a new place is the one after that of the last who is known: then nobody stands between, and the
 * line is known.
 */
function follows({ line, request }: Joining, { sequence }: Contender, { ctime }: Stat): boolean {
  const { members, seen } = line;
  const last = members.at(-1);
  if (line.kind !== 'lock' || line.rule.isRoom === true || request.guids.create !== 'own' || last === undefined)
    return false;
  return proves({ sequence: last.sequence, seen }, { sequence, ctime });
}

function seen({ directory }: Line, since: number, ensembleSince: number): SeenDirectory | undefined {
  return directory === undefined ? undefined : { directory, since, ensembleSince };
}
