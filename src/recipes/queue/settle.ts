/**
 * What a consumer does with its claims: acknowledge, give back, prolong.
 *
 * Everything is a transaction that deletes or writes the claim's own node, which goes with the lease, and checks the delivery record at the
 * version that this claim wrote, which every later claim raises. So neither a lease that has ended nor an earlier claimer can do
 * anything to a message that is somebody else's by now (protocol C20), and the claim goes first because it is the message's child (C21).
 *
 *   all of them   check(the data directory at version 0)           the queue was not deleted (protocol T7)
 *   acknowledge   delete(c), delete(d, version), delete(m)
 *   give back     create or setData(the lease's marks), check(d, version), delete(c)     in its old place (`nacks.ts`)
 *                 … and into the delayed ones, or to the dead letters      deleted here and created there in one transaction
 *   prolong       check(d, version), setData(c)
 *
 * Repeated after a lost reply: what was given back has its mark, so the same claimId says `gone`. An acknowledged message is gone, and gone for
 * good, so the same claimId says `gone` too, unless it has the mark: then somebody else has acknowledged the message. A claim that could
 * end otherwise while its lease lives (it had a time) may have been lost as well: only while its time is not over is `gone` sure; after that it is
 * `not-holder`.
 */
import type { Lease } from '../../leases/lease.js';
import { isReason, orUnknown, unless } from '../../zookeeper/errors.js';
import type { LeaseSession } from '../../zookeeper/lease-session.js';
import type { MultiOperation } from '../../zookeeper/operations.js';
import { decodeClaimId, type Claim } from './claim-id.js';
import { deadLetter, type Refused } from './dead-letters.js';
import { claimPath, decodeClaim, encodeClaim, recordPath } from './entry.js';
import { decodeMessage, encodeMessage } from './message.js';
import { Nacks } from './nacks.js';
import type { Arrival } from './push-lane.js';
import type { Queue } from './queue.js';
import { QueueGoneError } from './queue-gone.js';

export type Settled = 'done' | 'gone' | 'lost';

/** Claims that are settled in one transaction. */
const AT_ONCE = 200;
/** Of the operations. */
const QUEUE_CHECK = 0;

export interface Prolonged {
  result: Settled;
  until: number | undefined;
}

interface Settling {
  claimId: string;
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
  const wrote = (): boolean => results.includes('done');
  const open = settlings(queue, lease, claimIds);
  for (let i = 0; i < open.length; i += AT_ONCE) {
    const batch = open.slice(i, i + AT_ONCE);
    const acknowledging = queue.context.leases.sessions.useRepeatedly(lease, deadline, async (session) => {
      const done = await inOneTransaction(
        queue,
        session,
        batch,
        ({ claim, path }) => [
          { type: 'delete', path: claimPath(path) },
          { type: 'delete', path: recordPath(path), version: claim.version },
          { type: 'delete', path },
        ],
        ({ index }, how) => {
          // An earlier try of this request has done it, if it says so.
          if (results[index] !== 'done') results[index] = how === 'done' ? 'done' : 'lost';
        },
        deadline,
      );
      if (!done) return false;
      // Told apart only here: of a message that is there somebody else has the claim, or nobody.
      const lost = batch.filter(({ index }) => results[index] === 'lost');
      if (lost.length === 0) return true;
      const nacks = await Nacks.read(session, queue, lease, deadline);
      for (const settling of lost) results[settling.index] = await whyLost(queue, session, settling, nacks, deadline);
      return true;
    });
    const isThere = await orUnknown(acknowledging, wrote);
    if (!isThere) break; // deleted: claims of it mean nothing any more
    for (const { path, index } of batch) if (results[index] !== 'lost') queue.dispatcher.settled(path, 'gone');
  }
  queue.count('ack', results.filter((result) => result === 'done').length);
  return results;
}

/**
 * As `acknowledge`: `gone` is what this lease gave back before.
 * @param delayMs how long nobody shall get the messages; then they go behind those that are there by then
 */
export async function giveBack(
  queue: Queue,
  lease: Lease,
  claimIds: readonly string[],
  { delayMs, reason }: { delayMs: number; reason: string | undefined },
  deadline: number,
): Promise<Settled[]> {
  const results: Settled[] = claimIds.map(() => 'lost');
  const wrote = (): boolean => results.includes('done');
  const own = settlings(queue, lease, claimIds);
  const { sessions } = queue.context.leases;
  await queue.context.leases.touch(lease, deadline);
  const inPlace: Settling[] = [];
  if (own.length > 0 && (delayMs > 0 || queue.config.maxDeliveries !== undefined)) {
    const before = await sessions.useRepeatedly(lease, deadline, async (session) => {
      const isThere = await Nacks.ensure(session, queue, lease, deadline);
      return isThere ? Nacks.read(session, queue, lease, deadline) : undefined;
    });
    if (before === undefined) return results; // deleted: claims of it mean nothing any more
    for (const settling of own) {
      const moved = before.has(settling.claimId)
        ? 'gone'
        : await orUnknown(move(queue, lease, settling, delayMs, reason, deadline), wrote);
      if (moved === undefined) inPlace.push(settling);
      else results[settling.index] = moved;
      if (moved === 'done') queue.dispatcher.settled(settling.path, 'gone');
    }
  } else inPlace.push(...own);
  for (let i = 0; i < inPlace.length; i += AT_ONCE) {
    const batch = inPlace.slice(i, i + AT_ONCE);
    const report = ({ index }: Settling, how: Settled): void => void (results[index] = how);
    const givingBack = sessions.useRepeatedly(lease, deadline, (session, tries) =>
      giveBackInPlace(
        queue,
        lease,
        session,
        batch,
        (settling, how) => report(settling, how === 'gone' && tries > 0 ? 'done' : how),
        deadline,
      ),
    );
    await orUnknown(givingBack, wrote);
    for (const { path, index } of batch) if (results[index] === 'done') queue.dispatcher.settled(path, 'free');
  }
  queue.count('nack', results.filter((result) => result === 'done').length);
  return results;
}

