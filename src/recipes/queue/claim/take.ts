/**
 * Claims messages for one lease: one transaction on the lease's session.
 *
 *   check(the turn's node)                                    nobody else takes
 *   check(the data directory at version 0)                     the queue was not deleted (protocol T7)
 *   check(the queue's name at the version that was looked at)  nor paused since (protocol C70)
 *   check(the delivery record of the claim in front)           what was handed out before it is claimed (`order.ts`)
 *   for each message: create(m/d) or setData(m/d, its version)  one more delivery, exactly counted
 *                     create(m/c, ephemeral)                     the claim, which goes with the lease
 *
 * It runs on the lease's session, so a lease that has ended claims nothing. If the reply is lost, the claims are looked
 * for by the attempt's own mark (`a` in their data): if found, they were made; if not found after a `sync`, they were
 * not, because a session's requests keep their order.
 *
 * One message that cannot be claimed fails the whole transaction: it is retried without that one (protocol T8).
 */
import { isReason, unless } from '../../../zookeeper/errors.js';
import type { LeaseSession } from '../../../zookeeper/lease-session.js';
import { OwnedTransaction } from '../../../zookeeper/owned-transaction.js';
import { encodeClaimId } from './id.js';
import type { Ticket } from './order.js';
import type { ClaimTerms, Delivered, Demand } from './demand.js';
import { AS_MADE, claimPath, decodeClaim, deliveriesOf, encodeClaim, recordPath, type Entry } from './entry.js';
import type { Queue } from '../queue.js';
import { QueueGoneError } from '../gone.js';

export interface Claimed {
  items: Delivered[];
  claimed: { entry: Entry; until: number | undefined }[];
  conflicts: { entry: Entry; error: unknown }[];
  outcome: Outcome;
}

/**
 * `made`; `none` of the messages could be claimed, somebody else has them; `turn-lost`, or `out-of-order`, because what
 * was handed out before was not claimed, or `outdated`, because the queue was paused or configured meanwhile: nothing
 * was done.
 */
export type Outcome = 'made' | 'none' | 'turn-lost' | 'out-of-order' | 'outdated';

const EMPTY = Buffer.alloc(0);

/** @throws QueueGoneError; LeaseExpiredError, NoReplyError: then nothing is claimed, or it is for `takeBackLater` */
export async function takeClaims(
  queue: Queue,
  demand: Demand,
  entries: readonly Entry[],
  ticket: Ticket,
): Promise<Claimed> {
  const { claim, hardDeadline, caller } = demand.options;
  const { lease, claimMs } = claim as ClaimTerms;
  const { attempt, before } = ticket;
  const conflicts: Claimed['conflicts'] = [];
  let open = [...entries];
  const until = await untilOf(queue, claimMs, hardDeadline);
  const dataOf = claimData(claim as ClaimTerms, attempt, until);
  const outcome: Outcome = await queue.context.leases.sessions.useRepeatedly(
    lease,
    hardDeadline,
    async (session, tries) => {
      if (tries > 0 && (await wasMade(session, open, attempt, hardDeadline))) return 'made';
      while (open.length > 0) {
        if (before?.known === false) return 'out-of-order';
        const transaction = transactionFor(queue, open, ticket, dataOf);
        try {
          await session.multi(transaction.operations, hardDeadline);
          return 'made';
        } catch (error) {
          const culprit = transaction.culpritOf(error);
          if (culprit === 'queue') throw new QueueGoneError();
          if (culprit === 'turn' && isReason(error, 'NO_NODE')) return 'turn-lost';
          if (culprit === 'unchanged') return 'outdated';
          if (culprit === undefined || culprit === 'turn') throw error;
          if (culprit === 'order') await before?.taken;
          else {
            conflicts.push({ entry: culprit, error });
            open = open.filter((entry) => entry !== culprit);
          }
        }
      }
      return 'none';
    },
    caller,
  );
  if (outcome !== 'made') return { items: [], claimed: [], conflicts, outcome };
  const claimed = open.map((entry) => ({ entry, item: claimedItem(queue, claim as ClaimTerms, entry, until) }));
  for (const { entry, item } of claimed) entry.claims = item.version;
  return {
    items: claimed.map(({ item }) => item),
    claimed: open.map((entry) => ({ entry, until })),
    conflicts,
    outcome,
  };
}

/** Epoch ms on the ensemble's clock until when a claim lasts; undefined: as long as its lease. */
async function untilOf(queue: Queue, claimMs: number | undefined, deadline: number): Promise<number | undefined> {
  const ms = claimMs ?? queue.config.maxClaimMs;
  return ms === undefined ? undefined : Math.ceil((await queue.ensembleNow(deadline)) + ms);
}

