/**
 * What the data of a line's directory say, read from the Stat that comes with every listing: so it costs nothing to know.
 *
 *   ""                 somebody else made it, perhaps as one that the server removes when it is empty (Curator)
 *   "postern"          ours: it stays until housekeeping removes it
 *   "… delays"         and holds with a lock-delay have been granted in it (`lock-delay.ts`)
 *
 * That the delays are in use is written in the transaction that grants the first such hold, and never taken back while the directory
 * lives. A grant without a delay checks the version: it fails if that has been written since.
 *
 * The directory of a semaphore has data of another kind (`agreement.ts`), longer than these.
 */
import type { Stat } from '../zookeeper/operations.js';

export interface LineDirectory {
  version: number;
  /** Of two readings the one with the higher is the newer. */
  mzxid: number;
  /** Its sequence may begin anew at any time (protocol C10). */
  removable: boolean;
  /** There may be marks. */
  delays: boolean;
}

const OWN = Buffer.from('postern');
const OWN_DELAYS = Buffer.from('postern with delays');
const FOREIGN_DELAYS = Buffer.from('delays');

export function readLineDirectory({ version, mzxid, dataLength }: Stat): LineDirectory {
  return {
    version,
    mzxid,
    // Curator's directories have no data; that they are containers the server does not tell.
    removable: dataLength === 0 || dataLength === FOREIGN_DELAYS.length,
    delays: dataLength === OWN_DELAYS.length || dataLength === FOREIGN_DELAYS.length,
  };
}

/** The data of a directory that is made now. */
export function ownDirectory(delays: boolean): Buffer {
  return delays ? OWN_DELAYS : OWN;
}

/** The data of a directory in which a hold with a delay is granted. */
export function withDelays({ removable }: LineDirectory): Buffer {
  return removable ? FOREIGN_DELAYS : OWN_DELAYS;
}
