/**
 * Moves a message whose claim is given back out of its place: one transaction deletes it there and creates it at its
 * destination.
 */
import type { Lease } from '../../../leases/lease.js';
import type { Awaited } from '../../../time.js';
import { unless } from '../../../zookeeper/errors.js';
import type { MultiOperation } from '../../../zookeeper/operations.js';
import { retrying } from '../../../zookeeper/retrying.js';
import { claimPath, recordPath } from '../claim/entry.js';
import { QueueGoneError } from '../gone.js';
import { decodeMessage, encodeMessage } from '../message.js';
import type { Arrival } from '../push/pending.js';
import type { Queue } from '../queue.js';
import { deadLetter } from './dead-letters.js';
import { Nacks } from './nacks.js';
import { relocate, type Refused } from './relocate.js';
import type { Settling } from './settling.js';

/**
 * Moves a message whose claim is given back out of its place: to the dead letters when it has been delivered often
 * enough, else to where it waits for `delayMs`.
 * @returns undefined when it stays in its place
 */
export async function moveOut(
  queue: Queue,
  lease: Lease,
  { claimId, claim, path }: Settling,
  { delayMs, reason }: { delayMs: number; reason: string | undefined },
  awaited: Awaited,
): Promise<'done' | 'lost' | undefined> {
  const { control, config } = queue;
  const { deadline } = awaited;
  const { priority } = claim;
  const readNacks = (): Promise<Nacks> => retrying(deadline, () => Nacks.read(control, queue, lease, deadline));
  let nacks = await readNacks();
  const node = await retrying(deadline, () => unless(control.getData(path, deadline), 'NO_NODE'));
  const message = node === undefined ? undefined : decodeMessage(node.data);
  if (node === undefined || message === undefined || nacks.version === undefined) return 'lost';
  const { header, body } = message;
  const deliveries = (header.n ?? 0) + claim.version + 1;
  const enqueuedAt = header.e ?? node.stat.ctime;
  const removal = (): MultiOperation[] => [
    queue.paths.exists,
    nacks.add([claimId]),
    { type: 'delete', path: claimPath(path) },
    { type: 'delete', path: recordPath(path), version: claim.version },
    { type: 'delete', path },
  ];
  // Whatever was refused, the marks tell: done before, or they were written by somebody else meanwhile; or else the
  // claim is lost.
  const refused: Refused = async () => {
    const { version } = nacks;
    nacks = await readNacks();
    if (nacks.has(claimId)) return true;
    return nacks.version === undefined || nacks.version === version ? false : removal();
  };
  let moved: boolean;
  if (config.maxDeliveries !== undefined && deliveries >= config.maxDeliveries) {
    const was = { message, priority, enqueuedAt, deliveries, cause: 'nack', reason } as const;
    moved = await deadLetter(queue, { ...was, removal: removal(), refused }, awaited);
  } else {
    if (delayMs === 0) return undefined;
    const dueAt = Math.ceil((await queue.ensembleNow(deadline)) + delayMs);
    const data = encodeMessage({ header: { ...header, e: enqueuedAt, n: deliveries, p: priority }, body });
    moved = await pushDelayed(queue, { data, priority, dueAt, conditions: removal() }, refused, awaited);
  }
  return moved ? 'done' : 'lost';
}

/** @param arrival its conditions take it away from where it is */
async function pushDelayed(queue: Queue, arrival: Arrival, refused: Refused, awaited: Awaited): Promise<boolean> {
  try {
    return await relocate(queue.lane, arrival, refused, awaited);
  } catch (error) {
    if (error instanceof QueueGoneError) return false;
    throw error;
  }
}