/** What the nodes of these claims say. */
function claimData(
  { lease, requestId }: ClaimTerms,
  attempt: string,
  until: number | undefined,
): (entry: Entry) => Buffer {
  return ({ message }) =>
    encodeClaim({
      a: attempt,
      leaseId: lease.leaseId,
      message: message?.header.i ?? '',
      ...(requestId === '' ? {} : { requestId }),
      until,
    });
}

function transactionFor(
  queue: Queue,
  entries: readonly Entry[],
  { fence, unchanged, before }: Ticket,
  dataOf: (entry: Entry) => Buffer,
): OwnedTransaction<'turn' | 'queue' | 'unchanged' | 'order' | Entry> {
  const transaction = new OwnedTransaction<'turn' | 'queue' | 'unchanged' | 'order' | Entry>()
    .add('turn', { type: 'check', path: fence })
    .add('queue', queue.paths.exists)
    .add('unchanged', unchanged);
  if (before !== undefined && before.known === undefined) transaction.add('order', { type: 'check', ...before.record });
  for (const entry of entries) {
    const path = recordPath(entry.path);
    transaction.add(
      entry,
      entry.claims === undefined
        ? { type: 'create', path, data: EMPTY }
        : { type: 'setData', path, data: EMPTY, version: entry.claims },
      { type: 'create', path: claimPath(entry.path), data: dataOf(entry), mode: 'ephemeral' },
    );
  }
  return transaction;
}

/** Whether an earlier transaction of this try, whose reply was lost, was done. */
async function wasMade(
  session: LeaseSession,
  entries: readonly Entry[],
  attempt: string,
  deadline: number,
): Promise<boolean> {
  const [first] = entries;
  if (first === undefined) return false;
  await session.sync(first.path, deadline);
  const node = await unless(session.getData(claimPath(first.path), deadline), 'NO_NODE');
  return node !== undefined && decodeClaim(node.data)?.a === attempt;
}

function claimedItem(queue: Queue, { lease }: ClaimTerms, entry: Entry, until: number | undefined): Delivered {
  const { message, priority, segment, sequence, enqueuedAt, expiresAt, path } = entry;
  if (message === undefined) throw new Error(`${path} was assigned before it was read`);
  const version = (entry.claims ?? -1) + 1;
  return {
    queue: queue.name,
    message,
    priority,
    enqueuedAt,
    expiresAt,
    deliveries: deliveriesOf(entry) + 1,
    claimId: encodeClaimId(lease, {
      queueId: queue.id,
      priority,
      segment,
      sequence,
      expiresAt,
      group: entry.group,
      version,
      until: until ?? 0,
    }),
    claimedUntil: until,
    path,
    version,
  };
}

const LOOK_MS = 5_000;

/**
 * Takes claims back that the client was not told of, at once, and again for as long as ZooKeeper does not answer: their
 * lease may live on, and nobody knows of them.
 */
export function takeBack(queue: Queue, items: readonly Pick<Delivered, 'path' | 'version'>[]): void {
  const once = (): Promise<void> => deleteClaims(queue, items, performance.now() + LOOK_MS);
  once().catch(() => queue.context.cleanup.persist(once));
}

/**
 * As `takeBack`, for claims of which it is not known whether they were made. The node of their turn, which they check,
 * is deleted first: what is not there then never will be, however late a server goes on.
 */
export function takeBackLater(queue: Queue, entries: readonly Entry[], { attempt, fence }: Ticket): void {
  const paths = entries.map(({ path }) => path);
  queue.context.cleanup.persist(async () => {
    const { control } = queue;
    const deadline = performance.now() + LOOK_MS;
    await unless(control.delete(fence, undefined, deadline), 'NO_NODE');
    await control.sync(queue.paths.data, deadline);
    const { results } = await control.multiRead(
      paths.flatMap((path) => [
        { type: 'getData' as const, path: claimPath(path) },
        { type: 'getData' as const, path: recordPath(path) },
      ]),
      deadline,
    );
    const made = paths.flatMap((path, i) => {
      const [claim, record] = [results[2 * i], results[2 * i + 1]];
      if (claim === undefined || record === undefined || !('data' in claim) || !('data' in record)) return [];
      return decodeClaim(claim.data)?.a === attempt ? [{ path, version: record.stat.version }] : [];
    });
    await deleteClaims(queue, made, deadline);
  });
}

/**
 * Deletes claims as they were made; not those that the client has prolonged, or that a repetition of the request was
 * answered with meanwhile (as with C1).
 */
async function deleteClaims(
  queue: Queue,
  items: readonly Pick<Delivered, 'path' | 'version'>[],
  deadline: number,
): Promise<void> {
  await Promise.all(
    items.map(async ({ path, version }) => {
      const taken = await unless(
        queue.control.multi(
          [
            { type: 'check', path: recordPath(path), version },
            { type: 'delete', path: claimPath(path), version: AS_MADE },
          ],
          deadline,
        ),
        'NO_NODE',
        'BAD_VERSION',
      );
      if (taken !== undefined) queue.dispatcher.settled(path, 'free');
    }),
  );
}
