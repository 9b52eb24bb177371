/** `/v1/transactions`: two-phase commit, in the words of the contract. */
import { isPosternError, PosternError } from '../../errors.js';
import type { Lease } from '../../leases/lease.js';
import type { Coordination } from '../../recipes/coordination.js';
import type { Participation } from '../../recipes/participation.js';
import type { FullLook } from '../../recipes/transaction-decisions.js';
import { listTransactions } from '../../recipes/transaction-list.js';
import {
  deadlineOf,
  decidedVote,
  stateOf,
  type TransactionLook,
  type TransactionRef,
} from '../../recipes/transaction-record.js';
import type { Transactions } from '../../recipes/transaction.js';
import { endReason, instant } from '../../time.js';
import type { components } from '../contract.js';
import type { Answer, EventStream, Exchange, Routes } from '../exchange.js';
import { matchesEtag } from './etag.js';
import { stateStream } from './state-stream.js';
import { leaseOf, namespaceOf, namespaceOfReader, pageOf, pageTokenOf, requestIdOf } from './subject.js';

type Schemas = components['schemas'];

export function transactionRoutes(context: Coordination, transactions: Transactions): Routes {
  const routes = new TransactionRoutes(context, transactions);
  return {
    createTransaction: (exchange) => routes.create(exchange),
    listTransactions: (exchange) => routes.list(exchange),
    showTransaction: (exchange) => routes.show(exchange),
    watchTransaction: (exchange) => routes.watch(exchange),
    joinTransaction: (exchange) => routes.join(exchange),
    voteInTransaction: (exchange) => routes.vote(exchange),
    abortTransaction: (exchange) => routes.abort(exchange),
  };
}

class TransactionRoutes {
  readonly #context: Coordination;
  readonly #transactions: Transactions;

  constructor(context: Coordination, transactions: Transactions) {
    this.#context = context;
    this.#transactions = transactions;
  }

