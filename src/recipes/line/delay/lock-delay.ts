/**
 * Lock-delay: how long after the loss of a hold nobody is granted what it excluded (protocol C16). A holder whose lease
 * ended may not have noticed; where the resource checks no fencing token, the delay gives it time to stop.
 *
 * Guarantee: after an involuntary loss (the lease expired) nobody of ours is granted, in any replica, what the lost
 *   hold excluded, before the delay has passed since `lostAt`, also where the clocks of ZooKeeper's servers disagree;
 *   then the line goes on in its order. A lost writer keeps everybody out, a lost reader writers only: it stands in the
 *   line as if it were still there. Never after a release, a give-up, a break, or the end of the lease by its owner or
 *   an administrator; never for a place that was only waiting.
 * Not guaranteed: that the delay is no longer if the leader has changed since: a later contender then waits for all of
 * it. That other clients (Curator's) wait for it. That `lostAt` is the moment of the loss: it is the moment of its
 * discovery, by a request for the lock, a look at it, or housekeeping; always later than the loss, by a minute or two
 * if nobody wants the lock.
 *
 * Layout:  <root>/ns/<namespace>/lock-delays/<kind>s/<name>/<holdId>      persistent; data = the delay; see `mark.ts`
 *          <root>/ns/<namespace>/lock-delays/leases/<leaseId>             ephemeral: the lease asked for delays
 *                                                                         (`end-lease.ts`)
 *
 *   grant ──▶ version 0: standing ──release, give-back, break, DELETE lease: in one transaction with the node──▶ gone
 *                  └── node gone with its session; who finds that writes ──▶ version 1: lost since its mtime
 *                                                                                          └──delay──▶ gone
 *
 * Step by step, and what a crash after each leaves:
 *
 * 1. A contender with a delay is always created as `waiting`. A crash, or the end of its session, leaves no mark.
 * 2. *Grant*: one transaction writes `granted`, creates the mark, and sees to it that the directory says that delays
 *    are in use (`line/directory.ts`). A crash after it leaves a hold that its client was not told of; its loss is
 *    delayed like any other.
 * 3. *Deliberate end*: whatever deletes the node or writes `waiting` over `granted` deletes the mark in the same
 *    transaction; so does the hand-off, which also creates the next one's mark. Nothing is in between.
 * 4. *Loss*: the session ends, the node goes, the mark stays. Nobody needs to be alive for it.
 * 5. *Discovery*: a request that would be granted, is refused, or just looks lists the marks, and sees one at version 0
 *    whose node is gone: it writes at that version, and the mtime is `lostAt`. Of many finders one writes; the others
 *    read what it wrote. A crash before: the next one finds it. After: everybody continues the same delay.
 * 6. *Waiting*: the first in line sleeps until the end, which any replica computes from the mark. It dies: its client
 *    repeats the request elsewhere, or the next in line finds itself first, reads the mark, and sleeps until the same
 *    moment.
 * 7. *The end* (C40): the replica that discovered the loss waits for the delay on its own monotonic clock, whatever the
 *    ensemble's says. A later one may go by the ensemble's clock, which a write tells (`zookeeper/ensemble-time.ts`),
 *    but only while the leader is the one that stamped the mark (the epoch of both transactions): it measured both
 *    times with one clock. Otherwise it waits for the delay from when it saw the mark. Then the mark is deleted at its
 *    version, and the grant follows. A crash in between: nothing is left, or a mark whose time has passed.
 *
 * Why a grant misses no mark. Every contender that a grant would conflict with stood before it and is gone; their marks
 * are older than that. So the marks listed by a server that has seen them go are complete for this grant, forever. They
 * are listed only where the directory says so; and what it says is as new as the listing that showed me as the first,
 * or is checked, by its version, in the transaction of my grant. A directory that a server removed (Curator's) is made
 * anew in a transaction that fails if there are marks of its name (`join/create.ts`).
 *
 * Why a mark is never taken for lost wrongly. It is newer than its node: a server that shows the mark and not the node
 * has seen the node go. If the node was deleted deliberately, the mark went with it, and the write at version 0 fails.
 *
 * A node that was created as `granted`, and whose request has not found the running delay yet or is cut off before it
 * can write `waiting`, counts for nothing: no real grant can coexist with a running delay that excludes it. So a
 * repeated request treats it as a place, and code that shows or checks a holder asks for such a delay first
 * (`delayBeside`).
 */
