/**
 * Two-phase commit: a coordinator names the participants, each of them votes, and all learn the same decision.
 *
 * Guarantee: a transaction is decided once, forever, and the same for everybody: `committed` only if at that moment all
 *   participants had voted commit, each under a living lease; `aborted` otherwise. It is decided at once when the last
 *   vote, a vote to abort or the loss of a participant says so, and at its deadline otherwise, as long as a replica
 *   lives; whichever replicas were killed.
 * Not guaranteed: that a participant that voted commit has learnt the decision, nor that it carries it out. Until it
 * learns the decision, it must not act; it asks, at any replica, with any lease or none.
 *
 * Layout:  <root>/ns/<namespace>/transactions/<bb>/<id>            persistent; see `record.ts`
 *          <root>/ns/<namespace>/open-transactions/<id>            persistent; what housekeeping looks after, until
 *                                                                  nothing but the record is left
 * Source:  ZooKeeper recipes, "Two-phased Commit". There every site watches the votes of all others, which are n·n
 *          messages; here the state lies in the data of the one node that all watch, and the number of votes in its
 *          Stat.
 *
 * Reading order: this; `record.ts`; `participation.ts`; `decisions.ts`; `watch.ts`; `observers.ts` and `list.ts`;
 * `chore.ts`.
 *
 * Step by step, and what a crash after each leaves:
 *
 * 1. *Create*: the record, and its entry in the list of open ones, in one transaction. The id follows from principal
 *    and requestId, so a repeat finds the first try; without a requestId it is random. The coordinator needs no lease:
 *    when it dies now, the rest goes on without it, and the deadline ends it if nobody takes part.
 * 2. *Join, vote* (`participation.ts`), each in one transaction with a check that it is still open: no vote lands after
 *    the decision. The nodes are ephemeral, of the participant's lease. A crash before the answer: the repeat finds
 *    what was done. Of two last votes at once each sees itself; the one that ZooKeeper put last sees both, because it
 *    reads behind its own write. A crash between that write and the decision leaves a transaction that all have voted
 *    for: whoever asks next decides it: the repeated vote, a GET, the timer of any replica that had to do with it,
 *    housekeeping.
 * 3. *Decide* (`decisions.ts`): a write to the record at version 0, so of any number there is one. Commit checks all
 *    votes in the same transaction, by deleting them; so a participant that is lost before makes it fail, and after it
 *    nothing can change. An answer that is lost is no harm: the next look shows whether it was done.
 * 4. *Tell*: one watch per replica, on the record's node, answers every long poll and stream (`observers.ts`).
 * 5. *Forget*: what is left of the nodes goes with an abort, or by housekeeping (`chore.ts`); the record when it is
 *    older than the history that the operator wants to keep.
 *
 * A participant that is lost: its nodes go with its session. The Stat shows that a child has gone, to everybody, also
 * after the participant is back with a new lease; whoever sees it, aborts. The replicas through which it joined and
 * voted watch for it (`watch.ts`). One that never joined is not lost: only the deadline ends that.
 *
 * Races: the deadline against the last vote: the votes are looked at first, then `aborted` is written at version 0; a
 * vote in between is told that decision. A loss against the commit: ZooKeeper orders them. An abort by the coordinator
 * against the commit: the same.
 */
import { randomBytes } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import { isPosternError, StandingConflictError } from '../../errors.js';
import type { Lease } from '../../leases/lease.js';
import type { Awaited } from '../../time.js';
import { ensembleNow } from '../../zookeeper/ensemble-time.js';
import { isReason, orUnknown } from '../../zookeeper/errors.js';
import { persisting } from '../../zookeeper/retrying.js';
import { parentOf } from '../../zookeeper/paths.js';
import type { Coordination } from '../coordination.js';
import { keptAlive } from '../waiting/kept-alive.js';
import { notFound, Participants } from './participation.js';
import { TransactionDecisions, type FullLook } from './decisions.js';
import { transactionObservers, type ObservedTransaction, type TransactionObservers } from './observers.js';
import {
  deadlineOf,
  derivedId,
  encodeTransaction,
  isTransactionId,
  lookAt,
  rollOf,
  stateOf,
  type TransactionLook,
  type TransactionRecord,
  type TransactionRef,
} from './record.js';
import { TransactionWatch } from './watch.js';

export interface CreateTransaction {
  namespace: string;
  principal: string;
  participants: string[];
  deadlineMs: number;
  data: unknown;
  /** Empty for none. */
  requestId: string;
}

/** Of one replica. */
export class Transactions {
  readonly decisions: TransactionDecisions;
  readonly watch: TransactionWatch;
  readonly observers: TransactionObservers;
  readonly participants: Participants;
  readonly #context: Coordination;

  constructor(context: Coordination, onFault: (error: unknown) => void) {
    this.#context = context;
    this.decisions = new TransactionDecisions(context);
    this.watch = new TransactionWatch(context, this.decisions, onFault);
    this.observers = transactionObservers(context.control);
    this.participants = new Participants(context, this.decisions, this.watch);
    this.decisions.onDecided = (ref) => this.watch.forget(ref);
  }

  /** @throws PosternError `not-found` for what can be no id */
  ref(namespace: string, id: string): TransactionRef {
    const ref = this.decisions.ref(namespace, id);
    if (!isTransactionId(id)) throw notFound(ref);
    return ref;
  }

