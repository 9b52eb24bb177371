/**
 * Lock-delay: for so long after a hold was lost nobody is granted what it excluded (protocol C16). A holder whose lease ended
 * may not have noticed; for a resource that checks no fencing token this gives it time to stop.
 *
 * Guarantee: after an involuntary loss (the lease expired) nobody of ours is granted, in any replica, what the lost hold excluded, before
 *   `lostAt` + delay on the ensemble's clock; then the line goes on in its order. A lost writer keeps everybody out, a lost reader
 *   writers only: it stands in the line as if it were still there. Never after a release, the end of the lease by its owner or an
 *   administrator, a give-up, a break; never for a place that was only waiting.
 * Not guaranteed: that other clients (Curator's) wait for it. That `lostAt` is the moment of the loss: it is when that was found, by who wants
 *   the lock, looks at it, or housekeeping; always later than the loss, by a minute or two if nobody wants it.
 *
 * Layout:  <root>/ns/<namespace>/lock-delays/<kind>s/<name>/<holdId>      persistent; data = the delay; see `delay-mark.ts`
 *          <root>/ns/<namespace>/lock-delays/leases/<leaseId>             ephemeral: the lease asked for delays (`end-lease.ts`)
 *
 *   grant ──▶ version 0: standing ──release, give-back, break, DELETE lease: in one transaction with the node──▶ gone
 *                  └── node gone with its session; who finds that writes ──▶ version 1: lost, since its mtime ──delay──▶ gone
 *
 * Step by step, and what a crash after each leaves:
 *
 * 1. A contender with a delay is always created as `waiting`. A crash, or the end of its session, leaves no mark.
 * 2. *Grant*: one transaction writes `granted`, creates the mark, and sees to it that the directory says that delays are in use
 *    (`line-directory.ts`). A crash after it leaves a hold that its client was not told of; its loss is delayed like any other.
 * 3. *End by will*: whatever deletes the node or writes `waiting` over `granted` deletes the mark in the same transaction; so does the
 *    hand-over, which also makes the next one's mark. Nothing is in between.
 * 4. *Loss*: the session ends, the node goes, the mark stays. Nobody needs to be alive for it.
 * 5. *Finding*: whoever would be granted, is refused, or looks, lists the marks, and sees one at version 0 whose node is gone: it writes at
 *    that version, and the mtime is `lostAt`. Of many finders one writes; the others read what it wrote. A crash before: the next one finds it.
 *    After: everybody continues the same delay.
 * 6. *Waiting*: the first in line sleeps until the end, which any replica computes from the mark. It dies: its client repeats the request
 *    elsewhere, or the next in line finds itself first, reads the mark, and sleeps until the same moment.
 * 7. *The end*: a write to the directory of the marks tells the leader's clock. If that is past the end the mark is deleted at its
 *    version, and the grant follows. A crash in between: nothing is left, or a mark whose time has passed.
 *
 * Why a grant misses no mark. All whom my grant would conflict with stood before me and are gone; their marks are older than that. So marks
 * that are listed by a server that has seen them gone are complete for me, for ever. They are listed only where the directory says so; and
 * what it says is as new as the listing that showed me as the first, or is checked, by its version, in the transaction of my grant. A
 * directory that a server removed (Curator's) is made anew in a transaction that fails if there are marks of its name (`join.ts`).
 *
 * Why a mark is never taken for lost wrongly. It is newer than its node: a server that shows the mark and not the node has seen the node go. If
 * it went by will, the mark went with it, and the write at version 0 fails.
 *
 * A node that was created as `granted`, found a running delay, and is then cut off before it could write `waiting`, counts for nothing either:
 * a hold that was truly granted cannot stand beside a running delay that excludes it, so a repeated request takes it for a place.
 */
import { lockDelaysOf } from '../leases/layout.js';
import type { ControlSession } from '../zookeeper/control-session.js';
import { isReason, unless } from '../zookeeper/errors.js';
import type { NodeData } from '../zookeeper/operations.js';
import type { ServerClock } from '../zookeeper/server-clock.js';
import { decodeHoldId, holdNodeName, type Hold } from './contender.js';
import { decodeMark, MARK_LOST, MARK_STANDING } from './delay-mark.js';
import type { Line } from './line.js';
import type { Place } from './place.js';

