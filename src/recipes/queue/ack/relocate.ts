/**
 * Moves a message: one transaction removes it from its place and pushes it to its destination. A refusal concerns the
 * removal, and the caller knows what it means.
 */
import type { Bounded } from '../../../time.js';
import { isReason } from '../../../zookeeper/errors.js';
import type { MultiOperation } from '../../../zookeeper/operations.js';
import type { PushLane } from '../push/lane.js';
import type { Arrival } from '../push/pending.js';

/** @returns how to take it away instead; or whether it was taken away before, in a transaction whose reply was lost */
export type Refused = () => Promise<MultiOperation[] | boolean>;

/**
 * @param lane of the queue that it goes to
 * @param arrival its conditions take it away from where it is
 * @param refused called when that was refused; without it, it could not be taken away
 * @returns false when it could not be taken away
 * @throws QueueGoneError, NoReplyError
 */
export async function relocate(
  lane: PushLane,
  arrival: Arrival,
  refused: Refused | undefined,
  { deadline, requester }: Bounded,
): Promise<boolean> {
  let moved = true;
  await lane.push({
    arrivals: [arrival],
    deadline,
    requester,
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
}
