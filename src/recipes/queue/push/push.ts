/**
 * Pushes messages: all of a request or none, in one transaction.
 *
 * Guarantee: a message that was answered 201 is in the queue; with a messageId, or as part of a request that one
 *   principal repeats with its Idempotency-Key, it is there once however often it is pushed within the window, through
 *   whichever replica. In one priority, what was pushed before another push began is delivered before it.
 * Not guaranteed: that a push without either, repeated because its outcome was unknown, is in the queue only once.
 *
 * `lane.ts` has the transaction itself and its outcomes.
 */
import { InvalidError } from '../../../errors.js';
import type { Awaited } from '../../../time.js';
import type { Attempt } from '../../marks.js';
import { afterRefusal, makeMark, markPath, readMarks, type Marked } from './dedup.js';
import { encodeMessage, newMessageId, type MessageHeader } from '../message.js';
import type { Arrival, Push } from './pending.js';
import type { Queue } from '../queue.js';
import type { QueueConfig } from '../config.js';
import { groupHash, PRIORITY_DEFAULT } from '../paths.js';
import { checkOrder } from './order.js';
import { QueueGoneError } from '../gone.js';
import type { Queues } from '../queues.js';
import { bytesOf, bytesOfAll } from '../../../zookeeper/operations/bytes.js';
import { checkTransaction } from '../transactions.js';
import type { MultiOperation } from '../../../zookeeper/operations.js';

/** Longest delay: what makes the directories of delayed messages few. */
export const DELAY_MAX_MS = 7 * 24 * 3_600_000;

/** Where only the size matters. */
const ANY_INSTANT = 10 ** 12;

export interface NewMessage {
  body: Buffer;
  /** Of a raw body; absent: the body is JSON. */
  contentType?: string | undefined;
  priority?: number | undefined;
  /** In a queue whose order is `grouped`: what is of one group is delivered one after the other. */
  group?: string | undefined;
  delayMs?: number | undefined;
  /** It is delivered before this time after the push, or not at all; ms. The queue may have less for it. */
  expiresInMs?: number | undefined;
  messageId?: string | undefined;
  /** What it is known by without a messageId: the request, and which of its messages it is. */
  attempt?: Attempt | undefined;
  attributes?: Record<string, string> | undefined;
  /** What has to be done in the transaction that pushes it: refused, the push fails with what ZooKeeper answered. */
  guards?: readonly MultiOperation[];
}

export interface Pushed {
  id: string;
  /** It had been pushed before, with the same messageId or the same request. */
  duplicate: boolean;
}

/**
 * @returns one per message, in order
 * @throws PosternError `too-large`, `queue-full`, `invalid` before anything is sent; ZooKeeperError of a refused guard;
 *   NoReplyError
 */
export async function pushMessages(
  queues: Queues,
  namespace: string,
  name: string,
  messages: readonly NewMessage[],
  awaited: Awaited,
): Promise<Pushed[]> {
  const { deadline } = awaited;
  for (;;) {
    let queue = await queues.find(namespace, name, deadline);
    if (queue === undefined) {
      // What is refused makes no queue.
      arrange(queues.unmade(namespace, name), messages, ANY_INSTANT);
      queue = await queues.openOrCreate(namespace, name, deadline, awaited.requester);
    }
    try {
      return await pushTo(queue, messages, awaited);
    } catch (error) {
      if (error instanceof QueueGoneError) await queues.reopen(queue, deadline);
      // It may have been configured otherwise a moment ago: not refused by what is not known to be up to date.
      else if (!(error instanceof InvalidError) || !(await queues.isOutdated(queue, deadline))) throw error;
    }
  }
}

/** The messages of a request, and what is answered when all of them are pushed. */
export interface Arranged {
  pushed: Pushed[];
  entries: PushedArrival[];
}

/**
 * @param now epoch ms on the ensemble's clock
 * @throws InvalidError, PosternError `too-large`
 */
