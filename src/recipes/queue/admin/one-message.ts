/**
 * One message, by its id: shown, or removed.
 *
 * Nothing leads from an id to a place (a place has no other name than its number, and a message moves): the messages
 * are looked at in the order of a peek, a bounded number by one request, which says where the next one goes on.
 *
 * A message that is claimed is its consumer's, and is not removed: its node has a child then, without which ZooKeeper
 * deletes nothing. One that was claimed before has a delivery record, which is deleted at the version read, and which
 * every later claim raises.
 */
import { PosternError, StandingConflictError } from '../../../errors.js';
import { instant, type Awaited } from '../../../time.js';
import { isReason } from '../../../zookeeper/errors.js';
import type { Coordination } from '../../coordination.js';
import { removalOf } from '../claim/entry.js';
import type { QueueName } from '../queue.js';
import type { Queues } from '../queues.js';
import { peekMessages, type PeekCursor, type PeekedMessage } from './peek.js';

/** Of a peek, each of so many messages at most, and of about 1 MiB. */
const PAGES_MAX = 10;
const PAGE_MESSAGES = 1_000;
/** So often a message is looked for anew that has changed before it was removed. */
const TRIES_MAX = 5;
/** The answer must be on its way before the request's deadline. */
const MARGIN_MS = 1_000;

export interface Wanted extends QueueName {
  id: string;
  /** Where to begin: behind this one. */
  after: PeekCursor | undefined;
}

/** What a search has come to. */
export interface Search {
  message: PeekedMessage | undefined;
  /** Where to go on when it was not found yet; undefined: everything was looked at. */
  next: PeekCursor | undefined;
}

/** @returns undefined when there is no such queue */
export async function findMessage(
  context: Coordination,
  queues: Queues,
  { id, after, ...queue }: Wanted,
  deadline: number,
): Promise<Search | undefined> {
  let from = after;
  for (let pages = 1; ; pages += 1) {
    const page = await peekMessages(context, queues, queue, { limit: PAGE_MESSAGES, after: from }, deadline);
    if (page === undefined) return undefined;
    const message = page.items.find((item) => item.message.header.i === id);
    const isOver = pages === PAGES_MAX || performance.now() > deadline - MARGIN_MS;
    if (message !== undefined || page.next === undefined || isOver) return { message, next: page.next };
    from = page.next;
  }
}

/**
 * Removes a message that nobody has claimed, from where it is now.
 * @returns as `findMessage`: what was removed, if it was found
 * @throws StandingConflictError when it is claimed; NoReplyError
 */
export async function removeMessage(
  context: Coordination,
  queues: Queues,
  wanted: Wanted,
  { deadline, requester }: Awaited,
): Promise<Search | undefined> {
  const zk = context.control.writingFor(requester).until(deadline);
  for (let tries = 0; tries < TRIES_MAX; tries += 1) {
    const search = await findMessage(context, queues, wanted, deadline);
    if (search?.message === undefined) return search;
    const { state, path, claims } = search.message;
    if (state === 'claimed') throw claimed(wanted, search.message);
    try {
      await zk.multi(removalOf(path, claims));
    } catch (error) {
      // It was claimed, settled, popped or moved meanwhile: looked for again, where it may be now.
      if (!isReason(error, 'NO_NODE', 'NOT_EMPTY', 'BAD_VERSION')) throw error;
      continue;
    }
    context.metrics.queueMessagesTotal.inc({ op: 'purge' });
    return search;
  }
  const { name, id } = wanted;
  throw new PosternError(
    'conflict',
    `Message "${id}" of queue "${name}" changed each time that it was to be removed.`,
    {
      members: { id },
    },
  );
}

function claimed({ name, id }: Wanted, { claimedBy, claimedUntil }: PeekedMessage): PosternError {
  const until = claimedUntil === undefined ? {} : { claimedUntil: instant(claimedUntil) };
  return new StandingConflictError(
    `Message "${id}" of queue "${name}" is claimed by lease "${claimedBy ?? ''}"; it can be removed when it was given back, or its claim has ended.`,
    { id, ...(claimedBy === undefined ? {} : { claimedBy }), ...until },
  );
}
