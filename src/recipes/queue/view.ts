/** What everybody may see of queues. Up to date: read after a `sync`, unless asked otherwise. */
import { pageOfNames, type Page } from '../../page.js';
import { unless } from '../../zookeeper/errors.js';
import type { ControlSession } from '../../zookeeper/control-session.js';
import type { MultiReadResult } from '../../zookeeper/operations.js';
import type { Coordination } from '../coordination.js';
import { countMessages } from './depth.js';
import { claimPath, decodeClaim, recordPath } from './entry.js';
import { decodeMessage, type StoredMessage } from './message.js';
import type { QueueConfig } from './queue-config.js';
import {
  dueAtOf,
  messageName,
  messagesIn,
  prioritiesIn,
  QueuePaths,
  segmentsIn,
  type MessagePlace,
} from './queue-paths.js';
import type { Queues } from './queues.js';
import { decodeTaker } from './turn.js';

export interface QueueView {
  name: string;
  /** In the queue, claimed ones among them. */
  depth: number;
  claimed: number;
  delayed: number;
  /** Epoch ms on the ensemble's clock. */
  oldestEnqueuedAt: number | undefined;
  consumersWaiting: number;
  config: QueueConfig;
}

export interface PeekedMessage {
  message: StoredMessage;
  priority: number;
  enqueuedAt: number;
  /** So far. */
  deliveries: number;
  state: 'available' | 'claimed' | 'delayed';
  claimedBy?: string | undefined;
  claimedUntil?: number | undefined;
  dueAt?: number | undefined;
}

const READ_AT_ONCE = 400;
/** Bodies may be large: so few in one reply. */
const PEEK_AT_ONCE = 16;

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
  const [{ depth, delayed }, heads, consumersWaiting] = await Promise.all([
    countMessages(control, paths, deadline),
    readHeads(control, paths, deadline),
    countWaiting(control, paths, deadline),
  ]);
  return { name, depth, delayed, ...heads, consumersWaiting, config: found.record.config };
}

/** Where its messages begin: the oldest one, and how many are claimed. */
async function readHeads(
  control: ControlSession,
  paths: QueuePaths,
  deadline: number,
): Promise<{ claimed: number; oldestEnqueuedAt: number | undefined }> {
  let claimed = 0;
  let oldest: number | undefined;
  const root = await unless(control.getChildren(paths.data, deadline), 'NO_NODE');
  for (const priority of prioritiesIn(root?.children ?? [])) {
    let first = true;
    for await (const segment of segmentsOf(control, paths, priority, deadline)) {
      const messages = segment.sequences.map((sequence) => `${segment.path}/${messageName(sequence)}`);
      if (first && messages.length > 0) {
        first = false;
        const node = await unless(control.getData(messages[0] as string, deadline), 'NO_NODE');
        const at = node === undefined ? undefined : (decodeMessage(node.data)?.header.e ?? node.stat.ctime);
        if (at !== undefined && (oldest === undefined || at < oldest)) oldest = at;
      }
      const here = await countClaimed(control, messages, deadline);
      claimed += here;
      // Messages are claimed in order: behind a segment without a claim there are none, but those that were claimed before others came back.
      if (here === 0 && messages.length > 0) break;
    }
  }
  return { claimed, oldestEnqueuedAt: oldest };
}

async function countClaimed(control: ControlSession, messages: readonly string[], deadline: number): Promise<number> {
  let count = 0;
  for (let i = 0; i < messages.length; i += READ_AT_ONCE) {
    const { results } = await control.multiRead(
      messages.slice(i, i + READ_AT_ONCE).map((path) => ({ type: 'getChildren', path })),
      deadline,
    );
    for (const result of results) if ('children' in result && result.children.includes('c')) count += 1;
  }
  return count;
}

/** The segments of a priority in order, each listed when it is its turn. */
export async function* segmentsOf(
  control: ControlSession,
  paths: QueuePaths,
  priority: number,
  deadline: number,
): AsyncGenerator<{ number: number; path: string; sequences: number[] }> {
  const listing = await unless(control.getChildren(paths.priority(priority), deadline), 'NO_NODE');
  for (const number of segmentsIn(listing?.children ?? [])) {
    const path = paths.segment(priority, number);
    const segment = await unless(control.getChildren(path, deadline), 'NO_NODE');
    if (segment !== undefined) yield { number, path, sequences: messagesIn(segment.children) };
  }
}

async function countWaiting(control: ControlSession, paths: QueuePaths, deadline: number): Promise<number> {
  const takers = (await unless(control.getChildren(paths.takers, deadline), 'NO_NODE'))?.children ?? [];
  if (takers.length === 0) return 0;
  const { results } = await control.multiRead(
    takers.map((name) => ({ type: 'getData', path: `${paths.takers}/${name}` })),
    deadline,
  );
  return results.reduce((sum, result) => sum + ('data' in result ? decodeTaker(result.data).waiting : 0), 0);
}

export interface QueueSummary {
  name: string;
  config: QueueConfig;
  depth: number;
  delayed: number;
}

