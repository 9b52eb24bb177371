/**
 * Directories that run out of sequence numbers.
 *
 * ZooKeeper numbers 2^31 places in one directory. All that come after have the last number, and no order: several would
 * take themselves for the first, and hold at once. A line in which a thousand stand up each second, and which is never
 * unused for an hour, so that it would be removed, is there after 25 days. So a directory is *renewed* before: in one
 * transaction deleted, which needs it to be empty, and made again with the same data.
 *
 *   number          0 ──────── 2^30 ─────────────── 2^31 - 2^20 ────────── 2^31 - 1
 *   housekeeping               renews it when it finds it empty
 *   a new place                                     is given up again, and renews it in the same transaction;
 *                                                   503 when it is not empty otherwise
 *
 * Whoever stands in line goes on, and leaves, so it becomes empty. Places that are given up use numbers too: a million
 * is left for them, and should those come to an end as well, it is only places without order that are refused.
 *
 * The numbers that begin again at 0 are no danger to what replicas remember of the old ones (protocol C10): those are
 * above 2^30. Between the two no moment is without a directory, so a semaphore keeps the limit that was agreed on.
 *
 * A directory that was just renewed must not be renewed again by somebody who still knows the old one: its numbers are
 * remembered. Its version does not tell, it may be that of the old one; a place that stands in the old one only does.
 */
import type { BoundClient } from '../../zookeeper/bound.js';
import { isReason } from '../../zookeeper/errors.js';
import type { MultiOperation } from '../../zookeeper/operations.js';
import { deleteTail } from './candidate-tail.js';
import { readLineDirectory, ownDirectory } from './directory.js';

/** From here on a directory is renewed when it can be. */
export const WORN_FROM = 2 ** 30;
/** From here on nobody lines up any more. */
export const PLACES_END = 2 ** 31 - 2 ** 20;

/**
 * @param downgradable whether a reader's place stands behind `place`, which goes too
 * @param place goes with it; none only where nobody else renews this directory
 * @returns whether the numbers begin at 0 again; false, and nothing is done, when somebody else stands in it, the place
 *   is gone, or the directory was written to
 */
export async function renewDirectory(
  zk: BoundClient,
  path: string,
  place?: string,
  downgradable?: boolean,
): Promise<boolean> {
  const node = await zk.find(path);
  if (node === undefined) return true;
  const line = readLineDirectory(node.stat);
  try {
    const giveUp: MultiOperation[] =
      place === undefined ? [] : [{ type: 'delete', path: place }, ...deleteTail(place, downgradable)];
    await zk.multi([
      ...giveUp,
      { type: 'delete', path, version: node.stat.version },
      { type: 'create', path, data: line.idle ? ownDirectory(line.delays, line.byPriority) : node.data },
    ]);
    return true;
  } catch (error) {
    if (isReason(error, 'NOT_EMPTY', 'BAD_VERSION', 'NO_NODE')) return false;
    throw error;
  }
}