function arrange(
  { name, config, paths }: Pick<Queue, 'name' | 'config' | 'paths'>,
  messages: readonly NewMessage[],
  now: number,
): Arranged {
  const { dedupWindowMs } = config;
  const pushed: Pushed[] = [];
  /** Of messageIds that occur in this request already: which message it is. */
  const own = new Map<string, number>();
  const entries: PushedArrival[] = [];
  for (const [index, message] of messages.entries()) {
    const { messageId, attempt, priority, delayMs = 0 } = message;
    checkOrder(name, config.order, message, index);
    const first = messageId === undefined || dedupWindowMs === 0 ? undefined : own.get(messageId);
    if (first !== undefined) {
      pushed.push({ id: (pushed[first] as Pushed).id, duplicate: true });
      continue;
    }
    const id = newMessageId();
    pushed.push({ id, duplicate: false });
    const times = timesOf(message, index, config, now);
    const entry = new PushedArrival(message, id, priority ?? PRIORITY_DEFAULT, times);
    const knownBy = messageId ?? attempt?.id;
    if (knownBy !== undefined && dedupWindowMs > 0) {
      if (messageId !== undefined) own.set(messageId, index);
      const fingerprint = messageId === undefined ? attempt?.fingerprint : undefined;
      entry.mark(markPath(paths, knownBy), { id, until: Math.ceil(now + delayMs + dedupWindowMs), fingerprint });
    }
    entries.push(entry);
  }
  checkSize(paths, entries);
  return { pushed, entries };
}

/** @throws PosternError `too-large` where these do not fit into one transaction */
export function checkSize({ data: path }: Queue['paths'], entries: readonly PushedArrival[]): void {
  checkTransaction(
    sum(
      entries.map(
        ({ arrival }) => bytesOf({ type: 'create', path, data: arrival.data }) + bytesOfAll(arrival.conditions),
      ),
    ),
  );
}

/** When a message is due, where it is delayed, and when it expires, if it does; epoch ms on the ensemble's clock. */
export interface Times {
  dueAt: number | undefined;
  expiresAt: number | undefined;
}

/** @throws InvalidError of a message that would expire before it is due */
function timesOf(
  { delayMs = 0, expiresInMs = Infinity, contentType }: NewMessage,
  index: number,
  { messageTtlMs = Infinity }: QueueConfig,
  now: number,
): Times {
  const ttlMs = Math.min(expiresInMs, messageTtlMs);
  if (ttlMs <= delayMs)
    throw new InvalidError(
      contentType === undefined ? `messages[${index}].delayMs` : 'delayMs',
      delayMs,
      `less than ${ttlMs}, ${expiresInMs <= messageTtlMs ? 'its expiresInMs' : 'the messageTtlMs of the queue'}: the message would expire before it is due`,
      contentType === undefined ? {} : { in: 'query' },
    );
  return {
    dueAt: delayMs > 0 ? Math.ceil(now + delayMs) : undefined,
    expiresAt: ttlMs === Infinity ? undefined : Math.ceil(now + ttlMs),
  };
}

async function pushTo(queue: Queue, messages: readonly NewMessage[], awaited: Awaited): Promise<Pushed[]> {
  const { deadline } = awaited;
  const { pushed, entries } = arrange(queue, messages, await queue.ensembleNow(deadline));
  try {
    await queue.depth.admit(entries.length, deadline);
  } catch (error) {
    // What only repeats a push that filled the queue is not refused: it takes no room.
    const known = await knownAlready(queue, entries, deadline);
    if (known.size === 0) throw error;
    const open = withoutKnown({ pushed, entries }, known);
    if (open.length > 0) await queue.depth.admit(open.length, deadline);
    return pushArranged(queue, { pushed, entries: open }, awaited);
  }
  return pushArranged(queue, { pushed, entries }, awaited);
}

/**
 * Those that are still to be pushed; of the others it is noted in `pushed` which messages they repeat.
 * @param known by the ids that they were given here, those of the messages that they repeat
 */
