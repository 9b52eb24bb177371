/**
 * Messages that were delivered as often as the queue allows go to its dead-letter queue: deleted here and pushed there in one
 * transaction, with the count of their deliveries at zero and a note where they came from. Redriving is the same the other way round.
 */
import { isReason } from '../../zookeeper/errors.js';
import type { MultiOperation } from '../../zookeeper/operations.js';
import { deliveriesOf, recordPath, type Entry } from './entry.js';
import { encodeMessage, type StoredMessage } from './message.js';
import type { Arrival } from './push-lane.js';
import type { Queue } from './queue.js';
import { PRIORITY_DEFAULT } from './queue-paths.js';
import { QueueGoneError } from './queue-gone.js';

export interface Departure {
  message: StoredMessage;
  /** Epoch ms. */
  enqueuedAt: number;
  deliveries: number;
  /** Takes it away from where it is. */
  removal: MultiOperation[];
  /** Called when that was refused; without it, it could not be taken away. */
  refused?: Refused;
  reason: string | undefined;
}

/** @returns how to take it away instead; or whether it was taken away before, in a transaction whose reply was lost */
export type Refused = () => Promise<MultiOperation[] | boolean>;

/** @returns false when it could not be taken away: somebody else has it, or it is gone */
export async function moveToDeadLetters(
  queue: Queue,
  entry: Entry,
  reason: string | undefined,
  deadline: number,
): Promise<boolean> {
  const { message, enqueuedAt, claims, path } = entry;
  if (message === undefined) return false;
  return deadLetter(
    queue,
    { message, enqueuedAt, deliveries: deliveriesOf(entry), removal: removalOf(path, claims), reason },
    deadline,
  );
}

/** Takes a message away that nobody has claimed. @param claims the version of its delivery record; undefined: it has none */
export function removalOf(path: string, claims: number | undefined): MultiOperation[] {
  const message: MultiOperation = { type: 'delete', path };
  return claims === undefined ? [message] : [{ type: 'delete', path: recordPath(path), version: claims }, message];
}

/** @returns false when it could not be taken away */
export async function deadLetter(
  queue: Queue,
  { message, enqueuedAt, removal, refused, reason }: Departure,
  deadline: number,
): Promise<boolean> {
  const target = queue.config.deadLetterQueue;
  if (target === undefined) return false;
  const header = {
    ...message.header,
    e: enqueuedAt,
    n: undefined,
    p: undefined,
    x: { queue: queue.name, ...(reason === undefined ? {} : { reason }) },
  };
  const data = encodeMessage({ header, body: message.body });
  const moved = await moveTo(queue, target, { data, removal, ...(refused && { refused }) }, deadline);
  if (moved) queue.count('dead_letter');
  return moved;
}

/** Pushes to the queue of that name in the transaction that takes the message away. @returns false when that could not be */
export async function moveTo(
  queue: Queue,
  target: string,
  {
    data,
    removal,
    refused,
    priority,
  }: { data: Buffer; removal: MultiOperation[]; refused?: Refused; priority?: number },
  deadline: number,
): Promise<boolean> {
  for (;;) {
    const other = await queue.queues.openOrCreate(queue.namespace, target, deadline);
    let moved = true;
    try {
      const arrival: Arrival = {
        data,
        priority: other.config.order === 'priority' ? (priority ?? PRIORITY_DEFAULT) : PRIORITY_DEFAULT,
        conditions: removal,
      };
      await other.lane.push({
        arrivals: [arrival],
        deadline,
        refused: async (_index, _operation, error) => {
          if (!isReason(error, 'NO_NODE', 'BAD_VERSION', 'NOT_EMPTY')) throw error;
          const next = (await refused?.()) ?? false;
          if (typeof next === 'boolean') {
            moved = next;
            return [];
          }
          arrival.conditions = next;
          return [arrival];
        },
      });
      return moved;
    } catch (error) {
      if (!(error instanceof QueueGoneError)) throw error;
      await queue.queues.reopen(other, deadline);
    }
  }
}
