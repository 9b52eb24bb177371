/** What a queue's order demands of the messages that are pushed to it. */
import { InvalidError } from '../../../errors.js';
import type { QueueOrder } from '../config.js';

export interface OrderedMessage {
  /** Of a raw body. */
  contentType?: string | undefined;
  priority?: number | undefined;
  group?: string | undefined;
  delayMs?: number | undefined;
  expiresInMs?: number | undefined;
}

/**
 * @param name of the queue
 * @param index of the message in its request
 * @throws InvalidError
 */
export function checkOrder(name: string, order: QueueOrder, message: OrderedMessage, index: number): void {
  const { priority, group, delayMs = 0, expiresInMs } = message;
  const refuse = (field: string, value: unknown, rule: string): never => {
    const isRaw = message.contentType !== undefined;
    throw new InvalidError(isRaw ? field : `messages[${index}].${field}`, value, rule, isRaw ? { in: 'query' } : {});
  };
  const has = `queue "${name}" has order "${order}"`;
  if (order !== 'priority' && priority !== undefined) {
    const asNobodySaid = order === 'fifo' ? ', as one has that nobody configured' : '';
    refuse(
      'priority',
      priority,
      `absent: ${has}${asNobodySaid}; for priorities PUT it with order "priority" before the first message`,
    );
  }
  if (order !== 'grouped') {
    if (group !== undefined)
      refuse('group', group, `absent: ${has}; for groups PUT it with order "grouped" before the first message`);
    return;
  }
  if (group === undefined)
    refuse('group', group, `given: ${has}; a message that needs no order gets a group of its own`);
  if (delayMs > 0) refuse('delayMs', delayMs, `absent or 0: ${has}, and its group would overtake what waits`);
  // Replicas differ for a moment in what has expired: one would hand it out beside what another takes behind it.
  if (expiresInMs !== undefined)
    refuse('expiresInMs', expiresInMs, `absent: ${has}, and what waits behind what expires would have no order`);
}

/** @throws InvalidError when a message that is given back would be overtaken by its group */
export function checkGivenBack(name: string, order: QueueOrder, delayMs: number): void {
  if (order !== 'grouped' || delayMs === 0) return;
  throw new InvalidError(
    'delayMs',
    delayMs,
    `absent or 0: queue "${name}" has order "grouped", and its group would overtake what waits`,
  );
}