function withoutKnown({ pushed, entries }: Arranged, known: ReadonlyMap<string, string>): PushedArrival[] {
  for (const [i, item] of pushed.entries()) {
    const id = known.get(item.id);
    if (id !== undefined) pushed[i] = { id, duplicate: true };
  }
  return entries.filter(({ id }) => !known.has(id));
}

/**
 * Sends them, whatever the queue's `maxDepth`.
 * @returns what is answered
 */
export async function pushArranged(
  queue: Queue,
  { pushed, entries }: Arranged,
  { deadline, requester }: Awaited,
): Promise<Pushed[]> {
  let open = entries;
  if (open.length === 0) return pushed;
  const push: Push = {
    arrivals: open.map(({ arrival }) => arrival),
    deadline,
    requester,
    refused: async (index, operation, error) => {
      if (operation < (open[index]?.guards.length ?? 0)) throw error;
      const marked = markedOf(open);
      const marks = marked.map((entry) => entry.marked);
      const next = await afterRefusal(queue.control, marks, error, await queue.ensembleNow(deadline), deadline);
      const known = new Map<string, string>();
      for (const [i, { id, arrival, guards }] of marked.entries()) {
        const then = next[i] as MultiOperation | string;
        if (typeof then === 'string') known.set(id, then);
        else arrival.conditions = [...guards, then];
      }
      // It was this very push, in a transaction whose reply was lost: all of it is there.
      if (marked.some(({ id }) => known.get(id) === id)) open = [];
      else open = withoutKnown({ pushed, entries: open }, known);
      return open.map(({ arrival }) => arrival);
    },
  };
  await queue.lane.push(push);
  queue.count('push', pushed.filter(({ duplicate }) => !duplicate).length);
  queue.depth.pushed(open.length);
  return pushed;
}

/** The ids of those whose mark counts still, and of the messages that they repeat. */
async function knownAlready(
  queue: Queue,
  entries: readonly PushedArrival[],
  deadline: number,
): Promise<Map<string, string>> {
  const marked = markedOf(entries);
  const known = new Map<string, string>();
  if (marked.length === 0) return known;
  const earlier = await readMarks(
    queue.control,
    marked.map((entry) => entry.marked),
    await queue.ensembleNow(deadline),
    deadline,
  );
  for (const [i, entry] of marked.entries()) {
    const found = earlier[i];
    if (found !== undefined && 'id' in found) known.set(entry.id, found.id);
  }
  return known;
}

type MarkedArrival = PushedArrival & { marked: Marked };

function markedOf(entries: readonly PushedArrival[]): MarkedArrival[] {
  return entries.filter((entry): entry is MarkedArrival => entry.marked !== undefined);
}

/** A message of a request on its way. */
export class PushedArrival {
  readonly arrival: Arrival;
  readonly guards: readonly MultiOperation[];
  marked: Marked | undefined;

  /** @param message `kept` is what it has from an earlier life in a queue; @param id of this push of it */
  constructor(
    message: Pick<NewMessage, 'body' | 'contentType' | 'group' | 'attributes' | 'guards'> & {
      kept?: Pick<MessageHeader, 'i' | 'e' | 'n' | 'x'>;
    },
    readonly id: string,
    priority: number,
    { dueAt, expiresAt }: Times,
  ) {
    const header = {
      i: id,
      t: message.contentType,
      a: message.attributes,
      g: message.group,
      p: dueAt === undefined ? undefined : priority,
      u: dueAt === undefined ? undefined : expiresAt,
      ...message.kept,
    };
    this.guards = message.guards ?? [];
    const data = encodeMessage({ header, body: message.body });
    const group = message.group === undefined ? undefined : groupHash(message.group);
    this.arrival = { data, priority, dueAt, expiresAt, group, conditions: [...this.guards] };
  }

  mark(path: string, mark: Marked['mark']): void {
    this.marked = { path, mark };
    this.arrival.conditions = [...this.guards, makeMark(path, mark)];
  }
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}
