/**
 * Locks that this replica saw become free: acquiring one that nobody else wants then costs one write and no listing.
 *
 * When the only holder of a lock was seen to go, nobody with its sequence number or a lower one stands in line any
 * more, and nobody ever will while the directory exists. So a contender that gets *the very next* number is first in
 * line: that number is the proof. With any other number somebody may be in between, and it lists.
 *
 * The proof holds in one incarnation of the directory only; in a new one the numbers begin at 0 again and would prove
 * nothing. It cannot be made anew unnoticed:
 *
 * - Housekeeping writes `idle` into a directory before it removes it, and removes it a minute later at the earliest,
 *   checked against the version of that write ({@link IDLE_BEFORE_REMOVED_MS}).
 * - A number is believed for {@link BELIEVED_MS} from when the directory was last *listed* and did not say `idle`,
 *   however often the lock was taken since; asked after the place was given. So a directory that has been removed
 *   meanwhile would have said so.
 * - That is asked of two clocks: this process's monotonic one, and the ensemble's, which dates the place that was given
 *   and the one after which the directory was listed. The first stands still in a machine that is frozen, the second
 *   jumps when another server leads; not at once.
 *
 * What is older than that still tells that the lock was free, which decides only what is tried first: with `waitMs: 0`
 * a place is taken before the line is looked at.
 */
import { LruMap } from '../../lru-map.js';
import { MINUTE, SECOND } from '../../time.js';
import type { SeenDirectory } from './directory.js';

/** Between the write of `idle` and the removal. */
export const IDLE_BEFORE_REMOVED_MS = MINUTE;
const BELIEVED_MS = 10 * SECOND;
const REMEMBERED_MAX = 20_000;

export interface FreeLine {
  /** Of the last who held; nobody up to it stands in line. */
  readonly sequence: number;
  readonly seen: SeenDirectory | undefined;
}

export class FreeLines {
  readonly #lines = new LruMap<string, FreeLine>(REMEMBERED_MAX);

  /** The only holder of the lock at `path` is gone, and it was this replica that removed it. */
  left(path: string, line: FreeLine): void {
    this.#lines.set(path, line);
  }

  has(path: string): boolean {
    return this.#lines.get(path) !== undefined;
  }

  /** Returns what is known of a line that somebody is about to join, and forgets it. */
  take(path: string): FreeLine | undefined {
    const line = this.#lines.get(path);
    this.#lines.delete(path);
    return line;
  }
}

/** A place that was given, as ZooKeeper says. */
export interface Given {
  readonly sequence: number;
  /** On the ensemble's clock, epoch ms. */
  readonly ctime: number;
}

/** Whether the number of a place is likely to say that it is first. */
export function mayProve({ seen }: FreeLine): boolean {
  // ZooKeeper before 3.9.3 does not tell when a place was made: then one of the two clocks is missing.
  const isDated = seen !== undefined && seen.ensembleSince > 0;
  return isDated && !seen.directory.removable && performance.now() - seen.since < BELIEVED_MS;
}

/** Whether a place is first in line by its number. Ask only after the place was created. */
export function proves(line: FreeLine, { sequence, ctime }: Given): boolean {
  const { seen } = line;
  return (
    seen !== undefined &&
    sequence - line.sequence === 1 &&
    mayProve(line) &&
    Math.abs(ctime - seen.ensembleSince) < BELIEVED_MS
  );
}
