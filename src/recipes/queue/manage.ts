/**
 * Configuring and deleting queues.
 *
 * A queue is deleted in one transaction: its name goes, its data directory is marked, and
 *
 *   with force      every open segment is sealed: a push that is under way is in the queue before that, and goes with it as it would
 *                   a moment later, or it fails and finds the name free
 *   without force   the last segment of each priority, its directory, and that of delayed messages are deleted: ZooKeeper refuses that while
 *                   something is in them, so a push that came since they were counted keeps its queue
 *
 * Both check the version of `pushers`, which a push that brings a priority into use raises: it is sealed or deleted with the others.
 * So nothing is acknowledged behind the deletion and goes with it all the same, and without force nothing at all (protocol T7). What the
 * name stood for is removed afterwards, by this replica or by housekeeping.
 */
import { PosternError } from '../../errors.js';
import type { ControlSession } from '../../zookeeper/control-session.js';
import { isReason, unless } from '../../zookeeper/errors.js';
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
    const pushers = await control.exists(paths.pushers, deadline); // before the priorities are listed
    const root = await unless(control.getChildren(paths.data, deadline), 'NO_NODE');
    const operations: MultiOperation[] = [{ type: 'delete', path, version: found.version }];
    // Where there are no contents the name is left over: nothing to keep.
    if (root !== undefined) {
      operations.push(
        { type: 'setData', path: paths.data, data: Buffer.alloc(0), version: 0 },
        { type: 'check', path: paths.pushers, version: pushers?.version ?? 0 },
      );
      if (!force) await refuseUnlessEmpty(control, paths, name, deadline);
      for (const priority of prioritiesIn(root.children)) {
        const listing = await unless(control.getChildren(paths.priority(priority), deadline), 'NO_NODE');
        const segments = segmentsIn(listing?.children ?? []);
        const last = segments.pop();
        if (last === undefined) continue;
        const segment = paths.segment(priority, last);
        if (force) operations.push({ type: 'setData', path: segment, data: Buffer.alloc(0), version: 0 });
        else {
          for (const sealed of segments) await deleteIfEmpty(control, paths.segment(priority, sealed), deadline);
          operations.push({ type: 'delete', path: segment }, { type: 'delete', path: paths.priority(priority) });
        }
      }
      if (!force) {
        await deleteSeconds(control, paths, deadline);
        operations.push({ type: 'delete', path: paths.delayed });
      }
    }
    try {
      await control.multi(operations, deadline);
    } catch (error) {
      // A segment was sealed, something was pushed, a priority came into use, or somebody else deletes: look again.
      if (!isReason(error, 'BAD_VERSION', 'NO_NODE', 'NOT_EMPTY')) throw error;
      continue;
    }
    void removeContents(context, paths.data);
    return true;
  }
}

/** Only to say how much there is: whether it is empty, the transaction finds out. */
async function refuseUnlessEmpty(
  control: ControlSession,
  paths: QueuePaths,
  name: string,
  deadline: number,
): Promise<void> {
  const { depth, delayed } = await countMessages(control, paths, deadline);
  if (depth + delayed === 0) return;
  throw new PosternError(
    'conflict',
    `Queue "${name}" has ${depth + delayed} messages; empty it first, or say ?force=true.`,
    {
      members: { depth, delayed },
    },
  );
}

/** Of a sealed segment, which nobody puts anything into, or of a directory that whoever needs it makes anew. */
async function deleteIfEmpty(control: ControlSession, path: string, deadline: number): Promise<void> {
  await unless(control.delete(path, undefined, deadline), 'NO_NODE', 'NOT_EMPTY');
}

/** The directories that delayed messages have left. */
async function deleteSeconds(control: ControlSession, { delayed }: QueuePaths, deadline: number): Promise<void> {
  const children = async (path: string): Promise<string[]> =>
    ((await unless(control.getChildren(path, deadline), 'NO_NODE'))?.children ?? []).map((name) => `${path}/${name}`);
  for (const coarse of await children(delayed)) {
    for (const fine of await children(coarse)) await deleteIfEmpty(control, fine, deadline);
    await deleteIfEmpty(control, coarse, deadline);
  }
}

/** What is left of a deleted queue. Best effort: housekeeping removes what this leaves. */
async function removeContents({ control }: Coordination, data: string): Promise<void> {
  await control.removeRecursive(data, performance.now() + 60_000).catch(() => undefined);
}