  async create(exchange: Exchange): Promise<Answer> {
    const body = exchange.body as Schemas['CreateTransactionRequest'];
    const { participants, deadlineMs, data } = body;
    const namespace = namespaceOf(exchange, 'use');
    for (const name of participants) exchange.authorize('use', namespace, { name });
    const look = await this.#transactions.create(
      {
        namespace,
        principal: exchange.principal.id,
        participants,
        deadlineMs,
        data,
        requestId: requestIdOf(exchange, body),
      },
      exchange.deadline,
    );
    return { status: 201, body: summarize(look) };
  }

  async list(exchange: Exchange): Promise<Answer> {
    const namespace = await namespaceOfReader(exchange, this.#context.leases);
    const { items, next } = await listTransactions(
      this.#context,
      this.#transactions.decisions,
      namespace,
      {
        ...pageOf(exchange),
        shows: (participants) => participants.some((name) => exchange.allows('read', namespace, { name })),
      },
      exchange.deadline,
    );
    const body: Schemas['TransactionList'] = { items: items.map(summarize), ...pageTokenOf(next) };
    return { status: 200, body };
  }

  async show(exchange: Exchange): Promise<Answer | EventStream> {
    if (exchange.wantsEvents) return this.watch(exchange);
    const namespace = await namespaceOfReader(exchange, this.#context.leases);
    const ref = this.#refOf(exchange, namespace);
    const { waitMs = 0, consistency } = exchange.query as { waitMs?: number; consistency?: string };
    const known = exchange.headers['if-none-match'] as string | undefined; // node never makes a list of this header
    const isKnown = (etag: string): boolean => known !== undefined && matchesEtag(known, etag);
    let look =
      consistency === 'stale'
        ? await this.#transactions.showStale(ref, exchange.deadline)
        : await this.#transactions.show(ref, exchange.deadline, waitMs > 0);
    checkReader(exchange, look);
    if (waitMs > 0) {
      const lease = await this.#touched(exchange);
      const waits = known === undefined ? stateOf(look) === 'open' : isKnown(look.etag);
      if (waits) look = await this.#wait(exchange, look, isKnown, waitMs, lease);
      else if (stateOf(look) === 'open') look = await this.#transactions.show(ref, exchange.deadline);
    }
    const { etag } = look;
    if (isKnown(etag)) return { status: 304, headers: { ETag: etag } };
    return { status: 200, body: describe(look), headers: { ETag: etag } };
  }

  async watch(exchange: Exchange): Promise<EventStream> {
    const namespace = await namespaceOfReader(exchange, this.#context.leases);
    const ref = this.#refOf(exchange, namespace);
    const look = await this.#transactions.show(ref, exchange.deadline, true); // none is an answer, not a stream
    checkReader(exchange, look);
    return stateStream(exchange, (subscriber) => this.#transactions.subscribe(look, subscriber), summarize);
  }

  async join(exchange: Exchange): Promise<Answer> {
    const { participant } = exchange.body as Schemas['JoinTransactionRequest'];
    const lease = await leaseOf(exchange, this.#context.leases);
    exchange.authorize('use', lease.namespace, { name: participant });
    const ref = this.#refOf(exchange, lease.namespace);
    const { deadline } = exchange;
    const joined = await this.#transactions.participants.join({ lease, ref, participant, deadline });
    return { status: 200, body: describeParticipation(lease, participant, joined) };
  }

  async vote(exchange: Exchange): Promise<Answer> {
    const { participant, vote, waitMs = 0 } = exchange.body as Schemas['VoteRequest'];
    const lease = await leaseOf(exchange, this.#context.leases);
    exchange.authorize('use', lease.namespace, { name: participant });
    const ref = this.#refOf(exchange, lease.namespace);
    const { deadline } = exchange;
    const voted = await this.#transactions.participants.vote({ lease, ref, participant, deadline }, vote);
    if (waitMs === 0 || stateOf(voted.look) !== 'open')
      return { status: 200, body: describeParticipation(lease, participant, voted) };
    const look = await this.#wait(exchange, voted.look, () => false, waitMs, lease);
    const expiresAt = await this.#context.leases.touch(lease, exchange.deadline + waitMs);
    return { status: 200, body: describeParticipation(lease, participant, { look, expiresAt }) };
  }

  async abort(exchange: Exchange): Promise<Answer> {
    const { reason } = exchange.body as Schemas['AbortTransactionRequest'];
    const namespace = namespaceOfEither(exchange);
    const ref = this.#refOf(exchange, namespace);
    const { record } = await this.#transactions.show(ref, exchange.deadline, true);
    if (record.principal !== exchange.principal.id) {
      for (const name of record.participants) exchange.authorize('admin', namespace, { name });
    }
    return { status: 200, body: describe(await this.#transactions.abort(ref, reason, exchange.deadline)) };
  }

  /** Waits for the decision, or until another state than the known one; then shows what there is. */
  async #wait(
    exchange: Exchange,
    look: TransactionLook,
    isKnown: (etag: string) => boolean,
    waitMs: number,
    lease: Lease | undefined,
  ): Promise<FullLook> {
    const changed = await this.#transactions.until(
      look,
      (state) => state.look === undefined || (stateOf(state.look) !== 'open' && !isKnown(state.etag)),
      { deadline: exchange.receivedAt + waitMs, signal: exchange.signal, lease },
    );
    if (changed?.look !== undefined) return { ...changed.look, roll: { joined: new Set(), commits: new Set() } };
    if (changed === undefined && endReason(exchange.signal) === 'draining')
      throw new PosternError('draining', 'This replica is shutting down; repeat the request.');
    return this.#transactions.show(look.ref, exchange.deadline + waitMs);
  }

  /** The lease of a request that need not have one: an ended one is told at once, not at the first touch during the wait. */
  async #touched(exchange: Exchange): Promise<Lease | undefined> {
    if (exchange.leaseToken === undefined) return undefined;
    const lease = await leaseOf(exchange, this.#context.leases, 'read');
    await this.#context.leases.touch(lease, exchange.deadline);
    return lease;
  }

  #refOf(exchange: Exchange, namespace: string): TransactionRef {
    return this.#transactions.ref(namespace, exchange.params['id'] as string);
  }
}

/** A transaction is that of its participants: whoever may read one of them sees what becomes of it. */
function checkReader(exchange: Exchange, { ref, record }: TransactionLook): void {
  const mayRead = (name: string): boolean => exchange.allows('read', ref.namespace, { name });
  if (!record.participants.some(mayRead))
    exchange.authorize('read', ref.namespace, { name: record.participants[0] ?? '' });
}

/** Whether it has to be `admin` only the transaction tells; who has neither scope is told nothing of it. */
function namespaceOfEither(exchange: Exchange): string {
  try {
    return namespaceOf(exchange, 'use');
  } catch (error) {
    if (!isPosternError(error, 'forbidden')) throw error;
    return namespaceOf(exchange, 'admin');
  }
}

function describeDecided({ ref, record }: TransactionLook): Schemas['Decided'] {
  const { decision } = record;
  const decided = { transactionId: ref.id, state: decision?.state ?? ('open' as const) };
  if (decision?.state !== 'aborted') return decided;
  const { reason, causedBy, note } = decision;
  return { ...decided, reason, causedBy, ...(note === undefined ? {} : { note }) };
}

function summarize(look: TransactionLook): Schemas['TransactionSummary'] {
  const { record, stat } = look;
  return {
    ...describeDecided(look),
    principal: record.principal,
    participantCount: record.participants.length,
    createdAt: instant(stat.ctime),
    deadline: instant(deadlineOf(look)),
    ...(record.decision === undefined ? {} : { decidedAt: instant(stat.mtime) }),
  };
}

function describe(look: FullLook): Schemas['Transaction'] {
  const { participants, decision, data } = look.record;
  const { joined, commits } = look.roll;
  return {
    ...summarize(look),
    votes: participants.map((participant) =>
      decision === undefined
        ? { participant, vote: commits.has(participant) ? 'commit' : null, joined: joined.has(participant) }
        : { participant, vote: decidedVote(decision, participant) ?? null },
    ),
    data: data ?? null,
  };
}

function describeParticipation(
  { leaseId, ttlMs }: Lease,
  participant: string,
  { look, expiresAt }: Participation,
): Schemas['Participation'] {
  return { ...describeDecided(look), participant, leaseId, ttlMs, expiresAt: instant(expiresAt) };
}
