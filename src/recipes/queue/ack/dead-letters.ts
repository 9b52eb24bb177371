/**
 * A message that was delivered as often as the queue allows, or that has expired where the queue keeps those, goes to
 * the dead-letter queue: one transaction deletes it here and pushes it there, with a note of what it was here. In the
 * dead-letter queue it is new: its time of arrival, its deliveries and its time to live are counted from there.
 * Redriving is the reverse, with the priority from the note.
 */
import type { Bounded } from '../../../time.js';
import type { MultiOperation } from '../../../zookeeper/operations.js';
import { deliveriesOf, removalOf, type Entry } from '../claim/entry.js';
import {
  decodeMessage,
  encodeMessage,
  type DeadLetterCause,
  type DeadLetterNote,
  type StoredMessage,
} from '../message.js';
import type { Arrival } from '../push/pending.js';
import type { Queue } from '../queue.js';
import { groupHash, PRIORITY_DEFAULT } from '../paths.js';
import { QueueGoneError } from '../gone.js';
import { relocate, type Refused } from './relocate.js';

export interface Departure {
  message: StoredMessage;
  priority: number;
  /** Epoch ms. */
  enqueuedAt: number;
  deliveries: number;
  cause: DeadLetterCause;
  /** Takes it away from where it is. */
  removal: MultiOperation[];
  /** Called when that was refused; without it, it could not be taken away. */
  refused?: Refused;
  reason: string | undefined;
}

/**
 * Of a message that nobody has claimed.
 * @returns false when it could not be taken away: somebody else has it, or it is gone
 */
export async function moveToDeadLetters(
  queue: Queue,
  entry: Entry,
  cause: DeadLetterCause,
  bounds: Bounded,
): Promise<boolean> {
  const { message, priority, enqueuedAt, claims, path } = entry;
  if (message === undefined) return false;
  const deliveries = deliveriesOf(entry);
  const removal = removalOf(path, claims);
  const departure: Departure = {
    message,
    priority,
    enqueuedAt,
    deliveries,
    cause,
    reason: undefined,
    removal,
  };
  return deadLetter(queue, departure, bounds);
}

/** @returns false when it could not be taken away */
export async function deadLetter(
  queue: Queue,
  { message, removal, refused, ...was }: Departure,
  bounds: Bounded,
): Promise<boolean> {
  const target = queue.config.deadLetterQueue;
  if (target === undefined) return false;
  const priority = priorityOf(message, was.priority);
  const data = renewed(message, { queue: queue.name, ...was, priority });
  const moved = await moveTo(queue, target, { data, removal, priority, ...(refused && { refused }) }, bounds);
  if (moved) queue.count('dead_letter');
  return moved;
}

/** As a message that comes into another queue; `note` says what it was in this one. */
export function renewed({ header, body }: StoredMessage, note?: DeadLetterNote): Buffer {
  return encodeMessage({
    header: { ...header, e: undefined, n: undefined, p: undefined, u: undefined, x: note },
    body,
  });
}

/** Of a dead letter the one that it came with: the queue that it is in may have none. */
export function priorityOf({ header }: StoredMessage, here: number): number {
  return header.x?.priority ?? here;
}

/**
 * Pushes to the queue of that name in the transaction that takes the message away.
 * @returns false when that could not be
 */
export async function moveTo(
  queue: Queue,
  target: string,
  {
    data,
    removal,
    refused,
    priority,
  }: { data: Buffer; removal: MultiOperation[]; refused?: Refused; priority: number },
  bounds: Bounded,
): Promise<boolean> {
  const group = decodeMessage(data)?.header.g; // it keeps its group, for when it is redriven
  for (;;) {
    const other = await queue.queues.openOrCreate(queue.namespace, target, bounds.deadline, bounds.requester);
    const { messageTtlMs } = other.config;
    try {
      const arrival: Arrival = {
        data,
        priority: other.config.order === 'priority' ? priority : PRIORITY_DEFAULT,
        expiresAt: messageTtlMs && Math.ceil((await other.ensembleNow(bounds.deadline)) + messageTtlMs),
        group: group === undefined ? undefined : groupHash(group),
        conditions: removal,
      };
      return await relocate(other.lane, arrival, refused, bounds);
    } catch (error) {
      if (!(error instanceof QueueGoneError)) throw error;
      await queue.queues.reopen(other, bounds.deadline);
    }
  }
}
