/** Many nodes in few requests. */
import { PosternError } from '../errors.js';
import type { ControlSession } from '../zookeeper/control-session.js';
import { zooKeeperReason } from '../zookeeper/errors.js';
import type { NodeData } from '../zookeeper/operations.js';

/** With 4 KiB of value in each the answer stays well below ZooKeeper's limit of 1 MiB. */
const AT_ONCE = 100;

export type ReadNode = Pick<NodeData, 'data' | 'stat'>;

/** In the order of the paths; undefined where there is no node. */
export async function readNodes(
  control: ControlSession,
  paths: readonly string[],
  deadline: number,
): Promise<(ReadNode | undefined)[]> {
  const batches = Array.from({ length: Math.ceil(paths.length / AT_ONCE) }, (_, i) =>
    paths.slice(i * AT_ONCE, (i + 1) * AT_ONCE),
  );
  const answers = await Promise.all(
    batches.map((batch) =>
      control.multiRead(
        batch.map((path) => ({ type: 'getData', path })),
        deadline,
      ),
    ),
  );
  return answers.flatMap(({ results }, batch) =>
    results.map((result, i) => {
      if ('data' in result) return result;
      const reason = 'error' in result ? zooKeeperReason(result.error) : 'UNKNOWN';
      if (reason === 'NO_NODE') return undefined;
      throw new PosternError('zookeeper-error', `ZooKeeper answered ${reason} to a read of ${batches[batch]?.[i]}.`);
    }),
  );
}
