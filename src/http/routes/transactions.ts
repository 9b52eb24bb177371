/** `/v1/transactions`: two-phase commit, in the words of the contract. */
import { isPosternError, type Outcome } from '../../errors.js';
import type { Lease } from '../../leases/lease.js';
import type { Leases } from '../../leases/leases.js';
import { orUnknown } from '../../recipes/behind-write.js';
import type { Coordination } from '../../recipes/coordination.js';
import { notFound, type ParticipantRequest, type Participation } from '../../recipes/transaction/participation.js';
import type { FullLook } from '../../recipes/transaction/decisions.js';
import { listTransactions } from '../../recipes/transaction/list.js';
import {
  deadlineOf,
  decidedVote,
  stateOf,
  type TransactionLook,
  type TransactionRef,
} from '../../recipes/transaction/record.js';
import type { Transactions } from '../../recipes/transaction/transaction.js';
import { instant } from '../../time.js';

import type { components } from '../contract/contract.js';
import type { Answer, EventStream, Exchange, Routes } from '../frame/exchange.js';
import { checkEnded, longPollOf, notModified } from './shared/long-poll.js';
import { stateStream } from './shared/state-stream.js';
import { sealedPageOf, sealedTokenOf } from './shared/sealed-pages.js';
import type { Serving } from './shared/serving.js';
import { leaseOf, namespaceOf, requestIdOf } from './shared/subject.js';

type Schemas = components['schemas'];

interface Wait {
  waitMs: number;
  /** Whether the client already has the state of this ETag. */
  isKnown: (etag: string) => boolean;
  /** Kept alive during the wait. */
  lease: Lease | undefined;
  /** The outcome of what the request did before it waited. */
  outcome: Outcome;
}