import { lockDelaysOf } from '../../../leases/layout.js';
import type { BoundClient } from '../../../zookeeper/bound.js';
import { askTime, type TimeContext } from '../../../zookeeper/ensemble-time.js';
import { isReason, unless } from '../../../zookeeper/errors.js';
import type { NodeData, Stat } from '../../../zookeeper/operations.js';
import { retrying } from '../../../zookeeper/retrying.js';
import type { ServerClock } from '../../../zookeeper/server-clock.js';
import { decodeHoldId, holdNodeName, type Contender, type Hold } from '../contender.js';
import { decodeMark, MARK_LOST, MARK_STANDING } from './mark.js';
import type { Line } from '../line.js';
import type { KnownLoss, LostHolds } from './lost-holds.js';
import type { Place } from '../place.js';

/** As Consul's limit. */
export const LOCK_DELAY_MAX_MS = 60_000;

/** How much later than its stamp something was found here. */
const CLOCKS_AGREE_MS = 1_000;

export interface DelayContext extends TimeContext {
  lostHolds: LostHolds;
}

/** Nobody is granted until then: epoch ms on the ensemble's clock. */
export interface Locked {
  lockedUntil: number;
}

export interface DelaysSought {
  /** Of somebody who only reads, the delays of those who did the same do not matter. */
  reads?: boolean;
  /** How new the marks have to be. */
  zxid?: number;
  /** Not these: nodes that are known to stand. */
  standing?: ReadonlySet<string>;
  /** Not this one. */
  holdId?: string;
}

/**
 * The delay that keeps a place from being granted, although the line admits it; a lost connection costs no place. Where
 * no delays are in use this asks nobody.
 * @param line must show the state in which all before the place are gone
 */
export async function delayBefore(
  context: DelayContext,
  line: Line,
  place: Place,
  deadline: number,
): Promise<Locked | undefined> {
  if (line.directory?.delays !== true) return undefined;
  const { reads, holdId, czxid } = place;
  const sought = { reads, holdId, zxid: Math.max(line.zxid, czxid) };
  const zk = context.control.until(deadline);
  return retrying(deadline, () => findDelay(context, zk, line.path, sought));
}

/**
 * The delay beside which it does not count that the first in line say `granted`, as they do where their replica does
 * not know yet that one runs. Of other clients it counts: they wait for no delay.
 * @param zxid of the listing that showed `line`
 */
export function delayBeside(
  context: DelayContext,
  zk: BoundClient,
  directory: string,
  line: readonly Contender[],
  zxid: number,
): Promise<Locked | undefined> {
  const standing = new Set(line.map(({ name }) => name));
  return findDelay(context, zk, directory, { reads: line[0]?.reads === true, standing, zxid });
}

/**
 * The delay in a line that ends last. Marks whose holds are found lost are written, those whose time has passed
 * removed.
 */
export async function findDelay(
  context: DelayContext,
  zk: BoundClient,
  directory: string,
  { reads = false, zxid = 0, standing, holdId }: DelaysSought,
): Promise<Locked | undefined> {
  const { marks, seen } = await listMarks(context, directory, zxid, zk.deadline);
  const relevant = marks.filter(
    (mark) =>
      mark.holdId !== holdId &&
      !(reads && mark.hold.prefix === '__READ__') &&
      standing?.has(holdNodeName(mark.hold)) !== true,
  );
  const ends = await Promise.all(relevant.map((mark) => endOf(context, zk, directory, mark, seen)));
  const running = ends.filter((end) => end !== undefined);
  return running.length === 0 ? undefined : { lockedUntil: Math.max(...running) };
}

interface Mark {
  holdId: string;
  hold: Hold;
}

/**
 * After a `sync`: that those before a waiter are gone it may have learned from a server that its session has left
 * since.
 * @returns the marks, and how new a server's state is that shows them all
 */
async function listMarks(
  { control }: DelayContext,
  directory: string,
  zxid: number,
  deadline: number,
): Promise<{ marks: Mark[]; seen: number }> {
  const path = lockDelaysOf(directory);
  for (;;) {
    const [, listing] = await Promise.all([
      control.sync(path, deadline),
      control.getChildren(path, deadline).catch((error: unknown) => {
        if (!isReason(error, 'NO_NODE')) throw error;
        return { children: [], zxid: error.zxid };
      }),
    ]);
    // The leader answers a `sync` before it has applied what a follower has already answered.
    if (listing.zxid < zxid) continue;
    const marks = listing.children.flatMap((holdId) => {
      const hold = decodeHoldId(holdId);
      return hold === undefined ? [] : [{ holdId, hold }];
    });
    return { marks, seen: listing.zxid };
  }
}

