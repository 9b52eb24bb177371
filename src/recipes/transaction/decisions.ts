/**
 * Decides a transaction: the third step of `transaction.ts`, which any number of replicas may take at any time.
 *
 *   look (sync, node, children) ──decided──────────────────────────────▶ told
 *     │  ├── somebody was lost ─────────▶ set `aborted` at version 0 ─┐
 *     │  ├── all have voted commit ─────▶ one transaction: delete each vote at its version, set `committed` at 0
 *     │  ├── the deadline has passed ───▶ set `aborted` at version 0 ─┤
 *     │  └── none of these ────────────▶ told: open                   │
 *     └◀── somebody else was first, a vote has gone, or no answer came ┘
 *
 * Of any number of writers at version 0, one succeeds. The others look again and find what that one wrote.
 *
 * The ensemble's clock proves that the deadline has passed: a write with a later mtime. This replica's own estimate
 * only tells when asking is worthwhile (protocol T9).
 */
import type { Awaited } from '../../time.js';
import { byDeadline } from '../../zookeeper/by-deadline.js';
import type { ZooKeeperClient } from '../../zookeeper/client.js';
import { askTime } from '../../zookeeper/ensemble-time.js';
import { isReason } from '../../zookeeper/errors.js';
import { AGAIN, persisting } from '../../zookeeper/retrying.js';
import type { MultiOperation, Stat } from '../../zookeeper/operations.js';
import { OwnedTransaction } from '../../zookeeper/owned-transaction.js';
import type { Coordination } from '../coordination.js';
import { SharedLooks } from '../observing/shared-look.js';
import {
  commitPath,
  deadlineOf,
  encodeTransaction,
  joinedPath,
  lookAt,
  lookOf,
  progressOf,
  rollOf,
  stateOf,
  type AbortReason,
  type Decision,
  type Roll,
  type TransactionLook,
  type TransactionRecord,
  type TransactionRef,
} from './record.js';

const REQUEST_MS = 10_000;
/**
 * What is left of a decided transaction goes at the first try; should others get in between for so long, housekeeping
 * does it.
 */
const TIDY_TRIES = 5;

/** A look that also tells who has joined and voted; nobody of a decided one. */
export interface FullLook extends TransactionLook {
  roll: Roll;
}

/** What an abort is to say. */
export type Abort = { reason: AbortReason; causedBy: string[]; note?: string | undefined };

/** Of a transaction's node while it is open. */
export const OPEN_VERSION = 0;
const NOBODY: Roll = { joined: new Set(), commits: new Set() };

export class TransactionDecisions {
  readonly #context: Coordination;
  readonly #looks = new SharedLooks<FullLook | undefined>();
  /** Participants of open transactions whose nodes this replica has seen go, by path. */
  readonly #lost = new Map<string, Set<string>>();
  readonly #tidying = new Set<string>();
  /** Called when this replica learns, in whatever way, that a transaction is decided or gone. */
  onDecided: ((ref: TransactionRef) => void) | undefined;

  constructor(context: Coordination) {
    this.#context = context;
  }