  /** @throws PosternError `conflict` when the requestId was used for another transaction; NoReplyError */
  async create(request: CreateTransaction, { deadline, requester }: Awaited): Promise<TransactionLook> {
    const { namespace, principal, participants, deadlineMs, data, requestId } = request;
    const id = requestId === '' ? randomBytes(16).toString('hex') : derivedId(namespace, principal, requestId);
    const ref = this.ref(namespace, id);
    const record = { principal, participants, deadlineMs, ...(data === undefined ? {} : { data }) };
    const look = await persisting('the transaction', deadline, (maybeApplied) =>
      this.#create(ref, record, !maybeApplied, { deadline, requester }),
    );
    if (stateOf(look) === 'open') this.watch.attend(ref, deadlineOf(look));
    return look;
  }

  /**
   * What has become of it, after it was decided if it can be. `brief` leaves out who has joined and voted.
   * @throws PosternError `not-found`, NoReplyError
   */
  async show(ref: TransactionRef, deadline: number, brief = false): Promise<FullLook> {
    const glanced = await this.decisions.glance(ref, deadline);
    if (glanced === undefined) throw notFound(ref);
    // What is read behind the glance is as new as that.
    const look =
      brief && !this.decisions.isDue(glanced)
        ? { ...glanced, roll: rollOf([]) }
        : await this.decisions.decide(ref, deadline);
    if (look === undefined) throw notFound(ref);
    return look;
  }

  /** As a server that may lag behind knows it; decides nothing. */
  async showStale(ref: TransactionRef, deadline: number): Promise<FullLook> {
    const zk = this.#context.control.until(deadline);
    const [node, children] = await Promise.all([zk.find(ref.path), zk.children(ref.path)]);
    if (node === undefined) throw notFound(ref);
    return { ...lookAt(ref, node), roll: rollOf(children) };
  }

  /**
   * Waits until it is in a state that is `wanted`. A lease that is given is kept alive meanwhile.
   * @returns undefined at the deadline or when the signal is aborted
   * @throws LeaseExpiredError
   */
  async until(
    look: TransactionLook,
    wanted: (state: ObservedTransaction) => boolean,
    { deadline, signal, lease }: { deadline: number; signal: AbortSignal; lease: Lease | undefined },
  ): Promise<ObservedTransaction | undefined> {
    if (stateOf(look) === 'open') this.watch.attend(look.ref, deadlineOf(look));
    const wait = (ending: AbortSignal): Promise<ObservedTransaction | undefined> =>
      this.observers.until(look.ref, wanted, deadline, ending);
    const state = await (lease === undefined ? wait(signal) : keptAlive(this.#context.leases, lease, signal, wait));
    if (state !== undefined && (state.look === undefined || stateOf(state.look) !== 'open'))
      this.watch.forget(look.ref);
    return state;
  }

  /** Calls `subscriber` with the state, and with the decision, until the returned function is called. */
  subscribe(look: TransactionLook, subscriber: (look: TransactionLook) => void): () => void {
    if (stateOf(look) === 'open') this.watch.attend(look.ref, deadlineOf(look));
    return this.observers.subscribe(look.ref, ({ look: seen }) => {
      if (seen === undefined) return;
      if (stateOf(seen) !== 'open') this.watch.forget(look.ref);
      subscriber(seen);
    });
  }

  /** Whatever it was before, it is decided now. @throws PosternError `not-found`, NoReplyError */
  async abort(ref: TransactionRef, note: string | undefined, awaited: Awaited): Promise<FullLook> {
    const look = await this.decisions.abort(ref, { reason: 'requested', causedBy: [], note }, awaited);
    if (look === undefined) throw notFound(ref);
    return look;
  }

  /** @param isNew no earlier try may have made it: it is refused where there are too many */
  async #create(
    ref: TransactionRef,
    record: TransactionRecord,
    isNew: boolean,
    { deadline, requester }: Awaited,
  ): Promise<TransactionLook> {
    const { layout, names } = this.#context;
    const zk = this.#context.control.writingFor(requester).until(deadline);
    const entry = layout.openTransaction(ref.namespace, ref.id);
    let made = false;
    for (;;) {
      try {
        if (isNew) await names.admit(parentOf(entry), deadline);
        await zk.multi([
          { type: 'create', path: ref.path, data: encodeTransaction(record) },
          { type: 'create', path: entry },
        ]);
        made = true;
      } catch (error) {
        if (isReason(error, 'NO_NODE')) {
          await zk.ensure(parentOf(ref.path));
          await zk.ensure(parentOf(entry));
          continue;
        }
        const isFull = isPosternError(error, 'too-many-names');
        if (!isFull && !isReason(error, 'NODE_EXISTS')) throw error;
        await zk.sync(ref.path);
        // A repeat of what was made takes no room.
        if (isFull && (await zk.exists(ref.path)) === undefined) throw error;
      }
      await orUnknown(ensembleNow(this.#context, deadline), () => made);
      const node = await orUnknown(zk.find(ref.path), () => made);
      if (node === undefined) continue; // its history was removed in that moment
      const look = lookAt(ref, node);
      if (!isSame(look.record, record))
        throw new StandingConflictError(
          'The requestId has been used for a transaction with other participants, deadlineMs or data.',
          { transactionId: ref.id },
        );
      return look;
    }
  }
}

function isSame({ decision: _, ...before }: TransactionRecord, record: TransactionRecord): boolean {
  const [was, is] = [before, record].map((one): unknown => JSON.parse(JSON.stringify(one)));
  return isDeepStrictEqual(was, is);
}
