/**
 * Removes messages that have expired, or moves them to the dead letters where the queue keeps those (protocol C90).
 *
 * A message that expires says so in its name. So consumers pass it over without reading it, and this finds it by
 * listing the segments: each message is read once, when it has expired. A sealed segment is listed once, and again when
 * the first of its messages has expired: a round costs the same however many messages are in the queue.
 *
 * One that is claimed has a child, without which ZooKeeper deletes nothing: it is its consumer's until the claim ends,
 * which is seen to here where the claim ends by time.
 * One that was claimed before goes with its delivery record, at the version that was read, which every claim raises.
 * Each removal is one transaction, so no crash leaves anything half done: what is left is for the next round.
 *
 * A sealed segment in which nothing is left goes as well: a queue that nobody takes from would keep it for ever.
 */
import { unless } from '../../../zookeeper/errors.js';
import { HOUR } from '../../../time.js';
import type { Sweep } from '../../housekeeping/sweep.js';
import { moveToDeadLetters } from '../ack/dead-letters.js';
import { deliveriesOf, newEntry, type Entry } from '../claim/entry.js';
import { readEntries } from '../claim/read-entries.js';
import { endOverdue } from '../claim/watch.js';
import { isExpired, messageName, messagesIn, prioritiesIn, segmentsIn } from '../paths.js';
import type { Queue } from '../queue.js';
import { MESSAGES_AT_ONCE } from '../transactions.js';
import { deleteAll } from './empty.js';

/** A segment in which nothing expires is looked at again after this: it may have been emptied without a consumer. */
const AGAIN_MS = HOUR;

/** When the first message of each sealed segment expires, by the segment's path: nothing comes there any more. */
export type Sealed = ReadonlyMap<string, number>;

/**
 * @param before what the round before found: of a sealed segment in which nothing has expired since, nothing is read
 * @returns the same for the next round
 */
export async function removeExpired(queue: Queue, sweep: Sweep, before: Sealed | undefined): Promise<Sealed> {
  const { paths } = queue;
  const sealed = new Map<string, number>();
  const now = await queue.ensembleNow(sweep.deadline());
  for (const priority of prioritiesIn(await sweep.children(paths.data))) {
    const segments = segmentsIn(await sweep.children(paths.priority(priority)));
    for (const segment of segments) {
      if (sweep.stopped) return sealed;
      const path = paths.segment(priority, segment);
      const isSealed = segment !== segments.at(-1);
      const known = isSealed ? before?.get(path) : undefined;
      const nextAt =
        known !== undefined && known > now
          ? known
          : await sweepSegment(queue, { priority, segment, isSealed, now }, sweep);
      if (isSealed) sealed.set(path, Math.min(nextAt, now + AGAIN_MS));
    }
  }
  return sealed;
}

/** @returns when there is something to do here again, epoch ms on the ensemble's clock; Infinity: never */
async function sweepSegment(
  queue: Queue,
  { priority, segment, isSealed, now }: { priority: number; segment: number; isSealed: boolean; now: number },
  sweep: Sweep,
): Promise<number> {
  const path = queue.paths.segment(priority, segment);
  const messages = messagesIn(await sweep.children(path));
  let unread = messages
    .filter((message) => isExpired(message, now))
    .map((message) => newEntry({ priority, segment, ...message }, `${path}/${messageName(message)}`));
  const fresh = messages.length - unread.length;
  let nextAt = Infinity;
  for (const { expiresAt = Infinity } of messages) if (expiresAt > now) nextAt = Math.min(nextAt, expiresAt);
  let claimedCount = 0;
  while (unread.length > 0 && !sweep.stopped) {
    const claimed: Entry[] = [];
    await readEntries(queue, unread, (entry) => claimed.push(entry), sweep.deadline());
    await sweep.each(claimed, async (entry) => {
      if (await hasEnded(queue, entry)) entry.state = 'unread';
      else claimedCount += 1;
    });
    const expired = unread.filter(({ state }) => state === 'ready');
    claimedCount += expired.length - (await remove(queue, expired, sweep));
    unread = unread.filter(({ state }) => state === 'unread');
  }
  if (claimedCount > 0 || unread.length > 0) return now;
  // Sealed before it was listed: nothing comes any more, and ZooKeeper refuses should something be left.
  if (isSealed && fresh === 0) await unless(sweep.zk().remove(path), 'NO_NODE', 'NOT_EMPTY');
  return nextAt;
}

/** Whether the time of a claim was over, which is now ended: consumers do not, as they pass over what has expired. */
function hasEnded(queue: Queue, entry: Entry): boolean | Promise<boolean> {
  const { control, context } = queue;
  const now = (): number => context.zooKeeperClock.earliest();
  if ((entry.until ?? Infinity) > now()) return false;
  return endOverdue(entry, { control, now, onExpired: () => queue.count('expire') });
}

/** @returns how many are not there any more */
async function remove(queue: Queue, expired: readonly Entry[], sweep: Sweep): Promise<number> {
  const { maxDeliveries = Infinity, deadLetterExpired } = queue.config;
  let count = 0;
  /** Delivered as often as the queue allows, it would have been a dead letter by now had somebody asked. */
  const isWorn = (entry: Entry): boolean => deliveriesOf(entry) >= maxDeliveries;
  const kept = expired.filter((entry) => isWorn(entry) || deadLetterExpired === true);
  await sweep.each(kept, async (entry) => {
    const cause = isWorn(entry) ? 'claim-ended' : 'expired';
    const moved = await moveToDeadLetters(queue, entry, cause, { deadline: sweep.deadline() });
    if (!moved) return;
    if (cause === 'expired') queue.count('message_expire');
    count += 1;
  });
  const others = expired.filter((entry) => !kept.includes(entry));
  await sweep.batches(others, MESSAGES_AT_ONCE, async (batch) => {
    const deleted = await deleteAll(queue, batch, { deadline: sweep.deadline() });
    queue.count('message_expire', deleted);
    count += deleted;
  });
  return count;
}
