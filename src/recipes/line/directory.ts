/**
 * The state of a line's directory, read at no cost from the Stat that comes with every listing.
 *
 *   ""                 somebody else made it, perhaps as one that the server removes when it is empty (Curator)
 *   "postern"          ours: it stays until housekeeping removes it
 *   "… delays"         and holds with a lock-delay have been granted in it (`lock-delay.ts`)
 *   "… priority"       and the lock is taken by priority (`lock/priority.ts`): who comes without one is refused
 *   "… idle …"         ours, but nobody has stood in it for long: housekeeping may remove it at any time from a while
 *                      after this was written, or write again that it stays
 *
 * That the delays are in use is written in the transaction that grants the first such hold, and never taken back while
 * the directory lives. A grant without a delay checks the version: it fails if that has been written since.
 *
 * The directory of a semaphore has data of another kind (`agreement.ts`), longer than these.
 */
import type { Stat } from '../../zookeeper/operations.js';

export interface LineDirectory {
  version: number;
  /** Of two readings the one with the higher is the newer. */
  mzxid: number;
  /** Its sequence may begin anew at any time (protocol C10). */
  removable: boolean;
  /** Ours, and about to be removed unless it is used. */
  idle: boolean;
  /** There may be marks. */
  delays: boolean;
  /** Of a lock: its line is entered from the room in front of it. */
  byPriority: boolean;
}

/** A directory as a listing showed it. */
export interface SeenDirectory {
  readonly directory: LineDirectory;
  /** Monotonic: the listing was answered after this. */
  readonly since: number;
  /** The same on the ensemble's clock, epoch ms. */
  readonly ensembleSince: number;
}

const OWN = Buffer.from('postern');
const OWN_DELAYS = Buffer.from('postern with delays');
const IDLE = Buffer.from('postern idle');
const IDLE_DELAYS = Buffer.from('idle with delays');
const FOREIGN_DELAYS = Buffer.from('delays');
// Longer than an IPv4 address, which Curator writes where a program gives no data, and shorter than any agreement.
const OWN_PRIORITY = Buffer.from('postern, priority');
const IDLE_PRIORITY = Buffer.from('idle with priority');

export function readLineDirectory({ version, mzxid, dataLength }: Stat): LineDirectory {
  const idle = [IDLE, IDLE_DELAYS, IDLE_PRIORITY].some(({ length }) => length === dataLength);
  return {
    version,
    mzxid,
    // Curator's directories have no data; that they are containers the server does not tell.
    removable: idle || dataLength === 0 || dataLength === FOREIGN_DELAYS.length,
    idle,
    delays: [OWN_DELAYS, FOREIGN_DELAYS, IDLE_DELAYS].some(({ length }) => length === dataLength),
    byPriority: dataLength === OWN_PRIORITY.length || dataLength === IDLE_PRIORITY.length,
  };
}

/** The data of a directory that is made now, or is used again. Of one by priority there are no delays. */
export function ownDirectory(delays: boolean, byPriority = false): Buffer {
  if (byPriority) return OWN_PRIORITY;
  return delays ? OWN_DELAYS : OWN;
}

/** The data of a directory in which a hold with a delay is granted. */
export function withDelays({ removable, idle }: LineDirectory): Buffer {
  if (idle) return IDLE_DELAYS;
  return removable ? FOREIGN_DELAYS : OWN_DELAYS;
}

/** The data of a directory of ours that will be removed unless it is used. */
export function idleDirectory({ delays, byPriority }: LineDirectory): Buffer {
  if (byPriority) return IDLE_PRIORITY;
  return delays ? IDLE_DELAYS : IDLE;
}