/** In the order of their names. */
export async function listQueues(
  context: Coordination,
  queues: Queues,
  namespace: string,
  page: Page,
  deadline: number,
): Promise<{ items: QueueSummary[]; next: string | undefined }> {
  const { control, layout } = context;
  const directory = layout.queues(namespace);
  await control.sync(directory, deadline);
  const names = pageOfNames((await unless(control.getChildren(directory, deadline), 'NO_NODE'))?.children ?? [], page);
  const items: QueueSummary[] = [];
  for (const name of names) {
    if (items.length === page.limit) return { items, next: items.at(-1)?.name };
    const found = await queues.read(namespace, name, deadline);
    if (found === undefined) continue;
    const paths = new QueuePaths(layout.queueData(namespace, found.record.id));
    items.push({ name, config: found.record.config, ...(await countMessages(control, paths, deadline)) });
  }
  return { items, next: undefined };
}

/** Where a page of messages ends: the last one of it. */
export type PeekCursor = MessagePlace | { delayed: string };

/** The messages in the order in which they would be delivered, and then those that are not due; nothing is taken. */
export async function peekMessages(
  context: Coordination,
  queues: Queues,
  namespace: string,
  name: string,
  page: { limit: number; after: PeekCursor | undefined },
  deadline: number,
): Promise<{ items: PeekedMessage[]; next: PeekCursor | undefined } | undefined> {
  const { control, layout } = context;
  const found = await queues.read(namespace, name, deadline);
  if (found === undefined) return undefined;
  const paths = new QueuePaths(layout.queueData(namespace, found.record.id));
  const { limit, after } = page;
  const items: PeekedMessage[] = [];
  let last: PeekCursor | undefined;
  /** @returns whether the page is full */
  const add = async (places: readonly PeekCursor[]): Promise<boolean> => {
    for (let i = 0; i < places.length; i += PEEK_AT_ONCE) {
      if (items.length === limit) return true;
      const batch = places.slice(i, i + Math.min(PEEK_AT_ONCE, limit - items.length));
      const read = await readPeeked(control, paths, batch, deadline);
      items.push(...read);
      last = batch.at(-1);
    }
    return false;
  };
  const root = await unless(control.getChildren(paths.data, deadline), 'NO_NODE');
  if (after === undefined || 'priority' in after) {
    for (const priority of prioritiesIn(root?.children ?? [])) {
      if (after !== undefined && priority < after.priority) continue;
      for await (const { number, sequences } of segmentsOf(control, paths, priority, deadline)) {
        const places = sequences
          .map((sequence) => ({ priority, segment: number, sequence }))
          .filter((place) => after === undefined || comparePlaces(place, after) > 0);
        if (await add(places)) return { items, next: last };
      }
    }
  }
  for await (const names of delayedOf(control, paths, deadline)) {
    const places = names
      .map((delayed) => ({ delayed }))
      .filter(({ delayed }) => after === undefined || 'priority' in after || delayed > after.delayed);
    if (await add(places)) return { items, next: last };
  }
  return { items, next: undefined };
}

function comparePlaces(a: MessagePlace, b: MessagePlace): number {
  return a.priority - b.priority || a.segment - b.segment || a.sequence - b.sequence;
}

/** The paths, below the directory of delayed messages, of those of one second after the other. */
async function* delayedOf(control: ControlSession, paths: QueuePaths, deadline: number): AsyncGenerator<string[]> {
  const children = async (path: string): Promise<string[]> =>
    ((await unless(control.getChildren(path, deadline), 'NO_NODE'))?.children ?? []).sort();
  for (const coarse of await children(paths.delayed))
    for (const fine of await children(`${paths.delayed}/${coarse}`))
      yield (await children(`${paths.delayed}/${coarse}/${fine}`)).map((name) => `${coarse}/${fine}/${name}`);
}

async function readPeeked(
  control: ControlSession,
  paths: QueuePaths,
  places: readonly PeekCursor[],
  deadline: number,
): Promise<PeekedMessage[]> {
  const nodes = places.map((place) =>
    'delayed' in place ? `${paths.delayed}/${place.delayed}` : paths.message(place),
  );
  const { results } = await control.multiRead(
    nodes.flatMap((path) => [
      { type: 'getData' as const, path },
      { type: 'getData' as const, path: recordPath(path) },
      { type: 'getData' as const, path: claimPath(path) },
    ]),
    deadline,
  );
  return places.flatMap((place, i) => {
    const [node, record, claim] = results.slice(3 * i, 3 * i + 3) as [
      MultiReadResult,
      MultiReadResult,
      MultiReadResult,
    ];
    const message = 'data' in node ? decodeMessage(node.data) : undefined;
    if (!('data' in node) || message === undefined) return [];
    const held = 'data' in claim ? decodeClaim(claim.data) : undefined;
    const delayed = 'delayed' in place;
    return [
      {
        message,
        priority: delayed ? (message.header.p ?? 0) : place.priority,
        enqueuedAt: message.header.e ?? node.stat.ctime,
        deliveries: (message.header.n ?? 0) + ('data' in record ? record.stat.version + 1 : 0),
        state: delayed ? 'delayed' : 'data' in claim ? 'claimed' : 'available',
        ...(held === undefined ? {} : { claimedBy: held.leaseId, claimedUntil: held.until }),
        ...(delayed ? { dueAt: dueAtOf(place.delayed.slice(place.delayed.lastIndexOf('/') + 1)) } : {}),
      },
    ];
  });
}