/** A batch in one transaction, without those that fail. What is not reported is lost. */
async function giveBackInPlace(
  queue: Queue,
  lease: Lease,
  session: LeaseSession,
  batch: readonly Settling[],
  report: (settling: Settling, how: Settled) => void,
  deadline: number,
): Promise<void> {
  let open = [...batch];
  for (;;) {
    const nacks = await Nacks.read(session, queue, lease, deadline);
    for (const settling of open) if (nacks.has(settling.claimId)) report(settling, 'gone');
    open = open.filter(({ claimId }) => !nacks.has(claimId));
    if (open.length === 0) return;
    const operations: MultiOperation[] = [queue.paths.exists, nacks.add(open.map(({ claimId }) => claimId))];
    const owners = operations.map((): Settling | undefined => undefined);
    for (const settling of open) {
      const { claim, path } = settling;
      operations.push(
        { type: 'check', path: recordPath(path), version: claim.version },
        { type: 'delete', path: claimPath(path) },
      );
      owners.push(settling, settling);
    }
    try {
      await session.multi(operations, deadline);
      for (const settling of open) report(settling, 'done');
      return;
    } catch (error) {
      if (!isReason(error, 'NO_NODE', 'BAD_VERSION', 'NODE_EXISTS') || error.failedIndex === undefined) throw error;
      if (error.failedIndex === QUEUE_CHECK) return; // deleted: claims of it mean nothing any more
      const culprit = owners[error.failedIndex];
      // Otherwise the marks were written meanwhile: they are read anew.
      if (culprit !== undefined) open = open.filter((settling) => settling !== culprit);
    }
  }
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
  const prolonging = queue.context.leases.sessions.useRepeatedly(lease, deadline, async (session) => {
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
  await orUnknown(prolonging, () => results.some(({ result }) => result === 'done'));
  return results;
}

function settlings(queue: Queue, lease: Lease, claimIds: readonly string[]): Settling[] {
  return claimIds.flatMap((claimId, index) => {
    const claim = decodeClaimId(lease, claimId);
    if (claim === undefined || claim.queueId !== queue.id) return [];
    return [{ claimId, claim, path: queue.paths.message(claim), index }];
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
  { claimId, claim, path }: Settling,
  nacks: Nacks,
  deadline: number,
): Promise<Settled> {
  // What ended the claim is older than what the marks were read for.
  if (nacks.has(claimId) || (await session.exists(path, deadline)) !== undefined) return 'lost';
  return claim.until === 0 || (await queue.ensembleNow(deadline)) < claim.until ? 'gone' : 'lost';
}

/**
 * Moves a message whose claim is given back out of its place: to the dead letters when it has been delivered often enough, else to where
 * it waits for `delayMs`.
 * @returns undefined when it stays in its place
 */
async function move(
  queue: Queue,
  lease: Lease,
  { claimId, claim, path }: Settling,
  delayMs: number,
  reason: string | undefined,
  deadline: number,
): Promise<'done' | 'lost' | undefined> {
  const { control, config } = queue;
  let nacks = await Nacks.read(control, queue, lease, deadline);
  const node = await unless(control.getData(path, deadline), 'NO_NODE');
  const message = node === undefined ? undefined : decodeMessage(node.data);
  if (node === undefined || message === undefined || nacks.version === undefined) return 'lost';
  const deliveries = (message.header.n ?? 0) + claim.version + 1;
  const enqueuedAt = message.header.e ?? node.stat.ctime;
  const removal = (): MultiOperation[] => [
    queue.paths.exists,
    nacks.add([claimId]),
    { type: 'delete', path: claimPath(path) },
    { type: 'delete', path: recordPath(path), version: claim.version },
    { type: 'delete', path },
  ];
  // Whatever was refused, the marks tell: done before, or they were written by somebody else meanwhile; or else the claim is lost.
  const refused: Refused = async () => {
    const { version } = nacks;
    nacks = await Nacks.read(control, queue, lease, deadline);
    if (nacks.has(claimId)) return true;
    return nacks.version === undefined || nacks.version === version ? false : removal();
  };
  if (config.maxDeliveries !== undefined && deliveries >= config.maxDeliveries) {
    const departure = { message, enqueuedAt, deliveries, removal: removal(), refused, reason };
    return (await deadLetter(queue, departure, deadline)) ? 'done' : 'lost';
  }
  if (delayMs === 0) return undefined;
  const arrival: Arrival = {
    data: encodeMessage({
      header: { ...message.header, e: enqueuedAt, n: deliveries, p: claim.priority },
      body: message.body,
    }),
    priority: claim.priority,
    dueAt: Math.ceil((await queue.ensembleNow(deadline)) + delayMs),
    conditions: removal(),
  };
  let moved = true;
  try {
    await queue.lane.push({
      arrivals: [arrival],
      deadline,
      refused: async (_index, _operation, error) => {
        if (!isReason(error, 'NO_NODE', 'BAD_VERSION', 'NOT_EMPTY')) throw error;
        const next = await refused();
        if (typeof next === 'boolean') {
          moved = next;
          return [];
        }
        arrival.conditions = next;
        return [arrival];
      },
    });
    return moved ? 'done' : 'lost';
  } catch (error) {
    if (error instanceof QueueGoneError) return 'lost';
    throw error;
  }
}
