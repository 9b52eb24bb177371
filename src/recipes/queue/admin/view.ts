/** What everybody may see of queues. Up to date: read after a `sync`, unless asked otherwise. */
import type { Page } from '../../../page.js';
import type { BoundClient } from '../../../zookeeper/bound.js';
import type { ControlSession } from '../../../zookeeper/control-session.js';
import { ensembleNow } from '../../../zookeeper/ensemble-time.js';
import type { Coordination } from '../../coordination.js';
import { countMessages } from './depth.js';
import { decodeMessage } from '../message.js';
import { readNodes, type ReadNode } from '../../../zookeeper/read-nodes.js';
import { decodeQueue, type QueueConfig } from '../config.js';
import {
  isExpired,
  messageName,
  messagesIn,
  prioritiesIn,
  QueuePaths,
  segmentsIn,
  type MessageInSegment,
} from '../paths.js';
import { WINDOW_SEGMENTS } from '../claim/priority-head.js';
import type { Queues } from '../queues.js';
import { decodeTaker } from '../claim/turn.js';

export interface QueueView {
  name: string;
  /** In the queue, claimed ones among them. */
  depth: number;
  claimed: number;
  delayed: number;
  /** Epoch ms on the ensemble's clock. */
  oldestEnqueuedAt: number | undefined;
  consumersWaiting: number;
  /** Nothing is handed out. */
  paused: boolean;
  config: QueueConfig;
}

const READ_AT_ONCE = 400;

/** @returns undefined when there is no such queue */
export async function describeQueue(
  context: Coordination,
  queues: Queues,
  namespace: string,
  name: string,
  deadline: number,
): Promise<QueueView | undefined> {
  const { control, layout } = context;
  const found = await queues.read(namespace, name, deadline);
  if (found === undefined) return undefined;
  const paths = new QueuePaths(layout.queueData(namespace, found.record.id));
  const isGrouped = found.record.config.order === 'grouped';
  const [{ depth, delayed }, heads, consumersWaiting] = await Promise.all([
    countMessages(control, paths, deadline),
    readHeads(control, paths, { now: await ensembleNow(context, deadline), isGrouped }, deadline),
    countWaiting(control, paths, deadline),
  ]);
  const { config, paused = false } = found.record;
  return { name, depth, delayed, ...heads, consumersWaiting, paused, config };
}

/** Where its messages begin: the oldest one that has not expired by `now`, and how many are claimed. */
async function readHeads(
  control: ControlSession,
  paths: QueuePaths,
  { now, isGrouped }: { now: number; isGrouped: boolean },
  deadline: number,
): Promise<{ claimed: number; oldestEnqueuedAt: number | undefined }> {
  const zk = control.until(deadline);
  let claimed = 0;
  let oldest: number | undefined;
  for (const priority of prioritiesIn(await zk.children(paths.data))) {
    let first = true;
    let looked = 0;
    for await (const segment of segmentsOf(control, paths, priority, deadline)) {
      const messages = segment.messages.map((message) => `${segment.path}/${messageName(message)}`);
      const live = segment.messages.findIndex((message) => !isExpired(message, now));
      if (first && live >= 0) {
        first = false;
        const node = await zk.find(messages[live] as string);
        const at = node === undefined ? undefined : (decodeMessage(node.data)?.header.e ?? node.stat.ctime);
        if (at !== undefined && (oldest === undefined || at < oldest)) oldest = at;
      }
      const here = await countClaimed(zk, messages);
      claimed += here;
      looked += 1;
      // Messages are claimed in order: behind a segment without a claim there are none, but those that were claimed
      // before others came back, or behind what has expired. Of groups that are held up, what is behind is claimed too.
      if (isGrouped ? looked === WINDOW_SEGMENTS : here === 0 && live >= 0) break;
    }
  }
  return { claimed, oldestEnqueuedAt: oldest };
}

async function countClaimed(zk: BoundClient, messages: readonly string[]): Promise<number> {
  let count = 0;
  for (let i = 0; i < messages.length; i += READ_AT_ONCE) {
    const { results } = await zk.multiRead(
      messages.slice(i, i + READ_AT_ONCE).map((path) => ({ type: 'getChildren', path })),
    );
    for (const result of results) if ('children' in result && result.children.includes('c')) count += 1;
  }
  return count;
}

/** The segments of a priority in order, from that one on, each listed when it is its turn. */
export async function* segmentsOf(
  control: ControlSession,
  paths: QueuePaths,
  priority: number,
  deadline: number,
  from = 0,
): AsyncGenerator<{ number: number; path: string; messages: MessageInSegment[] }> {
  const zk = control.until(deadline);
  for (const number of segmentsIn(await zk.children(paths.priority(priority)))) {
    if (number < from) continue;
    const path = paths.segment(priority, number);
    const segment = await zk.list(path);
    if (segment !== undefined) yield { number, path, messages: messagesIn(segment.children) };
  }
}

async function countWaiting(control: ControlSession, paths: QueuePaths, deadline: number): Promise<number> {
  const zk = control.until(deadline);
  const takers = await zk.children(paths.takers);
  if (takers.length === 0) return 0;
  const { results } = await zk.multiRead(takers.map((name) => ({ type: 'getData', path: `${paths.takers}/${name}` })));
  return results.reduce((sum, result) => sum + ('data' in result ? decodeTaker(result.data).waiting : 0), 0);
}

/** Queues whose messages are counted at the same time. */
const COUNTED_AT_ONCE = 32;

export interface QueueSummary {
  name: string;
  config: QueueConfig;
  paused: boolean;
  depth: number;
  delayed: number;
}

/** In the order of their names. */
export async function listQueues(
  context: Coordination,
  namespace: string,
  page: Page,
  deadline: number,
): Promise<{ items: QueueSummary[]; next: string | undefined }> {
  const { control, layout } = context;
  const directory = layout.queues(namespace);
  const zk = control.until(deadline);
  await zk.sync(directory);
  const names = (await zk.names(directory)).page(page);
  const shown = names.slice(0, page.limit);
  const nodes = await readNodes(
    zk,
    shown.map((name) => `${directory}/${name}`),
  );
  const describe = async (name: string, node: ReadNode | undefined): Promise<QueueSummary[]> => {
    const record = node === undefined ? undefined : decodeQueue(name, node.data);
    if (record === undefined) return [];
    const paths = new QueuePaths(layout.queueData(namespace, record.id));
    const { config, paused = false } = record;
    return [{ name, config, paused, ...(await countMessages(control, paths, deadline)) }];
  };
  const items: QueueSummary[] = [];
  for (let i = 0; i < shown.length; i += COUNTED_AT_ONCE) {
    const batch = shown.slice(i, i + COUNTED_AT_ONCE);
    items.push(...(await Promise.all(batch.map((name, j) => describe(name, nodes[i + j])))).flat());
  }
  return { items, next: names.length > page.limit ? shown.at(-1) : undefined };
}
