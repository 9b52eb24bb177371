/**
 * Looks into a queue without taking anything: page by page, each of a bounded size, however large the messages are. Up
 * to date: read after a `sync`.
 */
import type { BoundClient } from '../../../zookeeper/bound.js';
import type { ControlSession } from '../../../zookeeper/control-session.js';
import type { MultiReadResult } from '../../../zookeeper/operations.js';
import { ensembleNow } from '../../../zookeeper/ensemble-time.js';
import type { Coordination } from '../../coordination.js';
import { claimPath, decodeClaim, recordPath } from '../claim/entry.js';
import { decodeMessage, type StoredMessage } from '../message.js';
import { comparePlaces, dueAtOf, isExpired, prioritiesIn, QueuePaths, type MessagePlace } from '../paths.js';
import type { QueueName } from '../queue.js';
import type { Queues } from '../queues.js';
import { ANSWER_BYTES_MAX } from '../claim/room.js';
import { segmentsOf } from './view.js';

export interface PeekedMessage {
  message: StoredMessage;
  priority: number;
  enqueuedAt: number;
  /** So far. */
  deliveries: number;
  expiresAt: number | undefined;
  state: 'available' | 'claimed' | 'delayed' | 'expired';
  claimedBy?: string | undefined;
  claimedUntil?: number | undefined;
  dueAt?: number | undefined;
  /** Its node, and the version of its delivery record; undefined: it was never claimed. */
  path: string;
  claims: number | undefined;
}

/** Of so many the sizes are asked for at once, and then those read that fit. */
const PEEK_AT_ONCE = 100;
/** Directories of delayed messages whose Stats are read in one request: the answer stays below 64 KB. */
const STATS_AT_ONCE = 400;
/** What is listed of them in one request, about a page; one that has more is listed alone. */
const LISTED_AT_ONCE = 1_000;

/** Where a page of messages ends: the last one of it. */
export type PeekCursor = MessagePlace | { delayed: string };

/** Behind it there are only messages that are not due yet. */
export const BEFORE_DELAYED: PeekCursor = { delayed: '' };

/** The messages in the order in which they would be delivered, and then those that are not due; nothing is taken. */
export async function peekMessages(
  context: Coordination,
  queues: Queues,
  { namespace, name }: QueueName,
  page: { limit: number; after: PeekCursor | undefined },
  deadline: number,
): Promise<{ items: PeekedMessage[]; next: PeekCursor | undefined } | undefined> {
  const { control, layout } = context;
  const found = await queues.read(namespace, name, deadline);
  if (found === undefined) return undefined;
  const paths = new QueuePaths(layout.queueData(namespace, found.record.id));
  const { after } = page;
  const now = await ensembleNow(context, deadline);
  // Set aside once for the whole page: pages that each had some of it and waited for more would wait for each other.
  return control.largeReads.spend(ANSWER_BYTES_MAX, deadline, async () => {
    const filling = new Filling(control, paths, { limit: page.limit, now }, deadline);
    for await (const places of placesBehind(control, paths, after, deadline))
      if (await filling.add(places)) return { items: filling.items, next: filling.last };
    return { items: filling.items, next: undefined };
  });
}

/** A page that is being filled. */
class Filling {
  readonly items: PeekedMessage[] = [];
  last: PeekCursor | undefined;
  readonly #control: ControlSession;
  readonly #paths: QueuePaths;
  readonly #limit: number;
  readonly #now: number;
  readonly #deadline: number;
  #room = ANSWER_BYTES_MAX;

  /** @param now what has expired by then is shown so; epoch ms on the ensemble's clock */
  constructor(
    control: ControlSession,
    paths: QueuePaths,
    { limit, now }: { limit: number; now: number },
    deadline: number,
  ) {
    this.#control = control;
    this.#paths = paths;
    this.#limit = limit;
    this.#now = now;
    this.#deadline = deadline;
  }

