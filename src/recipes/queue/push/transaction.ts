/** The transaction that pushes a group: its operations, which push each belongs to, and how much fits into it. */
import type { MultiOperation } from '../../../zookeeper/operations.js';
import { OwnedTransaction } from '../../../zookeeper/owned-transaction.js';
import { messagePrefix, type QueuePaths } from '../paths.js';
import { bytesOf, bytesOfAll, GROUP_BYTES_MAX } from '../../../zookeeper/operations/bytes.js';
import { GROUP_OPERATIONS_MAX } from '../transactions.js';
import type { Arrival, PendingPush } from './pending.js';

/** Whose an operation is. */
export type Owner =
  | { what: 'segment'; priority: number }
  | { what: 'queue' }
  | { what: 'marker' }
  | { what: 'arrival'; push: PendingPush; index: number; operation: number | 'message' };

export function pushTransaction(
  paths: QueuePaths,
  segments: ReadonlyMap<number, number>,
  { path: marker, version, number }: { path: string; version: number; number: number },
  group: readonly PendingPush[],
): OwnedTransaction<Owner> {
  const transaction = new OwnedTransaction<Owner>();
  for (const [priority, segment] of segments) {
    const isOpen: MultiOperation = { type: 'check', path: paths.segment(priority, segment), version: 0 };
    transaction.add({ what: 'segment', priority }, isOpen);
  }
  if (group.some(({ arrivals }) => arrivals.some(({ dueAt }) => dueAt !== undefined)))
    transaction.add({ what: 'queue' }, paths.exists);
  const data = Buffer.from(String(number));
  transaction.add({ what: 'marker' }, { type: 'setData', path: marker, data, version });
  for (const push of group) {
    for (const [index, arrival] of push.arrivals.entries()) {
      const { dueAt, priority, conditions, data } = arrival;
      for (const [operation, condition] of conditions.entries())
        transaction.add({ what: 'arrival', push, index, operation }, condition);
      const path =
        dueAt === undefined
          ? `${paths.segment(priority, segments.get(priority) as number)}/${messagePrefix(arrival)}`
          : paths.delayedMessage(dueAt);
      transaction.add(
        { what: 'arrival', push, index, operation: 'message' },
        { type: 'create', path, data, mode: 'persistent-sequential' },
      );
    }
  }
  return transaction;
}

/** Takes out of `waiting` as many as fit into one transaction, at least one, of those whose time is not over. */
export function takeGroup(waiting: PendingPush[]): PendingPush[] {
  const group: PendingPush[] = [];
  const conditions = new Set<string>();
  let bytes = 0;
  let operations = 0;
  let taken = 0;
  // Two with the same messageId cannot be in one transaction: the second would be refused by what the first had not
  // done yet.
  for (const push of waiting) {
    if (!push.over) {
      const [pushBytes, pushOperations] = sizeOf(push.arrivals);
      const paths = push.arrivals.flatMap((arrival) => arrival.conditions.map(({ path }) => path));
      const fits =
        bytes + pushBytes <= GROUP_BYTES_MAX &&
        operations + pushOperations <= GROUP_OPERATIONS_MAX &&
        !paths.some((path) => conditions.has(path));
      if (group.length > 0 && !fits) break;
      for (const path of paths) conditions.add(path);
      bytes += pushBytes;
      operations += pushOperations;
      group.push(push);
    }
    taken += 1;
  }
  waiting.splice(0, taken);
  return group;
}

function sizeOf(arrivals: readonly Arrival[]): [bytes: number, operations: number] {
  let bytes = 0;
  let operations = 0;
  for (const { data, conditions } of arrivals) {
    bytes += bytesOf({ type: 'create', path: '', data }) + bytesOfAll(conditions);
    operations += 1 + conditions.length;
  }
  return [bytes, operations];
}
