/**
 * Configuring and deleting queues.
 *
 * A queue is deleted in one transaction: its name goes, its data directory is marked, and every open segment is sealed. So a push that
 * is under way is either in the queue before that, or fails and finds the name free; nothing is acknowledged that the
 * deletion then takes with it (protocol T7). What the name stood for is removed afterwards, by this replica or by housekeeping.
 */
import { PosternError } from '../../errors.js';
import { isReason } from '../../zookeeper/errors.js';
import type { MultiOperation } from '../../zookeeper/operations.js';
import type { Coordination } from '../coordination.js';
import { countMessages } from './depth.js';
import { encodeQueue, type QueueConfig } from './queue-config.js';
import { prioritiesIn, QueuePaths, segmentsIn } from './queue-paths.js';
import type { Queues } from './queues.js';

/**
 * Replaces the configuration; makes the queue where there is none.
 * @returns whether it was made
 * @throws PosternError `conflict` when the order would change while there are messages
 */
export async function configureQueue(
  context: Coordination,
  queues: Queues,
  namespace: string,
  name: string,
  config: QueueConfig,
  deadline: number,
): Promise<boolean> {
  const { control, layout } = context;
  for (;;) {
    const found = await queues.read(namespace, name, deadline);
    if (found === undefined) {
      if (await queues.create(namespace, name, config, deadline)) return true;
      continue;
    }
    const { record, version } = found;
    if (record.config.order !== config.order) {
      const paths = new QueuePaths(layout.queueData(namespace, record.id));
      const { depth, delayed } = await countMessages(control, paths, deadline);
      if (depth + delayed > 0)
        throw new PosternError(
          'conflict',
          `Queue "${name}" has order "${record.config.order}" and ${depth + delayed} messages; the order can be changed while it is empty.`,
          { members: { order: record.config.order, depth: depth + delayed } },
        );
    }
    try {
      const data = encodeQueue({ id: record.id, config });
      await control.setData(layout.queue(namespace, name), data, version, deadline);
      return false;
    } catch (error) {
      if (!isReason(error, 'BAD_VERSION', 'NO_NODE')) throw error;
    }
  }
}

/**
 * @returns false when there is no such queue
 * @throws PosternError `conflict` when it has messages and `force` is not given
 */
export async function deleteQueue(
  context: Coordination,
  queues: Queues,
  namespace: string,
  name: string,
  force: boolean,
  deadline: number,
): Promise<boolean> {
  const { control, layout } = context;
  for (;;) {
    const found = await queues.read(namespace, name, deadline);
    if (found === undefined) return false;
    const paths = new QueuePaths(layout.queueData(namespace, found.record.id));
    const path = layout.queue(namespace, name);
    const root = await control.getChildren(paths.data, deadline).catch((error: unknown) => {
      if (isReason(error, 'NO_NODE')) return undefined; // the name is left over: nothing to keep
      throw error;
    });
    const operations: MultiOperation[] = [{ type: 'delete', path, version: found.version }];
    if (root !== undefined) {
      operations.push({ type: 'setData', path: paths.data, data: Buffer.alloc(0), version: 0 });
      for (const priority of prioritiesIn(root.children)) {
        const listing = await control.getChildren(paths.priority(priority), deadline);
        const last = segmentsIn(listing.children).at(-1);
        if (last === undefined) continue;
        const segment = paths.segment(priority, last);
        operations.push({ type: 'setData', path: segment, data: Buffer.alloc(0), version: 0 });
      }
      // Sealing makes what is counted after it final only for those who read it then: so it is counted before, and pushes in between are
      // in the queue and go with it, as they would a moment later.
      const { depth, delayed } = await countMessages(control, paths, deadline);
      if (depth + delayed > 0 && !force)
        throw new PosternError(
          'conflict',
          `Queue "${name}" has ${depth + delayed} messages; empty it first, or say ?force=true.`,
          { members: { depth, delayed } },
        );
    }
    try {
      await control.multi(operations, deadline);
    } catch (error) {
      // A segment was sealed, a priority came into use, or somebody else deletes: look again.
      if (!isReason(error, 'BAD_VERSION', 'NO_NODE')) throw error;
      continue;
    }
    void removeContents(context, paths.data);
    return true;
  }
}

/** What is left of a deleted queue. Best effort: housekeeping removes what this leaves. */
async function removeContents({ control }: Coordination, data: string): Promise<void> {
  await control.removeRecursive(data, performance.now() + 60_000).catch(() => undefined);
}
