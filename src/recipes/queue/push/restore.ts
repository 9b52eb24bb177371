/**
 * Brings messages of a backup back into a queue: with the ids, the times, the deliveries and the notes that they had
 * when they were exported, behind those that are there, in their order (protocol C97).
 *
 * Guarantee: all of a request or none. A message of one id comes back once within a day, however often it is restored,
 *   through whichever replica: a mark under its id is made in the transaction that makes the message, as for a push
 *   with a `messageId` (C26), whatever the `dedupWindowMs` of the queue.
 * Not guaranteed: that a message of that id which is there already, and was not restored, is recognised.
 *
 * The queue's `maxDepth` and `messageTtlMs` do not count: the messages were in a queue before.
 */
import { InvalidError } from '../../../errors.js';
import { DAY, type Awaited } from '../../../time.js';
import { QueueGoneError } from '../gone.js';
import { newMessageId, type DeadLetterNote } from '../message.js';
import { PRIORITY_DEFAULT } from '../paths.js';
import type { Queue, QueueName } from '../queue.js';
import type { Queues } from '../queues.js';
import { markPath } from './dedup.js';
import { checkSize, DELAY_MAX_MS, pushArranged, PushedArrival } from './push.js';
import type { Arranged, Pushed, Times } from './push.js';

/** The longest that a message may have before it expires, by the contract. */
const TTL_MAX_MS = 366 * DAY;
/** For so long an import can be repeated. */
const RESTORED_MS = DAY;

/** A message as a peek has shown it; times are epoch ms on the ensemble's clock. */
export interface RestoredMessage {
  id: string;
  body: Buffer;
  contentType: string | undefined;
  priority: number | undefined;
  group: string | undefined;
  attributes: Record<string, string> | undefined;
  enqueuedAt: number | undefined;
  deliveries: number | undefined;
  dueAt: number | undefined;
  expiresAt: number | undefined;
  deadLetter: DeadLetterNote | undefined;
}

/**
 * @returns one per message, in order
 * @throws PosternError `not-found`, `too-large`, `invalid` before anything is sent; NoReplyError
 */
export async function restoreMessages(
  queues: Queues,
  { namespace, name }: QueueName,
  messages: readonly RestoredMessage[],
  awaited: Awaited,
): Promise<Pushed[]> {
  const { deadline } = awaited;
  for (;;) {
    const queue = await queues.expect(namespace, name, deadline);
    // An import has just configured it, perhaps through another replica; its order says where messages belong.
    if (await queues.isOutdated(queue, deadline)) continue;
    try {
      const pushed = await pushArranged(queue, arrange(queue, messages, await queue.ensembleNow(deadline)), awaited);
      return messages.map(({ id }, i) => ({ id, duplicate: pushed[i]?.duplicate === true }));
    } catch (error) {
      if (!(error instanceof QueueGoneError)) throw error;
      await queues.reopen(queue, deadline);
    }
  }
}

/** @throws InvalidError, PosternError `too-large` */
function arrange(
  { name, config, paths }: Pick<Queue, 'name' | 'config' | 'paths'>,
  messages: readonly RestoredMessage[],
  now: number,
): Arranged {
  const pushed: Pushed[] = [];
  const entries = new Map<string, PushedArrival>();
  for (const [index, message] of messages.entries()) {
    const { id: i, enqueuedAt: e, deliveries: n, deadLetter: x } = message;
    const times = timesOf(message, index, now);
    if (config.order === 'grouped') checkGrouped(name, index, times);
    // Of this request, and not that of the message: a mark that it finds tells whether it has made it itself.
    const id = newMessageId();
    pushed.push({ id, duplicate: entries.has(i) });
    if (entries.has(i)) continue;
    const priority = config.order === 'priority' ? (message.priority ?? PRIORITY_DEFAULT) : PRIORITY_DEFAULT;
    const entry = new PushedArrival({ ...message, kept: { i, e, n, x } }, id, priority, times);
    // No messageId has a slash.
    entry.mark(markPath(paths, `restored/${i}`), { id, until: Math.ceil(now + RESTORED_MS) });
    entries.set(i, entry);
  }
  checkSize(paths, [...entries.values()]);
  return { pushed, entries: [...entries.values()] };
}

/** @throws InvalidError of what no push could have made: directories and names are made of these */
function timesOf({ dueAt, expiresAt }: RestoredMessage, index: number, now: number): Times {
  const check = (field: string, value: number | undefined, maxMs: number, what: string): void => {
    if (value === undefined || value <= now + maxMs) return;
    const rule = `at most ${what} from now on, on the clock of ZooKeeper`;
    throw new InvalidError(`messages[${index}].${field}`, new Date(value).toISOString(), rule);
  };
  check('dueAt', dueAt, DELAY_MAX_MS, 'seven days');
  check('expiresAt', expiresAt, TTL_MAX_MS, '366 days');
  return {
    dueAt: dueAt !== undefined && dueAt > now ? dueAt : undefined,
    expiresAt: expiresAt === undefined ? undefined : Math.max(0, expiresAt),
  };
}

/** @throws InvalidError of what a push to such a queue is refused for as well: see `checkOrder` */
function checkGrouped(name: string, index: number, { dueAt, expiresAt }: Times): void {
  for (const [field, value] of Object.entries({ dueAt, expiresAt })) {
    if (value === undefined) continue;
    const rule = `absent: queue "${name}" has order "grouped", and its groups would lose their order`;
    throw new InvalidError(`messages[${index}].${field}`, new Date(value).toISOString(), rule);
  }
}
