/**
 * Pushing messages: all of a request or none, in one transaction.
 *
 * Guarantee: a message that was answered 201 is in the queue; with a messageId it is there once however often it is pushed within the
 *   window, through whichever replica. In one priority, what was pushed before another push began is delivered before it.
 * Not guaranteed: that a push without messageId whose outcome was not learned is not there twice after its repetition.
 *
 * The transaction itself and what becomes of it: `push-lane.ts`.
 */
import { InvalidError, PosternError } from '../../errors.js';
import { afterRefusal, makeMark, markPath, type Mark } from './dedup.js';
import { encodeMessage, newMessageId } from './message.js';
import type { Arrival, Push } from './push-lane.js';
import type { Queue } from './queue.js';
import { PRIORITY_DEFAULT } from './queue-paths.js';
import { QueueGoneError } from './queue-gone.js';
import type { Queues } from './queues.js';
import { bytesOf, bytesOfAll, checkTransaction } from './transactions.js';

/** Longest delay: what makes the directories of delayed messages few. */
export const DELAY_MAX_MS = 7 * 24 * 3_600_000;

export interface NewMessage {
  body: Buffer;
  /** Of a raw body; absent: the body is JSON. */
  contentType?: string | undefined;
  priority?: number | undefined;
  delayMs?: number | undefined;
  messageId?: string | undefined;
  attributes?: Record<string, string> | undefined;
}

export interface Pushed {
  id: string;
  /** It had been pushed before, with the same messageId. */
  duplicate: boolean;
}

/**
 * @returns one per message, in order
 * @throws PosternError `too-large`, `queue-full`, `invalid` before anything is sent; NoReplyError
 */
export async function pushMessages(
  queues: Queues,
  namespace: string,
  name: string,
  messages: readonly NewMessage[],
  deadline: number,
): Promise<Pushed[]> {
  for (;;) {
    const queue = await queues.openOrCreate(namespace, name, deadline);
    try {
      return await pushTo(queue, messages, deadline);
    } catch (error) {
      if (!(error instanceof QueueGoneError)) throw error;
      await queues.reopen(queue, deadline);
    }
  }
}

async function pushTo(queue: Queue, messages: readonly NewMessage[], deadline: number): Promise<Pushed[]> {
  const { order, dedupWindowMs } = queue.config;
  const now = await queue.ensembleNow(deadline);
  const pushed: Pushed[] = [];
  /** Of messageIds that occur in this request already: which message it is. */
  const own = new Map<string, number>();
  const entries: PushedArrival[] = [];
  for (const [index, message] of messages.entries()) {
    const { messageId, priority, delayMs = 0 } = message;
    if (order === 'fifo' && priority !== undefined)
      throw new InvalidError(
        `messages[${index}].priority`,
        priority,
        `absent: queue "${queue.name}" is configured with order "fifo"`,
      );
    const first = messageId === undefined || dedupWindowMs === 0 ? undefined : own.get(messageId);
    if (first !== undefined) {
      pushed.push({ id: (pushed[first] as Pushed).id, duplicate: true });
      continue;
    }
    const id = newMessageId();
    pushed.push({ id, duplicate: false });
    const entry = new PushedArrival(
      index,
      message,
      id,
      priority ?? PRIORITY_DEFAULT,
      delayMs > 0 ? Math.ceil(now + delayMs) : undefined,
    );
    if (messageId !== undefined && dedupWindowMs > 0) {
      own.set(messageId, index);
      entry.mark(markPath(queue.paths, messageId), { id, until: Math.ceil(now + delayMs + dedupWindowMs) });
    }
    entries.push(entry);
  }
  checkTransaction(
    sum(
      entries.map(
        ({ arrival }) =>
          bytesOf({ type: 'create', path: queue.paths.data, data: arrival.data }) + bytesOfAll(arrival.conditions),
      ),
    ),
  );
  await queue.depth.admit(entries.length, deadline);
  let open = entries;
  const push: Push = {
    arrivals: open.map(({ arrival }) => arrival),
    deadline,
    refused: async (index, _operation, error) => {
      const entry = open[index] as PushedArrival;
      const { path, mark } = entry.marked as { path: string; mark: Mark };
      const next = await afterRefusal(queue.control, path, mark, error, await queue.ensembleNow(deadline), deadline);
      if (typeof next !== 'string') {
        entry.arrival.conditions = [next];
      } else if (next === mark.id) {
        // It was this very push, in a transaction whose reply was lost: all of it is there.
        open = [];
      } else {
        for (const [i, { id }] of pushed.entries()) if (id === mark.id) pushed[i] = { id: next, duplicate: true };
        open = open.filter((other) => other !== entry);
      }
      return open.map(({ arrival }) => arrival);
    },
  };
  await queue.lane.push(push);
  queue.count('push', pushed.filter(({ duplicate }) => !duplicate).length);
  queue.depth.pushed(open.length);
  return pushed;
}

/** A message of a request on its way. */
class PushedArrival {
  readonly arrival: Arrival;
  marked: { path: string; mark: Mark } | undefined;

  constructor(
    readonly index: number,
    message: NewMessage,
    id: string,
    priority: number,
    dueAt: number | undefined,
  ) {
    const header = {
      i: id,
      t: message.contentType,
      a: message.attributes,
      p: dueAt === undefined ? undefined : priority,
    };
    this.arrival = { data: encodeMessage({ header, body: message.body }), priority, dueAt, conditions: [] };
  }

  mark(path: string, mark: Mark): void {
    this.marked = { path, mark };
    this.arrival.conditions = [makeMark(path, mark)];
  }
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}

/** @throws PosternError `queue-full` */
export function queueFull(name: string, depth: number, maxDepth: number): PosternError {
  return new PosternError(
    'queue-full',
    `Queue "${name}" has about ${depth} messages; its maxDepth is ${maxDepth}. Nothing was pushed.`,
    { members: { depth, maxDepth } },
  );
}
