/**
 * Negative acknowledgements (`settling.ts`): the messages return to their places, with a mark that tells so
 * (`nacks.ts`), or are moved elsewhere (`move-out.ts`).
 */
import type { Lease } from '../../../leases/lease.js';
import type { Awaited } from '../../../time.js';
import { isReason, NoReplyError, orUnknown } from '../../../zookeeper/errors.js';
import type { LeaseSession } from '../../../zookeeper/lease-session.js';
import { OwnedTransaction } from '../../../zookeeper/owned-transaction.js';
import { claimPath, recordPath } from '../claim/entry.js';
import type { Queue } from '../queue.js';
import { MESSAGES_AT_ONCE } from '../transactions.js';
import { moveOut, type Return } from './move-out.js';
import { Nacks } from './nacks.js';
import { settlings, standing, type Settled, type Settling } from './settling.js';

/**
 * As `acknowledge`: `gone` is what this lease gave back before.
 * @param how where the messages go
 */
export async function giveBack(
  queue: Queue,
  lease: Lease,
  claimIds: readonly string[],
  how: Return,
  awaited: Awaited,
): Promise<Settled[]> {
  const { deadline, requester } = awaited;
  const results: Settled[] = claimIds.map(() => 'lost');
  const wrote = (): boolean => results.includes('done');
  const own = settlings(queue, lease, claimIds);
  const { sessions } = queue.context.leases;
  await queue.context.leases.touch(lease, deadline);
  const inPlace: Settling[] = [];
  if (own.length > 0 && (how.delayMs > 0 || how.deadLetter || queue.config.maxDeliveries !== undefined)) {
    const read = async (session: LeaseSession): Promise<Nacks | undefined> => {
      const isThere = await Nacks.ensure(session, queue, lease, deadline);
      return isThere ? Nacks.read(session, queue, lease, deadline) : undefined;
    };
    const before = await sessions.useRepeatedly(lease, deadline, read, requester);
    if (before === undefined) return results; // deleted: claims of it mean nothing any more
    for (const settling of own) {
      const moved = before.has(settling.claimId)
        ? 'gone'
        : await orUnknown(moveOut(queue, lease, settling, how, awaited), wrote);
      if (moved === undefined) inPlace.push(settling);
      else results[settling.index] = moved;
      if (moved === 'done') queue.dispatcher.settled(settling.path, 'gone');
    }
  } else inPlace.push(...own);
  for (let i = 0; i < inPlace.length; i += MESSAGES_AT_ONCE) {
    const batch = inPlace.slice(i, i + MESSAGES_AT_ONCE);
    const report = ({ index }: Settling, how: Settled): void => void (results[index] = how);
    const onSession = async (session: LeaseSession, tries: number): Promise<boolean> => {
      const isThere = await giveBackInPlace({ queue, lease, deadline }, session, batch, (settling, how) =>
        report(settling, how === 'gone' && tries > 0 ? 'done' : how),
      );
      return isThere || tries === 0;
    };
    const givingBack = sessions.useRepeatedly(lease, deadline, onSession, requester);
    // A try whose reply was lost may have come before the deletion.
    if (!(await orUnknown(givingBack, wrote)))
      throw new NoReplyError('the return of the claims', 'connection-lost', true);
    for (const { path, index } of batch) if (results[index] === 'done') queue.dispatcher.settled(path, 'free');
  }
  queue.count('nack', results.filter((result) => result === 'done').length);
  return results;
}

/**
 * A batch in one transaction, without those that fail. What is not reported is lost.
 * @returns false when the queue was deleted: nothing was done
 */
async function giveBackInPlace(
  { queue, lease, deadline }: { queue: Queue; lease: Lease; deadline: number },
  session: LeaseSession,
  batch: readonly Settling[],
  report: (settling: Settling, how: Settled) => void,
): Promise<boolean> {
  let open = [...batch];
  for (;;) {
    const nacks = await Nacks.read(session, queue, lease, deadline);
    for (const settling of open) if (nacks.has(settling.claimId)) report(settling, 'gone');
    open = open.filter(({ claimId }) => !nacks.has(claimId));
    if (open.length === 0) return true;
    const transaction = new OwnedTransaction<'queue' | 'marks' | Settling>()
      .add('queue', queue.paths.exists)
      .add('marks', nacks.add(open.map(({ claimId }) => claimId)));
    for (const settling of open) {
      const { claim, path, version } = settling;
      transaction.add(
        settling,
        { type: 'check', path: recordPath(path), version: claim.version },
        { type: 'delete', path: claimPath(path), version },
      );
    }
    try {
      await session.multi(transaction.operations, deadline);
      for (const settling of open) report(settling, 'done');
      return true;
    } catch (error) {
      const culprit = transaction.culpritOf(error);
      if (culprit === undefined || !isReason(error, 'NO_NODE', 'BAD_VERSION', 'NODE_EXISTS')) throw error;
      if (culprit === 'queue') return false; // deleted: claims of it mean nothing any more
      // Marks that were written meanwhile are read anew.
      if (culprit !== 'marks') open = await standing(session, open, culprit, deadline);
    }
  }
}