export function transactionRoutes({ context, recipes }: Serving): Routes {
  const routes = new TransactionRoutes(context, recipes.transaction.transactions);
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
    const namespace = await namespaceOf(exchange, this.#context.leases, 'use');
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
      exchange,
    );
    return { status: 201, body: summarize(look) };
  }

  async list(exchange: Exchange): Promise<Answer> {
    const namespace = await namespaceOf(exchange, this.#context.leases);
    const { pageTokens } = this.#context;
    const list = `transactions ${namespace}`;
    const { items, next } = await listTransactions(
      this.#context,
      this.#transactions.decisions,
      {
        namespace,
        ...(await sealedPageOf(exchange, pageTokens, list)),
        shows: (participants) => participants.some((name) => exchange.allows('read', namespace, { name })),
      },
      summarize,
      exchange.deadline,
    );
    const body: Schemas['TransactionList'] = {
      items,
      ...(await sealedTokenOf(exchange, pageTokens, list, next)),
    };
    return { status: 200, body };
  }

  async show(exchange: Exchange): Promise<Answer | EventStream> {
    if (exchange.wantsEvents) return this.watch(exchange);
    const namespace = await namespaceOf(exchange, this.#context.leases);
    const ref = this.#refOf(exchange, namespace);
    const { waitMs, waits, isKnown } = longPollOf(exchange);
    let look =
      exchange.query['consistency'] === 'stale'
        ? await this.#transactions.showStale(ref, exchange.deadline)
        : await this.#transactions.show(ref, exchange.deadline, waitMs > 0);
    checkReader(exchange, look);
    if (waitMs > 0) {
      const lease = await this.#touched(exchange);
      const isOpen = stateOf(look) === 'open';
      if (waits ? isKnown(look.etag) : isOpen)
        look = await this.#wait(exchange, look, { waitMs, isKnown, lease, outcome: 'not-applied' });
      else if (isOpen) look = await this.#transactions.show(ref, exchange.deadline);
    }
    const { etag } = look;
    if (isKnown(etag)) return notModified(etag);
    return { status: 200, body: describe(look), headers: { ETag: etag } };
  }

  async watch(exchange: Exchange): Promise<EventStream> {
    const namespace = await namespaceOf(exchange, this.#context.leases);
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
    const joined = await this.#transactions.participants.join(requestOf(exchange, lease, ref, participant));
    return { status: 200, body: describeParticipation(lease, participant, joined) };
  }

  async vote(exchange: Exchange): Promise<Answer> {
    const { participant, vote, waitMs = 0 } = exchange.body as Schemas['VoteRequest'];
    const lease = await leaseOf(exchange, this.#context.leases);
    exchange.authorize('use', lease.namespace, { name: participant });
    const ref = this.#refOf(exchange, lease.namespace);
    const voted = await this.#transactions.participants.vote(requestOf(exchange, lease, ref, participant), vote);
    if (waitMs === 0 || stateOf(voted.look) !== 'open')
      return { status: 200, body: describeParticipation(lease, participant, voted) };
    // The vote is cast, whatever becomes of the wait.
    const look = await orUnknown(
      this.#wait(exchange, voted.look, { waitMs, isKnown: () => false, lease, outcome: 'unknown' }),
    );
    const expiresAt = await orUnknown(this.#context.leases.touch(lease, exchange.deadline + waitMs));
    return { status: 200, body: describeParticipation(lease, participant, { look, expiresAt }) };
  }

  async abort(exchange: Exchange): Promise<Answer> {
    const { reason } = exchange.body as Schemas['AbortTransactionRequest'];
    const namespace = await namespaceOfEither(exchange, this.#context.leases);
    const ref = this.#refOf(exchange, namespace);
    const look = await this.#transactions.show(ref, exchange.deadline, true);
    if (look.record.principal !== exchange.principal.id) checkAdmin(exchange, look);
    const aborted = await this.#transactions.abort(ref, reason, exchange);
    const mayRead = aborted.record.participants.some((name) => exchange.allows('read', namespace, { name }));
    const body: Schemas['AbortedTransaction'] = mayRead ? describe(aborted) : summarize(aborted);
    return { status: 200, body };
  }

  /** Waits for the decision, or for another state than the known one; then shows the current state. */
  async #wait(exchange: Exchange, look: TransactionLook, { waitMs, isKnown, lease, outcome }: Wait): Promise<FullLook> {
    const changed = await this.#transactions.until(
      look,
      (state) => state.look === undefined || (stateOf(state.look) !== 'open' && !isKnown(state.etag)),
      { deadline: exchange.receivedAt + waitMs, signal: exchange.signal, lease },
    );
    if (changed?.look !== undefined) return { ...changed.look, roll: { joined: new Set(), commits: new Set() } };
    if (changed === undefined) checkEnded(exchange, outcome);
    return this.#transactions.show(look.ref, exchange.deadline + waitMs);
  }

  /**
   * The request's lease, which is optional; an ended one is reported at once, not at its first touch during the wait.
   */
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

function requestOf(exchange: Exchange, lease: Lease, ref: TransactionRef, participant: string): ParticipantRequest {
  const { deadline, requester } = exchange;
  const knows = (participants: readonly string[]): boolean => participants.some((one) => isKnown(exchange, ref, one));
  return { lease, ref, participant, knows, deadline, requester };
}

/**
 * A transaction belongs to its participants: a caller that may read one of them sees its outcome. For a caller with no
 * right to any of them it does not exist, and no refusal names a participant that its reader may not know.
 */
function checkReader(exchange: Exchange, look: TransactionLook): void {
  const { participants, principal } = look.record;
  const readable = participants.find((one) => exchange.allows('read', look.ref.namespace, { name: one }));
  // Requested, so that it is checked again while the reader waits.
  if (readable !== undefined) return exchange.authorize('read', look.ref.namespace, { name: readable });
  const own = principal === exchange.principal.id ? participants[0] : undefined;
  const name = own ?? participants.find((one) => isKnown(exchange, look.ref, one));
  if (name === undefined) throw notFound(look.ref);
  exchange.authorize('read', look.ref.namespace, { name });
}

function checkAdmin(exchange: Exchange, look: TransactionLook): void {
  const { participants } = look.record;
  const { namespace } = look.ref;
  const lacking = participants.filter((name) => !exchange.allows('admin', namespace, { name }));
  // Authorized also where nothing is lacking: that is what an administrative act is known by.
  if (lacking.length === 0) return exchange.authorize('admin', namespace, { name: participants[0] });
  const seesAll = participants.some((name) => exchange.allows('read', namespace, { name }));
  const name = lacking.find((one) => seesAll || isKnown(exchange, look.ref, one));
  if (name === undefined) throw notFound(look.ref);
  exchange.authorize('admin', namespace, { name });
}

function isKnown(exchange: Exchange, { namespace }: TransactionRef, name: string): boolean {
  return (['read', 'use', 'admin'] as const).some((scope) => exchange.allows(scope, namespace, { name }));
}

/** Only the transaction tells whether `admin` is needed; a caller with neither scope is told nothing of it. */
async function namespaceOfEither(exchange: Exchange, leases: Leases): Promise<string> {
  try {
    return await namespaceOf(exchange, leases, 'use');
  } catch (error) {
    if (!isPosternError(error, 'forbidden')) throw error;
    return await namespaceOf(exchange, leases, 'admin');
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
