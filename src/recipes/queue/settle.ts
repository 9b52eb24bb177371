/**
 * What a consumer does with its claims: acknowledge, give back, prolong.
 *
 * Everything is a transaction that deletes or writes the claim's own node, which goes with the lease, and checks the delivery record at the
 * version that this claim wrote, which every later claim raises. So neither a lease that has ended nor an earlier claimer can do
 * anything to a message that is somebody else's by now (protocol C20), and the claim goes first because it is the message's child (C21).
 *
 *   all of them   check(the data directory at version 0)           the queue was not deleted (protocol T7)
 *   acknowledge   delete(c), delete(d, version), delete(m)
 *   give back     check(d, version), delete(c)                         in its old place
 *                 … and into the delayed ones, or to the dead letters      deleted here and created there in one transaction
 *   prolong       check(d, version), setData(c)
 *
 * Repeated after a lost reply: an acknowledged message is gone, and gone for good, so the same claimId says `gone`. A claim that could end
 * while its lease lives (it had a time) may have been lost instead, and the message acknowledged by somebody else: only while its time
 * is not over is `gone` sure; after that it is `not-holder`.
 */
import type { Lease } from '../../leases/lease.js';
import { isReason, unless } from '../../zookeeper/errors.js';
import type { LeaseSession } from '../../zookeeper/lease-session.js';
import type { MultiOperation } from '../../zookeeper/operations.js';
import { decodeClaimId, type Claim } from './claim-id.js';
import { deadLetter } from './dead-letters.js';
import { claimPath, decodeClaim, encodeClaim, recordPath } from './entry.js';
import { decodeMessage, encodeMessage } from './message.js';
import type { Queue } from './queue.js';
import { QueueGoneError } from './queue-gone.js';

export type Settled = 'done' | 'gone' | 'lost';

/** Claims that are settled in one transaction. */
const AT_ONCE = 200;

export interface Prolonged {
  result: Settled;
  until: number | undefined;
}

interface Settling {
  claim: Claim;
  path: string;
  index: number;
}

/**
 * @returns one result per claimId, in order
 * @throws LeaseExpiredError, NoReplyError
 */
export async function acknowledge(
  queue: Queue,
  lease: Lease,
  claimIds: readonly string[],
  deadline: number,
): Promise<Settled[]> {
  const results: Settled[] = claimIds.map(() => 'lost');
  const open = settlings(queue, lease, claimIds);
  for (let i = 0; i < open.length; i += AT_ONCE) {
    const batch = open.slice(i, i + AT_ONCE);
    const isThere = await queue.context.leases.sessions.useRepeatedly(lease, deadline, async (session) => {
      const done = await inOneTransaction(
        queue,
        session,
        batch,
        ({ claim, path }) => [
          { type: 'delete', path: claimPath(path) },
          { type: 'delete', path: recordPath(path), version: claim.version },
          { type: 'delete', path },
        ],
        (settling, how) => (results[settling.index] = how === 'done' ? 'done' : 'lost'),
        deadline,
      );
      if (!done) return false;
      // Told apart only here: of a message that is there somebody else has the claim, or nobody.
      for (const settling of batch.filter(({ index }) => results[index] === 'lost'))
        results[settling.index] = await whyLost(queue, session, settling, deadline);
      return true;
    });
    if (!isThere) break; // deleted: claims of it mean nothing any more
    for (const { path, index } of batch) if (results[index] !== 'lost') queue.dispatcher.settled(path, 'gone');
  }
  queue.count('ack', results.filter((result) => result === 'done').length);
  return results;
}

/** As `acknowledge`. @param delayMs how long nobody shall get the messages; then they go behind those that are there by then */
export async function giveBack(
  queue: Queue,
  lease: Lease,
  claimIds: readonly string[],
  { delayMs, reason }: { delayMs: number; reason: string | undefined },
  deadline: number,
): Promise<Settled[]> {
  const results: Settled[] = claimIds.map(() => 'lost');
  const open = settlings(queue, lease, claimIds);
  const { maxDeliveries } = queue.config;
  await queue.context.leases.touch(lease, deadline);
  for (const settling of open) {
    const { claim, path, index } = settling;
    const moved =
      delayMs > 0 || maxDeliveries !== undefined ? await move(queue, settling, delayMs, reason, deadline) : undefined;
    if (moved !== undefined) {
      results[index] = moved ? 'done' : 'lost';
      if (moved) queue.dispatcher.settled(path, 'gone');
      continue;
    }
    await queue.context.leases.sessions.useRepeatedly(lease, deadline, async (session, tries) => {
      const done = await unless(
        session.multi(
          [
            queue.paths.exists,
            { type: 'check', path: recordPath(path), version: claim.version },
            { type: 'delete', path: claimPath(path) },
          ],
          deadline,
        ),
        'NO_NODE',
        'BAD_VERSION',
      );
      if (done !== undefined) results[index] = 'done';
      else if (tries > 0) results[index] = 'gone'; // an earlier try of this very request, or it was lost: it is free either way
    });
    if (results[index] === 'done') queue.dispatcher.settled(path, 'free');
  }
  queue.count('nack', results.filter((result) => result === 'done').length);
  return results;
}

/**
 * As `acknowledge`. Never shortens a claim, so that what its claimId says stays true: until then it does not end by time.
 * @param claimMs counts from now
 * @returns with each until when it lasts, epoch ms on the ensemble's clock; undefined: as long as the lease
 */