/** As Consul's limit. */
export const LOCK_DELAY_MAX_MS = 60_000;

const NO_DATA = new Uint8Array(0);

export interface DelayContext {
  control: ControlSession;
  zooKeeperClock: ServerClock;
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
 * The delay that keeps a place from being granted, although the line admits it. Where no delays are in use this asks nobody.
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
  return findDelay(context, line.path, { reads, holdId, zxid: Math.max(line.zxid, czxid) }, deadline);
}

/** The delay in a line that ends last. Marks whose holds are found lost are written, those whose time has passed removed. */
export async function findDelay(
  context: DelayContext,
  directory: string,
  { reads = false, zxid = 0, standing, holdId }: DelaysSought,
  deadline: number,
): Promise<Locked | undefined> {
  const { marks, seen } = await listMarks(context, directory, zxid, deadline);
  const relevant = marks.filter(
    (mark) =>
      mark.holdId !== holdId &&
      !(reads && mark.hold.prefix === '__READ__') &&
      standing?.has(holdNodeName(mark.hold)) !== true,
  );
  const ends = await Promise.all(relevant.map((mark) => endOf(context, directory, mark, seen, deadline)));
  const running = ends.filter((end) => end !== undefined);
  return running.length === 0 ? undefined : { lockedUntil: Math.max(...running) };
}

interface Mark {
  holdId: string;
  hold: Hold;
}

/**
 * After a `sync`: that those before a waiter are gone it may have learned from a server that its session has left since.
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
    if (listing.zxid < zxid) continue; // the leader answers a `sync` before it has applied what a follower has answered already
    const marks = listing.children.flatMap((holdId) => {
      const hold = decodeHoldId(holdId);
      return hold === undefined ? [] : [{ holdId, hold }];
    });
    return { marks, seen: listing.zxid };
  }
}

/**
 * What is missing counts only where the server has seen it made (protocol C2): a session may be replaced by one at a server that is behind.
 * @param seen the mark was there then
 * @returns when the delay of this mark ends; undefined when its hold stands, or when it has ended
 */
async function endOf(
  context: DelayContext,
  directory: string,
  { holdId, hold }: Mark,
  seen: number,
  deadline: number,
): Promise<number | undefined> {
  const { control } = context;
  const path = `${lockDelaysOf(directory)}/${holdId}`;
  for (;;) {
    const mark = await readSince(control, path, seen, deadline);
    if (mark === undefined) return undefined;
    let { mtime } = mark.stat;
    if (mark.stat.version === MARK_STANDING) {
      const node = await readSince(control, `${directory}/${holdNodeName(hold)}`, mark.stat.czxid, deadline);
      if (node?.stat.czxid === hold.czxid) return undefined;
      try {
        ({ mtime } = await control.setData(path, mark.data, MARK_STANDING, deadline));
      } catch (error) {
        if (isReason(error, 'NO_NODE')) return undefined;
        if (!isReason(error, 'BAD_VERSION')) throw error;
        await control.sync(path, deadline); // somebody else has found it
        continue;
      }
    }
    const end = mtime + decodeMark(mark.data);
    if (!(await hasPassed(context, directory, end, deadline))) return end;
    await unless(control.delete(path, MARK_LOST, deadline), 'NO_NODE', 'BAD_VERSION');
    return undefined;
  }
}

/** Reads a node as it is at `zxid` or later, if it is missing then. */
async function readSince(
  control: ControlSession,
  path: string,
  zxid: number,
  deadline: number,
): Promise<NodeData | undefined> {
  for (;;) {
    try {
      return await control.getData(path, deadline);
    } catch (error) {
      if (!isReason(error, 'NO_NODE')) throw error;
      if (error.zxid >= zxid) return undefined;
      await control.sync(path, deadline);
    }
  }
}

/** Whether the leader's clock is past `end`. That is told by a write; only one that is likely to say yes is made. */
async function hasPassed(
  { control, zooKeeperClock }: DelayContext,
  directory: string,
  end: number,
  deadline: number,
): Promise<boolean> {
  if (zooKeeperClock.known && zooKeeperClock.now() < end) return false;
  const written = await unless(control.setData(lockDelaysOf(directory), NO_DATA, undefined, deadline), 'NO_NODE');
  return written === undefined || written.mtime >= end;
}
