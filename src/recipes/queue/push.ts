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
import { afterRefusal, makeMark, markPath, readMarks, type Mark } from './dedup.js';
import { encodeMessage, newMessageId } from './message.js';
import type { Arrival, Push } from './push-lane.js';
import type { Queue } from './queue.js';
import { PRIORITY_DEFAULT } from './queue-paths.js';
import { QueueGoneError } from './queue-gone.js';
import type { Queues } from './queues.js';
import { bytesOf, bytesOfAll, checkTransaction } from './transactions.js';

/** Longest delay: what makes the directories of delayed messages few. */
export const DELAY_MAX_MS = 7 * 24 * 3_600_000;

/** Where only the size matters. */
const ANY_INSTANT = 10 ** 12;

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
    let queue = await queues.find(namespace, name, deadline);
    if (queue === undefined) {
      // What is refused makes no queue.
      arrange(queues.unmade(namespace, name), messages, ANY_INSTANT);
      queue = await queues.openOrCreate(namespace, name, deadline);
    }
    try {
      return await pushTo(queue, messages, deadline);
    } catch (error) {
      if (error instanceof QueueGoneError) await queues.reopen(queue, deadline);
      // It may have been configured otherwise a moment ago: not refused by what is not known to be up to date.
      else if (!(error instanceof InvalidError) || !(await queues.isOutdated(queue, deadline))) throw error;
    }
  }
}

/** The messages of a request, and what is answered when all of them are pushed. */
interface Arranged {
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
  const { order, dedupWindowMs } = config;
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
        `absent: queue "${name}" is configured with order "fifo"`,
      );
    const first = messageId === undefined || dedupWindowMs === 0 ? undefined : own.get(messageId);
    if (first !== undefined) {
      pushed.push({ id: (pushed[first] as Pushed).id, duplicate: true });
      continue;
    }
    const id = newMessageId();
    pushed.push({ id, duplicate: false });
    const entry = new PushedArrival(
      message,
      id,
      priority ?? PRIORITY_DEFAULT,
      delayMs > 0 ? Math.ceil(now + delayMs) : undefined,
    );
    if (messageId !== undefined && dedupWindowMs > 0) {
      own.set(messageId, index);
      entry.mark(markPath(paths, messageId), { id, until: Math.ceil(now + delayMs + dedupWindowMs) });
    }
    entries.push(entry);
  }
  checkTransaction(
    sum(
      entries.map(
        ({ arrival }) =>
          bytesOf({ type: 'create', path: paths.data, data: arrival.data }) + bytesOfAll(arrival.conditions),
      ),
    ),
  );
  return { pushed, entries };
}

async function pushTo(queue: Queue, messages: readonly NewMessage[], deadline: number): Promise<Pushed[]> {
  const { pushed, entries } = arrange(queue, messages, await queue.ensembleNow(deadline));
  let open = entries;
  const isKnown = (entry: PushedArrival, id: string): void => {
    for (const [i, item] of pushed.entries()) if (item.id === entry.id) pushed[i] = { id, duplicate: true };
    open = open.filter((other) => other !== entry);
  };
  try {
    await queue.depth.admit(open.length, deadline);
  } catch (error) {
    // What only repeats a push that filled the queue is not refused: it takes no room.
    const known = await knownAlready(queue, open, deadline);
    if (known.size === 0) throw error;
    for (const [entry, id] of known) isKnown(entry, id);
    if (open.length > 0) await queue.depth.admit(open.length, deadline);
  }
  if (open.length === 0) return pushed;
  const push: Push = {
    arrivals: open.map(({ arrival }) => arrival),
    deadline,
    refused: async (index, _operation, error) => {
      const entry = open[index] as PushedArrival;
      const { path, mark } = entry.marked as { path: string; mark: Mark };
      const next = await afterRefusal(queue.control, path, mark, error, await queue.ensembleNow(deadline), deadline);
      if (typeof next !== 'string') entry.arrival.conditions = [next];
      // It was this very push, in a transaction whose reply was lost: all of it is there.
      else if (next === mark.id) open = [];
      else isKnown(entry, next);
      return open.map(({ arrival }) => arrival);
    },
  };
  await queue.lane.push(push);
  queue.count('push', pushed.filter(({ duplicate }) => !duplicate).length);
  queue.depth.pushed(open.length);
  return pushed;
}

/** Those whose messageId counts still, and the ids of the messages that were pushed with it. */
async function knownAlready(
  queue: Queue,
  entries: readonly PushedArrival[],
  deadline: number,
): Promise<Map<PushedArrival, string>> {
  const marked = entries.filter(({ marked }) => marked !== undefined);
  const known = new Map<PushedArrival, string>();
  if (marked.length === 0) return known;
  const ids = await readMarks(
    queue.control,
    marked.map(({ marked }) => (marked as { path: string }).path),
    await queue.ensembleNow(deadline),
    deadline,
  );
  for (const [i, entry] of marked.entries()) {
    const id = ids[i];
    if (id !== undefined) known.set(entry, id);
  }
  return known;
}

/** A message of a request on its way. */
class PushedArrival {
  readonly arrival: Arrival;
  marked: { path: string; mark: Mark } | undefined;

  constructor(
    message: NewMessage,
    readonly id: string,
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