export async function prolong(
  queue: Queue,
  lease: Lease,
  claimIds: readonly string[],
  claimMs: number,
  deadline: number,
): Promise<Prolonged[]> {
  const wanted = Math.ceil((await queue.ensembleNow(deadline)) + claimMs);
  const results: Prolonged[] = claimIds.map(() => ({ result: 'lost', until: undefined }));
  const open = settlings(queue, lease, claimIds);
  await queue.context.leases.sessions.useRepeatedly(lease, deadline, async (session) => {
    await session.sync(queue.paths.data, deadline);
    await Promise.all(
      open.map(async ({ claim, path, index }) => {
        const node = await unless(session.getData(claimPath(path), deadline), 'NO_NODE');
        const record = node === undefined ? undefined : decodeClaim(node.data);
        if (node === undefined || record === undefined) return;
        const until = record.until === undefined ? undefined : Math.max(record.until, wanted);
        const first = record.first ?? record.until;
        const done = await unless(
          session.multi(
            [
              queue.paths.exists,
              { type: 'check', path: recordPath(path), version: claim.version },
              { type: 'setData', path: claimPath(path), data: encodeClaim({ ...record, until, first }) },
            ],
            deadline,
          ),
          'NO_NODE',
          'BAD_VERSION',
        );
        if (done !== undefined) results[index] = { result: 'done', until };
      }),
    );
  });
  return results;
}

function settlings(queue: Queue, lease: Lease, claimIds: readonly string[]): Settling[] {
  return claimIds.flatMap((claimId, index) => {
    const claim = decodeClaimId(lease, claimId);
    if (claim === undefined || claim.queueId !== queue.id) return [];
    return [{ claim, path: queue.paths.message(claim), index }];
  });
}

/** All of a batch in one transaction, without those that fail. @returns false when the queue was deleted: nothing was done */
async function inOneTransaction(
  queue: Queue,
  session: LeaseSession,
  batch: readonly Settling[],
  operationsOf: (settling: Settling) => MultiOperation[],
  report: (settling: Settling, how: 'done' | 'failed') => void,
  deadline: number,
): Promise<boolean> {
  let open = [...batch];
  while (open.length > 0) {
    const operations: MultiOperation[] = [queue.paths.exists];
    const owners: (Settling | undefined)[] = [undefined];
    for (const settling of open) {
      for (const operation of operationsOf(settling)) {
        operations.push(operation);
        owners.push(settling);
      }
    }
    try {
      await session.multi(operations, deadline);
      for (const settling of open) report(settling, 'done');
      return true;
    } catch (error) {
      if (!isReason(error, 'NO_NODE', 'BAD_VERSION', 'NOT_EMPTY') || error.failedIndex === undefined) throw error;
      const culprit = owners[error.failedIndex];
      if (culprit === undefined) return false;
      report(culprit, 'failed');
      open = open.filter((settling) => settling !== culprit);
    }
  }
  return true;
}

async function whyLost(
  queue: Queue,
  session: LeaseSession,
  { claim, path }: Settling,
  deadline: number,
): Promise<Settled> {
  await session.sync(path, deadline);
  if ((await session.exists(path, deadline)) !== undefined) return 'lost';
  return claim.until === 0 || (await queue.ensembleNow(deadline)) < claim.until ? 'gone' : 'lost';
}

/**
 * Moves a message whose claim is given back out of its place: to the dead letters when it has been delivered often enough, else to where
 * it waits for `delayMs`.
 * @returns undefined when it stays in its place; false when the claim is lost
 */
async function move(
  queue: Queue,
  { claim, path }: Settling,
  delayMs: number,
  reason: string | undefined,
  deadline: number,
): Promise<boolean | undefined> {
  const { control, config } = queue;
  await control.sync(path, deadline);
  const node = await unless(control.getData(path, deadline), 'NO_NODE');
  const message = node === undefined ? undefined : decodeMessage(node.data);
  if (node === undefined || message === undefined) return false;
  const deliveries = (message.header.n ?? 0) + claim.version + 1;
  const enqueuedAt = message.header.e ?? node.stat.ctime;
  const removal: MultiOperation[] = [
    queue.paths.exists,
    { type: 'delete', path: claimPath(path) },
    { type: 'delete', path: recordPath(path), version: claim.version },
    { type: 'delete', path },
  ];
  if (config.maxDeliveries !== undefined && deliveries >= config.maxDeliveries)
    return deadLetter(queue, { message, enqueuedAt, deliveries, removal, reason }, deadline);
  if (delayMs === 0) return undefined;
  let moved = true;
  const push = queue.lane.push({
    arrivals: [
      {
        data: encodeMessage({
          header: { ...message.header, e: enqueuedAt, n: deliveries, p: claim.priority },
          body: message.body,
        }),
        priority: claim.priority,
        dueAt: Math.ceil((await queue.ensembleNow(deadline)) + delayMs),
        conditions: removal,
      },
    ],
    deadline,
    refused: (_index, _operation, error) => {
      if (!isReason(error, 'NO_NODE', 'BAD_VERSION', 'NOT_EMPTY')) throw error;
      moved = false;
      return Promise.resolve([]);
    },
  });
  try {
    await push;
    return moved;
  } catch (error) {
    if (error instanceof QueueGoneError) return false;
    throw error;
  }
}