  /** @returns whether the page is full, and there are more */
  async add(places: readonly PeekCursor[]): Promise<boolean> {
    for (let i = 0; i < places.length;) {
      const left = this.#limit - this.items.length;
      if (left === 0) return true;
      const batch = await this.#fitting(places.slice(i, i + Math.min(PEEK_AT_ONCE, left)));
      if (batch.length === 0) return true;
      this.items.push(...(await readPeeked(this.#control, this.#paths, batch, this.#now, this.#deadline)));
      this.last = batch.at(-1);
      i += batch.length;
    }
    return false;
  }

  /**
   * The first of these for whose bodies there is room. One alone has room whatever its size; what has been taken
   * meanwhile needs none.
   */
  async #fitting(places: readonly PeekCursor[]): Promise<PeekCursor[]> {
    const stats = await Promise.all(
      places.map((place) => this.#control.exists(pathOf(this.#paths, place), this.#deadline)),
    );
    const fitting: PeekCursor[] = [];
    for (const [i, place] of places.entries()) {
      const bytes = stats[i]?.dataLength ?? 0;
      if (bytes > this.#room && this.#room < ANSWER_BYTES_MAX) break;
      this.#room -= bytes;
      fitting.push(place);
    }
    return fitting;
  }
}

/** The places behind that one, as many at a time as are listed together. */
async function* placesBehind(
  control: ControlSession,
  paths: QueuePaths,
  after: PeekCursor | undefined,
  deadline: number,
): AsyncGenerator<PeekCursor[]> {
  const root = await control.until(deadline).children(paths.data);
  if (after === undefined || 'priority' in after) {
    for (const priority of prioritiesIn(root)) {
      if (after !== undefined && priority < after.priority) continue;
      const from = priority === after?.priority ? after.segment : 0;
      for await (const { number, messages } of segmentsOf(control, paths, priority, deadline, from)) {
        yield messages
          .map((message) => ({ priority, segment: number, ...message }))
          .filter((place) => after === undefined || comparePlaces(place, after) > 0);
      }
    }
  }
  const last = after !== undefined && 'delayed' in after ? after.delayed : '';
  for await (const names of delayedBehind(control.until(deadline), paths.delayed, last))
    yield names.map((delayed) => ({ delayed }));
}

/**
 * The paths, below the directory of delayed messages, of those behind `last`, in order. There may be a directory for
 * each second of days: those in front are not looked at, and of the others many are listed together.
 */
async function* delayedBehind(zk: BoundClient, root: string, last: string): AsyncGenerator<string[]> {
  // Names have as many digits for any time from 2003 to 2286: in order of time they are in order as text.
  const behind = (paths: readonly string[]): string[] =>
    paths.filter((path) => path >= last.slice(0, path.length)).sort();
  for await (const seconds of childrenOf(zk, root, behind(await zk.children(root))))
    for await (const messages of childrenOf(zk, root, behind(seconds)))
      yield messages.filter((path) => path > last).sort();
}

/** The paths of what is in these directories, of as many at a time as are listed together; all are below `root`. */
async function* childrenOf(zk: BoundClient, root: string, directories: readonly string[]): AsyncGenerator<string[]> {
  for (let i = 0; i < directories.length; i += STATS_AT_ONCE) {
    const batch = directories.slice(i, i + STATS_AT_ONCE);
    const { results } = await zk.multiRead(batch.map((path) => ({ type: 'getData', path: `${root}/${path}` })));
    let together: string[] = [];
    let count = 0;
    for (const [j, result] of results.entries()) {
      const children = 'stat' in result ? result.stat.numChildren : 0;
      if (children === 0) continue;
      if (together.length > 0 && count + children > LISTED_AT_ONCE) {
        yield await listAll(zk, root, together);
        [together, count] = [[], 0];
      }
      together.push(batch[j] as string);
      count += children;
    }
    if (together.length > 0) yield await listAll(zk, root, together);
  }
}

async function listAll(zk: BoundClient, root: string, directories: readonly string[]): Promise<string[]> {
  const { results } = await zk.multiRead(directories.map((path) => ({ type: 'getChildren', path: `${root}/${path}` })));
  return results.flatMap((result, i) =>
    'children' in result ? result.children.map((name) => `${directories[i] as string}/${name}`) : [],
  );
}

function pathOf(paths: QueuePaths, place: PeekCursor): string {
  return 'delayed' in place ? `${paths.delayed}/${place.delayed}` : paths.message(place);
}

async function readPeeked(
  control: ControlSession,
  paths: QueuePaths,
  places: readonly PeekCursor[],
  now: number,
  deadline: number,
): Promise<PeekedMessage[]> {
  const nodes = places.map((place) => pathOf(paths, place));
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
    const expiresAt = delayed ? message.header.u : place.expiresAt;
    const waiting = isExpired({ expiresAt }, now) ? 'expired' : delayed ? 'delayed' : 'available';
    return [
      {
        message,
        priority: delayed ? (message.header.p ?? 0) : place.priority,
        enqueuedAt: message.header.e ?? node.stat.ctime,
        deliveries: (message.header.n ?? 0) + ('data' in record ? record.stat.version + 1 : 0),
        expiresAt,
        state: 'data' in claim ? 'claimed' : waiting,
        ...(held === undefined ? {} : { claimedBy: held.leaseId, claimedUntil: held.until }),
        path: nodes[i] as string,
        claims: 'data' in record ? record.stat.version : undefined,
        ...(delayed ? { dueAt: dueAtOf(place.delayed.slice(place.delayed.lastIndexOf('/') + 1)) } : {}),
      },
    ];
  });
}
