/**
 * Configures, pauses and deletes queues.
 *
 * A queue is deleted in one transaction: its name goes, its data directory is marked, and
 *
 *   with force      every open segment is sealed: a push in flight either arrives before that and is deleted with the
 *                   queue, as it would be a moment later, or fails and finds the name free
 *   without force   the last segment of each priority, its directory, and that of delayed messages are deleted, which
 *                   ZooKeeper refuses while they are not empty: a push that arrived after the count keeps its queue
 *
 * Both check the version of `pushers`, which a push that brings a priority into use raises: it is sealed or deleted
 * with the others. So nothing is acknowledged behind the deletion and goes with it all the same, and without force
 * nothing at all (protocol T7). What the name stood for is removed afterwards, by this replica or by housekeeping.
 *
 * What makes, configures, pauses or deletes a queue does so in the turn of its name (`name-turn.ts`): a configuration
 * that was decided on for a queue that was deleted since does not put the name of its contents over those of the queue
 * that was made in its place, and a queue that was deleted since is not made (protocol C35).
 */
import { StandingConflictError } from '../../../errors.js';
import type { Awaited } from '../../../time.js';
import type { ZooKeeperClient } from '../../../zookeeper/client.js';
import type { BoundClient } from '../../../zookeeper/bound.js';
import { unless } from '../../../zookeeper/errors.js';
import type { MultiOperation } from '../../../zookeeper/operations.js';
import { AGAIN } from '../../../zookeeper/retrying.js';
import type { Coordination } from '../../coordination.js';
import { inTurn } from '../../name-turn.js';
import { countMessages } from './depth.js';
import { encodeQueue, type QueueConfig } from '../config.js';
import { prioritiesIn, QueuePaths, segmentsIn } from '../paths.js';
import type { QueueName } from '../queue.js';
import type { Queues } from '../queues.js';

/**
 * Replaces the configuration; makes the queue where there is none.
 * @returns whether it was made
 * @throws PosternError `conflict` when the order would change while there are messages
 */
export async function configureQueue(
  context: Coordination,
  queues: Queues,
  { namespace, name }: QueueName,
  config: QueueConfig,
  { deadline, requester }: Awaited,
): Promise<boolean> {
  const { layout } = context;
  const control = context.control.writingFor(requester);
  return inTurn(queues.turnOf(namespace, name, control, deadline), async (turn) => {
    const found = await queues.read(namespace, name, deadline);
    if (found === undefined)
      return (await queues.create(namespace, name, config, { control, turn, deadline })) || AGAIN;
    const { record, version } = found;
    if (record.config.order !== config.order) {
      const paths = new QueuePaths(layout.queueData(namespace, record.id));
      const { depth, delayed } = await countMessages(control, paths, deadline);
      if (depth + delayed > 0)
        throw new StandingConflictError(
          `Queue "${name}" has order "${record.config.order}" and ${depth + delayed} messages; the order can be changed while it is empty.`,
          { order: record.config.order, depth: depth + delayed },
        );
    }
    const data = encodeQueue({ ...record, config });
    const path = layout.queue(namespace, name);
    const writing = control.multi([turn, { type: 'setData', path, data, version }], deadline);
    return (await unless(writing, 'BAD_VERSION', 'NO_NODE')) === undefined ? AGAIN : false;
  });
}

/**
 * Pauses a queue, or resumes it. From the moment that this is written, nobody is handed anything out: every transaction
 * that takes messages checks that what its replica knows of the queue is what was written last (protocol C70).
 * @returns false when there is no such queue
 */
export async function pauseQueue(
  context: Coordination,
  queues: Queues,
  { namespace, name }: QueueName,
  paused: boolean,
  { deadline, requester }: Awaited,
): Promise<boolean> {
  const control = context.control.writingFor(requester);
  return inTurn(queues.turnOf(namespace, name, control, deadline), async (turn) => {
    const found = await queues.read(namespace, name, deadline);
    if (found === undefined) {
      await control.multi([turn], deadline); // refused where what was read is out of date
      return false;
    }
    const { id, config } = found.record;
    const data = encodeQueue({ id, config, ...(paused && { paused }) });
    const path = context.layout.queue(namespace, name);
    const writing = control.multi([turn, { type: 'setData', path, data, version: found.version }], deadline);
    return (await unless(writing, 'BAD_VERSION', 'NO_NODE')) === undefined ? AGAIN : true;
  });
}

