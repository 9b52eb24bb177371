/**
 * The rest of members that were lost: a mark without its hold is a loss, and the first write to it, at version 0,
 * begins the rest, at the same moment for all replicas. It is waited for as a lock-delay is (protocol C40). Of many
 * finders one writes; the others read what it wrote. A crash before that write: the next one finds the loss.
 */
import { isReason } from '../../zookeeper/errors.js';
import type { BoundClient } from '../../zookeeper/bound.js';
import { readNodes } from '../../zookeeper/read-nodes.js';
import type { Coordination } from '../coordination.js';
import { delayEnd, type DelayContext } from '../line/delay/lock-delay.js';
import type { Mark } from './marks.js';

const FOUND = 1;
const NO_DATA = new Uint8Array(0);
/** Writes that are sent at once. */
const AT_ONCE = 256;
/** When to look again at a mark that was gone while it was read. */
const AGAIN_MS = 50;

export interface Resting {
  /** Of marks without their holds, as `state.ts` reads them. */
  readonly marks: readonly Mark[];
  /** The directory of the marks. */
  readonly directory: string;
  readonly quarantineMs: number;
}

/**
 * Begins the rests that have not begun.
 * @returns when those end that are not over, by the name of the mark; epoch ms on the ensemble's clock
 */
export async function restsOf(
  context: DelayContext & Pick<Coordination, 'metrics'>,
  zk: BoundClient,
  { marks, directory, quarantineMs }: Resting,
): Promise<ReadonlyMap<string, number>> {
  const ends = new Map<string, number>();
  const nodes = await readNodes(
    zk,
    marks.map(({ name }) => `${directory}/${name}`),
  );
  const look = async ({ name }: Mark, i: number): Promise<void> => {
    const path = `${directory}/${name}`;
    const found = nodes[i]?.stat;
    const stat = found?.version === 0 ? await begin(zk, path) : found;
    if (found?.version === 0 && stat !== undefined) context.metrics.poolMembersTotal.inc({ outcome: 'lost' });
    if (stat === undefined) return void ends.set(name, context.zooKeeperClock.now() + AGAIN_MS);
    const end = await delayEnd(
      context,
      { path, delayMs: quarantineMs, isFoundHere: found?.version === 0 && stat.version === FOUND, stat },
      zk.deadline,
    );
    if (end !== undefined) ends.set(name, end);
  };
  for (let from = 0; from < marks.length; from += AT_ONCE)
    await Promise.all(marks.slice(from, from + AT_ONCE).map((mark, i) => look(mark, from + i)));
  return ends;
}

/** @returns the mark's Stat; undefined when somebody else has written or removed it meanwhile */
async function begin(zk: BoundClient, path: string): ReturnType<BoundClient['exists']> {
  try {
    return await zk.set(path, NO_DATA, 0);
  } catch (error) {
    if (isReason(error, 'BAD_VERSION', 'NO_NODE')) return undefined;
    throw error;
  }
}
