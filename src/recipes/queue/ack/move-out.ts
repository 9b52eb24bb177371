/**
 * Moves a message whose claim is given back out of its place: one transaction deletes it there and creates it at its
 * destination.
 */
import type { Lease } from '../../../leases/lease.js';
import type { Awaited } from '../../../time.js';
import { unless } from '../../../zookeeper/errors.js';
import type { MultiOperation, MultiReadResult } from '../../../zookeeper/operations.js';
import { retrying } from '../../../zookeeper/retrying.js';
import { claimPath, recordPath } from '../claim/entry.js';
import { READ_AHEAD } from '../claim/message-reads.js';
import { QueueGoneError } from '../gone.js';
import { decodeMessage, encodeMessage, type StoredMessage } from '../message.js';
import type { Arrival } from '../push/pending.js';
import type { Queue } from '../queue.js';
import { deadLetter } from './dead-letters.js';
import { Nacks } from './nacks.js';
import { relocate, type Refused } from './relocate.js';
import type { Settled, Settling } from './settling.js';

/** How messages are given back. */
export interface Return {
  /** How long nobody shall get them; then they go behind those that are there by then. */
  readonly delayMs: number;
  /** In the caller's words, for a dead letter. */
  readonly reason: string | undefined;
  /** To the dead letters at once, however often they were delivered. */
  readonly deadLetter: boolean;
}

/** Of messages whose claims are given back those that were delivered as often as the queue allows. */
export async function wornOf(queue: Queue, settlings: readonly Settling[], deadline: number): Promise<Settling[]> {
  const { control, config, paths, queues } = queue;
  const { maxDeliveries = Infinity } = config;
  // What is not found is there no more: giving it back tells.
  await retrying(deadline, () => control.sync(paths.data, deadline));
  const worn: Settling[] = [];
  for (let i = 0; i < settlings.length;) {
    const unread = settlings.slice(i, i + READ_AHEAD);
    const read = (): Promise<MultiReadResult[]> =>
      queues.messages.read(
        queue,
        unread.map(({ path }) => path),
        deadline,
      );
    const results = await retrying(deadline, read);
    i += results.length;
    for (const [j, result] of results.entries()) {
      const settling = unread[j] as Settling;
      const message = 'data' in result ? decodeMessage(result.data) : undefined;
      if (message !== undefined && deliveriesOf(message, settling) >= maxDeliveries) worn.push(settling);
    }
  }
  return worn;
}

/** Up to the one that ends with this claim. */
function deliveriesOf({ header }: StoredMessage, { claim }: Settling): number {
  return (header.n ?? 0) + claim.version + 1;
}

/**
 * Moves a message whose claim is given back out of its place: to the dead letters when it has been delivered often
 * enough, or is to go there, else to where it waits for `delayMs`.
 * @returns undefined when it stays in its place
 */
export async function moveOut(
  queue: Queue,
  lease: Lease,
  settling: Settling,
  { delayMs, reason, deadLetter: isDead }: Return,
  awaited: Awaited,
): Promise<Settled | undefined> {
  const { control, config } = queue;
  const { claimId, claim, path } = settling;
  let { version } = settling;
  const { deadline } = awaited;
  const { priority } = claim;
  const readNacks = (): Promise<Nacks> => retrying(deadline, () => Nacks.read(control, queue, lease, deadline));
  let nacks = await readNacks();
  const node = await retrying(deadline, () => unless(control.getData(path, deadline), 'NO_NODE'));
  const message = node === undefined ? undefined : decodeMessage(node.data);
  // Another request of this lease may have moved it since the marks were read.
  if (node === undefined) return (await readNacks()).has(claimId) ? 'gone' : 'lost';
  if (message === undefined || nacks.version === undefined) return 'lost';
  const { header, body } = message;
  const deliveries = deliveriesOf(message, settling);
  const enqueuedAt = header.e ?? node.stat.ctime;
  const removal = (): MultiOperation[] => [
    queue.paths.exists,
    nacks.add([claimId]),
    { type: 'delete', path: claimPath(path), version },
    { type: 'delete', path: recordPath(path), version: claim.version },
    { type: 'delete', path },
  ];
  // Whatever was refused, the marks tell: done before, or they, or the claim, were written by somebody else meanwhile;
  // or else the claim is lost.
  const refused: Refused = async () => {
    const tried = [nacks.version, version];
    nacks = await readNacks();
    if (nacks.has(claimId)) return true;
    const own = await retrying(deadline, () => unless(control.getData(claimPath(path), deadline), 'NO_NODE'));
    if (own === undefined || nacks.version === undefined) return false;
    version = own.stat.version;
    return nacks.version === tried[0] && version === tried[1] ? false : removal();
  };
  let moved: boolean;
  const isWorn = config.maxDeliveries !== undefined && deliveries >= config.maxDeliveries;
  // Between the request and this the queue may have lost its dead-letter queue.
  if (isWorn || (isDead && config.deadLetterQueue !== undefined)) {
    const was = { message, priority, enqueuedAt, deliveries, cause: 'nack', reason } as const;
    moved = await deadLetter(queue, { ...was, removal: removal(), refused }, awaited);
  } else {
    if (delayMs === 0) return undefined;
    const dueAt = Math.ceil((await queue.ensembleNow(deadline)) + delayMs);
    const data = encodeMessage({
      header: { ...header, e: enqueuedAt, n: deliveries, p: priority, u: claim.expiresAt },
      body,
    });
    moved = await pushDelayed(queue, { data, priority, dueAt, conditions: removal() }, refused, awaited);
  }
  return moved ? 'done' : 'lost';
}

/** @param arrival its conditions take it away from where it is */
async function pushDelayed(
  queue: Queue,
  arrival: Omit<Arrival, 'group'>,
  refused: Refused,
  awaited: Awaited,
): Promise<boolean> {
  try {
    return await relocate(queue.lane, { ...arrival, group: undefined }, refused, awaited);
  } catch (error) {
    if (error instanceof QueueGoneError) return false;
    throw error;
  }
}
