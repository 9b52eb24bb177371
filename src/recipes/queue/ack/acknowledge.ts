/**
 * Acknowledges claims: the message goes with its claim (`settling.ts`). What does not go through at once, without the
 * lease's session, is looked after on that session.
 */
import type { Lease } from '../../../leases/lease.js';
import { tryWithoutSession, type Tried } from '../../../leases/without-session.js';
import type { Awaited } from '../../../time.js';
import { isReason, NoReplyError, orUnknown } from '../../../zookeeper/errors.js';
import type { LeaseSession } from '../../../zookeeper/lease-session.js';
import { OwnedTransaction } from '../../../zookeeper/owned-transaction.js';
import { claimPath, recordPath } from '../claim/entry.js';
import type { Queue } from '../queue.js';
import { MESSAGES_AT_ONCE } from '../transactions.js';
import { Nacks } from './nacks.js';
import { settlings, standing, withVersions, type Settled, type Settling } from './settling.js';

/**
 * @returns one result per claimId, in order
 * @throws LeaseExpiredError, NoReplyError
 */
export async function acknowledge(
  queue: Queue,
  lease: Lease,
  claimIds: readonly string[],
  { deadline, requester }: Awaited,
): Promise<Settled[]> {
  const results: Settled[] = claimIds.map(() => 'lost');
  const open = settlings(queue, lease, claimIds);
  const tried = await acknowledgeTogether(queue, lease, open, { deadline, requester });
  if (tried === 'done') {
    for (const { index, path } of open) {
      results[index] = 'done';
      queue.dispatcher.settled(path, 'gone');
    }
    queue.count('ack', open.length);
    return results;
  }
  const wrote = (): boolean => tried === 'in-doubt' || results.includes('done');
  let inDoubt = false;
  for (let i = 0; i < open.length; i += MESSAGES_AT_ONCE) {
    const batch = open.slice(i, i + MESSAGES_AT_ONCE);
    const onSession = async (session: LeaseSession, attempt: number): Promise<boolean> => {
      const tries = tried === 'in-doubt' ? attempt + 1 : attempt;
      const done = await acknowledgeBatch(queue, session, batch, results, deadline);
      if (!done) {
        // An earlier try, whose reply was lost, may have come before the deletion.
        inDoubt = tries > 0;
        return false;
      }
      // Told apart only here: of a message that is there somebody else has the claim, or nobody.
      const lost = batch.filter(({ index }) => results[index] === 'lost');
      if (lost.length === 0) return true;
      const nacks = await Nacks.read(session, queue, lease, deadline);
      for (const settling of lost) {
        const why = await whyLost(queue, session, settling, nacks, deadline);
        if (why !== 'unknown') results[settling.index] = why;
        // An earlier try of this request, whose reply was lost, may have done it.
        else if (tries > 0) inDoubt = true;
      }
      return true;
    };
    const acknowledging = queue.context.leases.sessions.useRepeatedly(lease, deadline, onSession, requester);
    const isThere = await orUnknown(acknowledging, wrote);
    if (inDoubt) throw new NoReplyError('the acknowledgement', 'connection-lost', true);
    if (!isThere) break; // deleted: claims of it mean nothing any more
    for (const { path, index } of batch) if (results[index] !== 'lost') queue.dispatcher.settled(path, 'gone');
  }
  queue.count('ack', results.filter((result) => result === 'done').length);
  return results;
}

/**
 * All of them in one transaction that other requests share, as is usual: nobody has lost a claim. It may arrive when
 * the client has given it up, and has done something newer with the claim at another replica: so only claims as they
 * were made (protocol C35).
 */
async function acknowledgeTogether(
  queue: Queue,
  lease: Lease,
  open: readonly Settling[],
  awaited: Awaited,
): Promise<Tried> {
  if (open.length === 0 || open.length > MESSAGES_AT_ONCE) return 'not-done';
  return tryWithoutSession(queue.control, lease, awaited, async (zk) => {
    await zk.multi(transactionOf(queue, open).operations);
    return true;
  });
}

function transactionOf(queue: Queue, open: readonly Settling[]): OwnedTransaction<'queue' | Settling> {
  const transaction = new OwnedTransaction<'queue' | Settling>().add('queue', queue.paths.exists);
  for (const settling of open) {
    const { claim, path, version } = settling;
    transaction.add(
      settling,
      { type: 'delete', path: claimPath(path), version },
      { type: 'delete', path: recordPath(path), version: claim.version },
      { type: 'delete', path },
    );
  }
  return transaction;
}

/**
 * All of a batch in one transaction, without those that fail.
 * @returns false when the queue was deleted: nothing was done
 */
async function acknowledgeBatch(
  queue: Queue,
  session: LeaseSession,
  batch: readonly Settling[],
  results: Settled[],
  deadline: number,
): Promise<boolean> {
  // As they were made, they would have been acknowledged before.
  let open = await withVersions(session, batch, deadline);
  while (open.length > 0) {
    const transaction = transactionOf(queue, open);
    try {
      await session.multi(transaction.operations, deadline);
      for (const { index } of open) results[index] = 'done';
      return true;
    } catch (error) {
      const culprit = transaction.culpritOf(error);
      if (culprit === undefined || !isReason(error, 'NO_NODE', 'BAD_VERSION', 'NOT_EMPTY')) throw error;
      if (culprit === 'queue') return false;
      const left = await standing(session, open, culprit, deadline);
      const stands = new Set(left.map(({ index }) => index));
      for (const { index } of open) {
        // An earlier try of this request has done it, if it says so.
        if (!stands.has(index) && results[index] !== 'done') results[index] = 'lost';
      }
      open = left;
    }
  }
  return true;
}

/** @returns `unknown`: the message is gone, and the claim may have ended by its time before that */
async function whyLost(
  queue: Queue,
  session: LeaseSession,
  { claimId, claim, path }: Settling,
  nacks: Nacks,
  deadline: number,
): Promise<Settled | 'unknown'> {
  // What ended the claim is older than what the marks were read for.
  if (nacks.has(claimId) || (await session.exists(path, deadline)) !== undefined) return 'lost';
  return claim.until === 0 || (await queue.ensembleNow(deadline)) < claim.until ? 'gone' : 'unknown';
}