/**
 * What is missing counts only where the server has seen it made (protocol C2): a session may be replaced by one at a
 * server that is behind.
 * @param seen the mark was there then
 * @returns when the delay of this mark ends; undefined when its hold stands, or when it has ended
 */
async function endOf(
  context: DelayContext,
  zk: BoundClient,
  directory: string,
  { holdId, hold }: Mark,
  seen: number,
): Promise<number | undefined> {
  const path = `${lockDelaysOf(directory)}/${holdId}`;
  for (;;) {
    const mark = await readSince(zk, path, seen);
    if (mark === undefined) return undefined;
    let { stat } = mark;
    const standing = stat.version === MARK_STANDING;
    if (standing) {
      const node = await readSince(zk, `${directory}/${holdNodeName(hold)}`, mark.stat.czxid);
      if (node?.stat.czxid === hold.czxid) return undefined;
      try {
        stat = await zk.set(path, mark.data, MARK_STANDING);
      } catch (error) {
        if (isReason(error, 'NO_NODE')) return undefined;
        if (!isReason(error, 'BAD_VERSION')) throw error;
        await zk.sync(path); // somebody else has found it
        continue;
      }
    }
    const end = await delayEnd(
      context,
      { path, delayMs: decodeMark(mark.data), isFoundHere: standing, stat },
      zk.deadline,
    );
    if (end !== undefined) return end;
    await unless(zk.remove(path, MARK_LOST), 'NO_NODE', 'BAD_VERSION');
    context.lostHolds.forget(path);
    return undefined;
  }
}

/** Reads a node as it is at `zxid` or later, if it is missing then. */
async function readSince(zk: BoundClient, path: string, zxid: number): Promise<NodeData | undefined> {
  for (;;) {
    try {
      return await zk.get(path);
    } catch (error) {
      if (!isReason(error, 'NO_NODE')) throw error;
      if (error.zxid >= zxid) return undefined;
      await zk.sync(path);
    }
  }
}

/** The mark of a hold that was found lost, and how long it is to stand. */
export interface LostMark {
  /** Of the mark, which never comes again for another hold. */
  path: string;
  delayMs: number;
  /** By this very request. */
  isFoundHere: boolean;
  /** Of the mark, as it was written when the loss was found. */
  stat: Stat;
}

/** When the delay that a lost hold stands for ends, epoch ms on the ensemble's clock; undefined: it is over (C40). */
export async function delayEnd(
  context: DelayContext,
  { path, delayMs, isFoundHere, stat }: LostMark,
  deadline: number,
): Promise<number | undefined> {
  const delay = { delayMs, loss: context.lostHolds.know(path, isFoundHere), stat };
  return (await hasPassed(context, delay, deadline)) ? undefined : shownEnd(context.zooKeeperClock, delay);
}

/** That of one lost hold. */
interface Delay {
  delayMs: number;
  loss: KnownLoss;
  /** Of the mark; its `mtime` is when the loss was found. */
  stat: Stat;
}

/**
 * Whether the delay is over: by this replica's own waiting, or, where it has not seen all of it, by the clock of the
 * leader that saw the begin. That is told by a write; only one that is likely to say yes is made.
 */
async function hasPassed(context: DelayContext, { delayMs, loss, stat }: Delay, deadline: number): Promise<boolean> {
  const { zooKeeperClock } = context;
  if (performance.now() - loss.since >= delayMs) return true;
  const end = stat.mtime + delayMs;
  if (loss.foundHere || (zooKeeperClock.known && zooKeeperClock.now() < end)) return false;
  const { mtime, mzxid } = await askTime(context, deadline);
  return mtime >= end && epochOf(mzxid) === epochOf(stat.mzxid);
}

/**
 * When a delay that runs ends, on the ensemble's clock as this replica knows it: as all replicas compute it where the
 * clocks agree.
 */
function shownEnd(clock: ServerClock, { delayMs, loss, stat }: Delay): number {
  const now = clock.now();
  const end = stat.mtime + delayMs;
  const own = now + delayMs - (performance.now() - loss.since);
  // A replica that has not seen the beginning counts from a later moment.
  const agrees = end <= own + CLOCKS_AGREE_MS && (!loss.foundHere || end >= own - CLOCKS_AGREE_MS);
  return agrees && end > now ? end : own;
}

/** Which leader a transaction is of. */
function epochOf(zxid: number): number {
  return Math.floor(zxid / 2 ** 32);
}