  ref(namespace: string, id: string): TransactionRef {
    return { namespace, id, path: this.#context.layout.transaction(namespace, id) };
  }

  /**
   * The transaction, up to date, after it was decided if it can be. All who ask in this replica at the same time share
   * one look.
   * @param lost a participant of which the caller knows that it was lost
   * @returns undefined when there is none
   * @throws NoReplyError
   */
  async decide(ref: TransactionRef, deadline: number, lost?: string): Promise<FullLook | undefined> {
    if (lost !== undefined) this.#lost.set(ref.path, (this.#lost.get(ref.path) ?? new Set()).add(lost));
    const shared = this.#looks.ask(ref.path, () => this.#decide(ref, performance.now() + REQUEST_MS), {
      isFinal: (look) => look === undefined || stateOf(look) !== 'open',
    });
    return byDeadline(shared, deadline, 'the reading of the transaction');
  }

  /** Only what its own node says, by a quorum: what it costs does not depend on the number of participants. */
  async glance(ref: TransactionRef, deadline: number): Promise<TransactionLook | undefined> {
    const zk = this.#context.control.until(deadline);
    const node = await zk.fresh(() => zk.find(ref.path));
    if (node === undefined) return undefined;
    const look = lookAt(ref, node);
    if (stateOf(look) !== 'open') this.noticed(look);
    return look;
  }

  /** Aborts it if it is open. @returns what became of it, undefined when there is none */
  async abort(ref: TransactionRef, abort: Abort, { deadline, requester }: Awaited): Promise<FullLook | undefined> {
    const { control } = this.#context;
    return persisting('the decision', deadline, async () => {
      const look = await this.#look(ref, deadline);
      if (look === undefined) return undefined;
      if (stateOf(look) === 'open') return this.#abort(look, abort, deadline, control.writingFor(requester));
      this.noticed(look);
      return look;
    });
  }

  /**
   * Whether there is a reason to `decide`, as far as the node's own numbers and this replica's idea of the time tell.
   */
  isDue(look: TransactionLook): boolean {
    const progress = progressOf(look.stat, look.record.participants.length);
    if (progress === 'decided') return false;
    const { zooKeeperClock } = this.#context;
    return progress !== 'incomplete' || !zooKeeperClock.known || zooKeeperClock.now() >= deadlineOf(look);
  }

  /** To be called with what this replica, by whatever session, has written as the decision. */
  written(look: TransactionLook): void {
    const { transactionsDecidedTotal, transactionSeconds } = this.#context.metrics;
    const decision = look.record.decision as Decision;
    transactionsDecidedTotal.inc({ outcome: decision.state === 'committed' ? 'committed' : decision.reason });
    const seconds = Math.max(0, look.stat.mtime - look.stat.ctime) / 1_000;
    transactionSeconds.observe({ outcome: decision.state }, seconds);
    this.#learned(look.ref);
    if (decision.state === 'aborted') this.#tidyLater(look.ref);
  }

  /** To be called with a decided one that was read, whoever has decided it: perhaps that one could not tidy up. */
  noticed(look: TransactionLook): void {
    this.#learned(look.ref);
    if (look.stat.numChildren > 0) this.#tidyLater(look.ref);
  }

  /**
   * Removes what is left of a decided transaction beside its record: whoever takes part in it holds nothing any more.
   */
  async tidy(ref: TransactionRef, deadline: number): Promise<void> {
    const { control, layout } = this.#context;
    const zk = control.until(deadline);
    let listed = true;
    for (let tries = 0; tries < TIDY_TRIES; tries += 1) {
      const removal = new OwnedTransaction<'left' | 'entry'>();
      for (const child of await zk.children(ref.path))
        removal.add('left', { type: 'delete', path: `${ref.path}/${child}` });
      if (listed) removal.add('entry', { type: 'delete', path: layout.openTransaction(ref.namespace, ref.id) });
      if (removal.operations.length === 0) return;
      try {
        await zk.multi(removal.operations);
        return;
      } catch (error) {
        // Whose lease ends in that moment is gone already; a lagging server may still list it.
        if (!isReason(error, 'NO_NODE')) throw error;
        if (removal.culpritOf(error) === 'entry') listed = false;
        else await zk.sync(ref.path);
      }
    }
  }

  #decide(ref: TransactionRef, deadline: number): Promise<FullLook | undefined> {
    let listed = true;
    return persisting('the decision', deadline, async () => {
      const look = await this.#look(ref, deadline);
      if (look === undefined) this.#learned(ref);
      else if (stateOf(look) !== 'open') this.noticed(look);
      if (look === undefined || stateOf(look) !== 'open') return look;
      const { record, roll } = look;
      switch (progressOf(look.stat, record.participants.length)) {
        case 'decided':
          return AGAIN; // since the node was read
        case 'lost':
          return this.#abort(look, { reason: 'participant-lost', causedBy: this.#lostOf(look) }, deadline);
        case 'complete': {
          const committed = await this.#commit(look, listed, deadline);
          listed &&= committed !== 'not-listed';
          return committed === 'not-listed' ? AGAIN : committed;
        }
        case 'incomplete': {
          if (!this.isDue(look) || (await askTime(this.#context, deadline)).mtime < deadlineOf(look)) return look;
          const late = record.participants.filter((participant) => !roll.commits.has(participant));
          return this.#abort(look, { reason: 'deadline', causedBy: late }, deadline);
        }
      }
    });
  }

  /** The numbers and the names are of the same moment: those of the listing. */
  async #look(ref: TransactionRef, deadline: number): Promise<FullLook | undefined> {
    const zk = this.#context.control.until(deadline);
    const [, node, listing] = await Promise.all([zk.sync(ref.path), zk.find(ref.path), zk.list(ref.path)]);
    if (node === undefined || listing === undefined) return undefined;
    const decided = node.stat.version > 0;
    const look = lookAt(ref, decided ? node : { data: node.data, stat: listing.stat });
    return { ...look, roll: decided ? NOBODY : rollOf(listing.children) };
  }

  async #commit(look: FullLook, listed: boolean, deadline: number): Promise<FullLook | typeof AGAIN | 'not-listed'> {
    const { control, layout } = this.#context;
    const { ref, record } = look;
    const decided = { ...record, decision: { state: 'committed' } as const };
    const transaction = new OwnedTransaction<'decision' | 'entry'>().add(
      'decision',
      { type: 'setData', path: ref.path, data: encodeTransaction(decided), version: OPEN_VERSION },
      // To delete it at this version is to check it, and nobody has to clean up.
      ...record.participants.map((one) => deletion(commitPath(ref, one))),
      ...record.participants.map((one) => deletion(joinedPath(ref, one))),
    );
    if (listed) transaction.add('entry', { type: 'delete', path: layout.openTransaction(ref.namespace, ref.id) });
    try {
      const [written] = await control.multi(transaction.operations, deadline);
      return this.#decided(lookOf(ref, decided, (written as { stat: Stat }).stat));
    } catch (error) {
      if (!isReason(error, 'NO_NODE', 'BAD_VERSION')) throw error;
      return transaction.culpritOf(error) === 'entry' ? 'not-listed' : AGAIN;
    }
  }

  async #abort(
    { ref, record, roll }: FullLook,
    abort: Abort,
    deadline: number,
    client: ZooKeeperClient = this.#context.control,
  ): Promise<FullLook | typeof AGAIN> {
    const decided = abortedRecord(record, roll, abort);
    try {
      const stat = await client.setData(ref.path, encodeTransaction(decided), OPEN_VERSION, deadline);
      return this.#decided(lookOf(ref, decided, stat));
    } catch (error) {
      if (!isReason(error, 'NO_NODE', 'BAD_VERSION')) throw error;
      return AGAIN;
    }
  }

  #decided(look: TransactionLook): FullLook {
    this.written(look);
    return { ...look, roll: NOBODY };
  }

  /** Those whom this replica has seen go; where none of them is missing, all who are not there. */
  #lostOf({ ref, record, roll }: FullLook): string[] {
    const missing = record.participants.filter((participant) => !roll.joined.has(participant));
    const seen = missing.filter((participant) => this.#lost.get(ref.path)?.has(participant));
    return seen.length > 0 ? seen : missing;
  }

  /** Nobody waits for that; where it fails, housekeeping does it. */
  #tidyLater(ref: TransactionRef): void {
    if (this.#tidying.has(ref.path)) return;
    this.#tidying.add(ref.path);
    this.tidy(ref, performance.now() + REQUEST_MS)
      .catch(() => undefined)
      .finally(() => this.#tidying.delete(ref.path));
  }

  #learned(ref: TransactionRef): void {
    this.#lost.delete(ref.path);
    this.onDecided?.(ref);
  }
}

/** The record of a transaction that is aborted now. */
export function abortedRecord(record: TransactionRecord, { commits }: Roll, abort: Abort): TransactionRecord {
  const { reason, causedBy, note } = abort;
  const voted = record.participants.filter(
    (participant) => commits.has(participant) && !causedBy.includes(participant),
  );
  return {
    ...record,
    decision: { state: 'aborted', reason, causedBy, commits: voted, ...(note === undefined ? {} : { note }) },
  };
}

function deletion(path: string): MultiOperation {
  return { type: 'delete', path, version: 0 };
}