/**
 * @returns false when there is no such queue
 * @throws PosternError `conflict` when it has messages and `force` is not given
 */
export async function deleteQueue(
  context: Coordination,
  queues: Queues,
  { namespace, name }: QueueName,
  force: boolean,
  { deadline, requester }: Awaited,
): Promise<boolean> {
  const control = context.control.writingFor(requester);
  return inTurn(queues.turnOf(namespace, name, control, deadline), async (turn) => {
    const found = await queues.read(namespace, name, deadline);
    if (found === undefined) {
      await control.multi([turn], deadline);
      return false;
    }
    const path = context.layout.queue(namespace, name);
    const paths = new QueuePaths(context.layout.queueData(namespace, found.record.id));
    const contents = await endOfContents(control, paths, { name, force, deadline });
    const deleting = control.multi([turn, { type: 'delete', path, version: found.version }, ...contents], deadline);
    // A segment was sealed, something was pushed, a priority came into use, or somebody else deletes: look again.
    if ((await unless(deleting, 'BAD_VERSION', 'NO_NODE', 'NOT_EMPTY')) === undefined) return AGAIN;
    void removeContents(context, paths.data);
    return true;
  });
}

/**
 * What ends the contents, in the transaction that deletes their name. Nothing where there are none: the name is left
 * over.
 * @throws PosternError `conflict` when there are messages and `force` is not given
 */
async function endOfContents(
  control: ZooKeeperClient,
  paths: QueuePaths,
  { name, force, deadline }: { name: string; force: boolean; deadline: number },
): Promise<MultiOperation[]> {
  const zk = control.until(deadline);
  const pushers = await zk.exists(paths.pushers); // before the priorities are listed
  const root = await zk.list(paths.data);
  if (root === undefined) return [];
  const operations: MultiOperation[] = [
    { type: 'setData', path: paths.data, data: Buffer.alloc(0), version: 0 },
    { type: 'check', path: paths.pushers, version: pushers?.version ?? 0 },
  ];
  if (!force) await refuseUnlessEmpty(control, paths, name, deadline);
  for (const priority of prioritiesIn(root.children)) {
    const segments = segmentsIn(await zk.children(paths.priority(priority)));
    const last = segments.pop();
    if (last === undefined) continue;
    const segment = paths.segment(priority, last);
    if (force) operations.push({ type: 'setData', path: segment, data: Buffer.alloc(0), version: 0 });
    else {
      for (const sealed of segments) await deleteIfEmpty(zk, paths.segment(priority, sealed));
      operations.push({ type: 'delete', path: segment }, { type: 'delete', path: paths.priority(priority) });
    }
  }
  if (!force) {
    await deleteSeconds(zk, paths);
    operations.push({ type: 'delete', path: paths.delayed });
  }
  return operations;
}

/** Only to say how much there is: whether it is empty, the transaction finds out. */
async function refuseUnlessEmpty(
  control: ZooKeeperClient,
  paths: QueuePaths,
  name: string,
  deadline: number,
): Promise<void> {
  const { depth, delayed } = await countMessages(control, paths, deadline);
  const count = depth + delayed;
  if (count === 0) return;
  throw new StandingConflictError(
    `Queue "${name}" has ${count} ${count === 1 ? 'message' : 'messages'}; empty it first, or say ?force=true.`,
    { depth, delayed },
  );
}

/** Of a sealed segment, which nobody puts anything into, or of a directory that whoever needs it makes anew. */
async function deleteIfEmpty(zk: BoundClient, path: string): Promise<void> {
  await unless(zk.remove(path), 'NO_NODE', 'NOT_EMPTY');
}

/** The directories that delayed messages have left. */
async function deleteSeconds(zk: BoundClient, { delayed }: QueuePaths): Promise<void> {
  for (const coarse of await zk.children(delayed)) {
    const directory = `${delayed}/${coarse}`;
    for (const fine of await zk.children(directory)) await deleteIfEmpty(zk, `${directory}/${fine}`);
    await deleteIfEmpty(zk, directory);
  }
}

/** What is left of a deleted queue. Best effort: housekeeping removes what this leaves. */
async function removeContents({ control }: Coordination, data: string): Promise<void> {
  await control.removeRecursive(data, performance.now() + 60_000).catch(() => undefined);
}
