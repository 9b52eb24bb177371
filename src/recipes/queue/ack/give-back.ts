/**
 * Negative acknowledgements (`settling.ts`): the messages return to their places, with a mark that tells so
 * (`nacks.ts`), or are moved elsewhere (`move-out.ts`).
 */
import { PosternError } from '../../../errors.js';
import type { Lease } from '../../../leases/lease.js';
import type { Awaited } from '../../../time.js';
import { isReason, isTransient, NoReplyError, orUnknown } from '../../../zookeeper/errors.js';
import type { LeaseSession } from '../../../zookeeper/lease-session.js';
import { OwnedTransaction } from '../../../zookeeper/owned-transaction.js';
import { claimPath, recordPath } from '../claim/entry.js';
import type { Queue } from '../queue.js';
import { MESSAGES_AT_ONCE } from '../transactions.js';
import { moveOut, wornOf, type Return } from './move-out.js';
import { Nacks } from './nacks.js';
import { settlings, standing, type Settled, type Settling } from './settling.js';

/**
 * As `acknowledge`: `gone` is what this lease gave back before.
 * @param how where the messages go
 * @throws as `acknowledge`, and PosternError when one cannot go there; the others have been given back then
 */
export async function giveBack(
  queue: Queue,
  lease: Lease,
  claimIds: readonly string[],
  how: Return,
  awaited: Awaited,
): Promise<Settled[]> {
  const own = settlings(queue, lease, claimIds);
  await queue.context.leases.touch(lease, awaited.deadline);
  const giving = new GivingBack(queue, lease, how, awaited, claimIds.length);
  const { results } = giving;
  let known: Nacks | undefined;
  if (own.length > 0 && (how.delayMs > 0 || how.deadLetter || queue.config.maxDeliveries !== undefined)) {
    known = await marksOf(queue, lease, awaited);
    if (known === undefined) return results; // deleted: claims of it mean nothing any more
  }
  // One batch after the other, whatever is to become of its messages: what is done of many stays done.
  for (let i = 0; i < own.length; i += MESSAGES_AT_ONCE) {
    const batch = own.slice(i, i + MESSAGES_AT_ONCE);
    await giving.inPlace(known === undefined ? batch : await giving.moveOut(batch, known));
  }
  const done = results.filter((result) => result === 'done').length;
  queue.count('nack', done);
  if (giving.refusal !== undefined) throw done === 0 ? giving.refusal : partly(giving.refusal);
  return results;
}

/** The marks of the lease, in a node that is there then. @returns undefined when the queue was deleted */
function marksOf(queue: Queue, lease: Lease, { deadline, requester }: Awaited): Promise<Nacks | undefined> {
  const read = async (session: LeaseSession): Promise<Nacks | undefined> => {
    const isThere = await Nacks.ensure(session, queue, lease, deadline);
    return isThere ? Nacks.read(session, queue, lease, deadline) : undefined;
  };
  return queue.context.leases.sessions.useRepeatedly(lease, deadline, read, requester);
}

/** For a refusal which says that nothing was done, when something was. */
function partly(refusal: PosternError): PosternError {
  const { code, members } = refusal;
  return new PosternError(
    'outcome-unknown',
    `Some of the messages were given back. Others were refused where they are to go (${code}), and are claimed as before; the same request says why.`,
    { members, cause: refusal },
  );
}

class GivingBack {
  readonly results: Settled[];
  /** Why a message could not go where it is to go: so no other one is tried. */
  refusal: PosternError | undefined;
  readonly #queue: Queue;
  readonly #lease: Lease;
  readonly #how: Return;
  readonly #awaited: Awaited;
  readonly #wrote = (): boolean => this.results.includes('done');

  constructor(queue: Queue, lease: Lease, how: Return, awaited: Awaited, count: number) {
    this.#queue = queue;
    this.#lease = lease;
    this.#how = how;
    this.#awaited = awaited;
    this.results = Array<Settled>(count).fill('lost');
  }

  /**
   * Moves those that do not stay in their places.
   * @param known the lease's marks as they were
   * @returns those that stay
   */
  async moveOut(batch: readonly Settling[], known: Nacks): Promise<Settling[]> {
    for (const { claimId, index } of batch) if (known.has(claimId)) this.results[index] = 'gone';
    const open = batch.filter(({ claimId }) => !known.has(claimId));
    const leaving = await orUnknown(this.#leaving(open), this.#wrote);
    const staying: Settling[] = [];
    for (const settling of open)
      if (!leaving.has(settling) || (await this.#moveOne(settling)) === 'stays') staying.push(settling);
    return staying;
  }

  async #leaving(batch: readonly Settling[]): Promise<ReadonlySet<Settling>> {
    const { delayMs, deadLetter } = this.#how;
    return new Set(delayMs > 0 || deadLetter ? batch : await wornOf(this.#queue, batch, this.#awaited.deadline));
  }

  async #moveOne(settling: Settling): Promise<'stays' | undefined> {
    if (this.refusal !== undefined) return undefined;
    const moving = moveOut(this.#queue, this.#lease, settling, this.#how, this.#awaited);
    try {
      const moved = await orUnknown(moving, this.#wrote);
      if (moved === undefined) return 'stays';
      this.results[settling.index] = moved;
      if (moved === 'done') this.#queue.dispatcher.settled(settling.path, 'gone');
    } catch (error) {
      if (!(error instanceof PosternError) || isTransient(error) || error.outcome === 'unknown') throw error;
      this.refusal = error;
    }
    return undefined;
  }

  async inPlace(batch: readonly Settling[]): Promise<void> {
    if (batch.length === 0) return;
    const [queue, lease, { deadline, requester }] = [this.#queue, this.#lease, this.#awaited];
    const report = ({ index }: Settling, how: Settled): void => void (this.results[index] = how);
    const onSession = async (session: LeaseSession, tries: number): Promise<boolean> => {
      const isThere = await giveBackInPlace({ queue, lease, deadline }, session, batch, (settling, how) =>
        report(settling, how === 'gone' && tries > 0 ? 'done' : how),
      );
      return isThere || tries === 0;
    };
    const givingBack = queue.context.leases.sessions.useRepeatedly(lease, deadline, onSession, requester);
    // A try whose reply was lost may have come before the deletion.
    if (!(await orUnknown(givingBack, this.#wrote)))
      throw new NoReplyError('the return of the claims', 'connection-lost', true);
    for (const { path, index } of batch) if (this.results[index] === 'done') queue.dispatcher.settled(path, 'free');
  }
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
