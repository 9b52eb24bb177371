/**
 * The turn of names that are created, deleted and created again: a permanent node whose version counts what was done to
 * them (C35).
 *
 * The version of the name's own node cannot serve: it restarts at 0 with each creation, so a transaction decided, sent
 * and given up in one life of the name could take effect in a later one. Each transaction about a name therefore also
 * writes its turn, at the version that was read first: it fails if another one came since, and is decided again while
 * its client is there. A request that finds nothing to do writes the turn all the same, before it is answered.
 *
 * Names are hashed into one turn per bucket, so turns are bounded and need no tidying. Two names that share a turn only
 * make each other retry.
 */
import { PosternError } from '../errors.js';
import { fullJitter, pause } from '../time.js';
import type { BoundClient } from '../zookeeper/bound.js';
import { isReason } from '../zookeeper/errors.js';
import type { MultiOperation } from '../zookeeper/operations.js';
import { AGAIN, retrying } from '../zookeeper/retrying.js';

/** For what is asked of a transaction's failure: the operations behind that of the turn begin here. */
export const AFTER_TURN = 1;

const RETRY_BASE_MS = 2;
const RETRY_CAP_MS = 100;
const NO_DATA = new Uint8Array(0);

export interface NameTurn {
  /** On behalf of the request. */
  zk: BoundClient;
  /** The turn's node. */
  path: string;
  /** What others have done all the time, when it is given up for them. */
  busy: string;
}

/**
 * @param attempt begins its transactions with `turn`: one at most of them is done. Called anew when another one was
 *   faster
 * @throws PosternError `conflict` when others were faster until the deadline; whatever `attempt` throws
 */
export async function inTurn<T>(
  { zk, path, busy }: NameTurn,
  attempt: (turn: MultiOperation) => Promise<T | typeof AGAIN>,
): Promise<T> {
  for (let tries = 0; ; tries += 1) {
    const stat = await retrying(zk.deadline, async () => {
      const [, found] = await Promise.all([
        tries === 0 ? undefined : zk.sync(path), // an older version is refused, and no harm
        zk.exists(path),
      ]);
      if (found === undefined) await zk.ensure(path);
      return found;
    });
    try {
      const result = await attempt({ type: 'setData', path, data: NO_DATA, version: stat?.version ?? 0 });
      if (result !== AGAIN) return result;
    } catch (error) {
      if (!isReason(error, 'BAD_VERSION')) throw error;
    }
    if (performance.now() >= zk.deadline)
      throw new PosternError('conflict', `${busy} all the time; repeat the request.`);
    await pause(fullJitter(tries, RETRY_BASE_MS, RETRY_CAP_MS));
  }
}
