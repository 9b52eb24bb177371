/** `/v1/double-barriers`: the requests about double barriers, in the words of the contract. */
import { InvalidError } from '../../errors.js';
import type { Coordination } from '../../recipes/coordination.js';
import type { RoundObservers, RoundState } from '../../recipes/double-barrier/observer.js';
import {
  describeDoubleBarrierStale,
  listDoubleBarriers,
  listEntrants,
  type DoubleBarrierView,
  type EntrantView,
} from '../../recipes/double-barrier/view.js';
import type { DoubleBarriers } from '../../recipes/double-barrier/double-barrier.js';
import type { FirstPassage, Passage, Passed } from '../../recipes/double-barrier/passage.js';
import { etagOfRound, READY, type Round } from '../../recipes/double-barrier/round.js';
import { instant } from '../../time.js';
import type { components } from '../contract/contract.js';
import type { Answer, Exchange, Routes } from '../frame/exchange.js';
import { checkCredential } from './shared/long-poll.js';
import { newLeaseOf } from './shared/one-call.js';
import type { Building } from './shared/serving.js';
import { named, StateRoutes, type Named } from './shared/state-routes.js';
import { leaseOf, namespaceOf, pageOf, pageOfAllowed, pageTokenOf, requestIdOf } from './shared/subject.js';

type Schemas = components['schemas'];

export function doubleBarrierRoutes({ watchables, context, recipes: { doubleBarrier } }: Building): Routes {
  const routes = new DoubleBarrierRoutes(context, doubleBarrier.barriers, doubleBarrier.observers);
  watchables.set('double-barrier', routes.state);
  return {
    enterDoubleBarrier: (exchange) => routes.enter(exchange),
    leaveDoubleBarrier: (exchange) => routes.leave(exchange),
    showDoubleBarrier: (exchange) => routes.state.show(exchange),
    watchDoubleBarrier: (exchange) => routes.state.watch(exchange),
    listEntrants: (exchange) => routes.listEntrants(exchange),
    listDoubleBarriers: (exchange) => routes.list(exchange),
  };
}

class DoubleBarrierRoutes {
  readonly state: StateRoutes<Named, RoundState, DoubleBarrierView>;
  readonly #context: Coordination;
  readonly #doubleBarriers: DoubleBarriers;

  constructor(context: Coordination, doubleBarriers: DoubleBarriers, observers: RoundObservers) {
    this.#context = context;
    this.#doubleBarriers = doubleBarriers;
    this.state = new StateRoutes(context, {
      what: 'the double barrier',
      observers,
      subject: named((namespace, name) => context.layout.doubleBarrier(namespace, name)),
      read: ({ path }, zk) => describeDoubleBarrierStale(zk, path),
      etagOf: ({ round }) => etagOfRound(round),
      show: (view, { name }) => ({ body: describe(name, view) }),
      event: ({ round }, { name }) => describeRound(name, round),
      inUse: ({ round }) => round !== undefined,
    });
  }

  async enter(exchange: Exchange): Promise<Answer> {
    const { size, lease: asked } = exchange.body as Schemas['EnterRequest'];
    if (asked === undefined) {
      const passage = await this.#passageOf(exchange);
      return answerEnter(exchange, passage, await this.#doubleBarriers.enter(passage, size));
    }
    const first = firstPassageOf(exchange);
    const newLease = newLeaseOf(exchange, exchange.body as Schemas['EnterRequest'], asked);
    const made = await this.#doubleBarriers.enterWithLease(newLease, first, size);
    return answerEnter(exchange, { ...first, ...made }, made.result);
  }

  async leave(exchange: Exchange): Promise<Answer> {
    const passage = await this.#passageOf(exchange);
    const passed = await this.#doubleBarriers.leave(passage);
    const gone = passed.memberId === undefined ? { gone: true as const } : {};
    const place = { ...describePlace(passage, passed), ...gone };
    if (!passed.done) {
      checkCredential(exchange, 'unknown'); // the member is gone
      const body: Schemas['Leaving'] = { ...place, left: false, memberCount: passed.memberCount };
      return { status: 202, body };
    }
    const body: Schemas['Left'] = {
      ...place,
      left: true,
      waitedMs: passed.waitedMs,
      expiresAt: instant(passed.expiresAt),
    };
    return { status: 200, body };
  }

  async listEntrants(exchange: Exchange): Promise<Answer> {
    const { path } = await this.state.subjectOf(exchange);
    const zk = this.#context.control.until(exchange.deadline);
    const { items, next } = await listEntrants(zk, path, pageOf(exchange));
    const body: Schemas['EntrantList'] = { items: items.map(describeEntrant), ...pageTokenOf(next) };
    return { status: 200, body };
  }

  async list(exchange: Exchange): Promise<Answer> {
    const namespace = await namespaceOf(exchange, this.#context.leases, 'read');
    const { control, layout } = this.#context;
    const parent = layout.doubleBarriers(namespace);
    const zk = control.until(exchange.deadline);
    const { items, next } = await listDoubleBarriers(zk, parent, pageOfAllowed(exchange, namespace));
    const body: Schemas['DoubleBarrierList'] = {
      items: items.map(({ name, round, size, memberCount }) => ({
        ...describeRound(name, round),
        size: size ?? null,
        memberCount,
      })),
      ...pageTokenOf(next),
    };
    return { status: 200, body };
  }

  async #passageOf(exchange: Exchange): Promise<Passage> {
    const passage = firstPassageOf(exchange);
    return { ...passage, lease: await leaseOf(exchange, this.#context.leases) };
  }
}

/** The passage but for its lease. */
function firstPassageOf(exchange: Exchange): FirstPassage {
  const body = exchange.body as Schemas['LeaveRequest'];
  if (body.member === READY)
    throw new InvalidError('member', body.member, `a name other than "${READY}", which is that of the round itself`);
  return {
    name: nameOf(exchange),
    member: body.member,
    requestId: requestIdOf(exchange, body),
    waitMs: body.waitMs ?? 0,
    receivedAt: exchange.receivedAt,
    deadline: exchange.deadline,
    signal: exchange.signal,
    requester: exchange.requester,
  };
}

/** @param passage with the token of a lease that was made in the same request */
function answerEnter(exchange: Exchange, passage: Passage & { leaseToken?: string }, passed: Passed): Answer {
  const { leaseToken } = passage;
  const place = {
    ...describePlace(passage, passed),
    memberId: passed.memberId ?? '',
    fencingToken: passed.fencingToken ?? 0,
    size: (exchange.body as Schemas['EnterRequest']).size,
    ...(leaseToken !== undefined && { leaseToken }),
  };
  if (!passed.done) {
    checkCredential(exchange, 'unknown'); // the member stands
    const body: Schemas['Entering'] = { ...place, entered: false, memberCount: passed.memberCount };
    return { status: 202, body };
  }
  const body: Schemas['Entered'] = {
    ...place,
    entered: true,
    waitedMs: passed.waitedMs,
    expiresAt: instant(passed.expiresAt),
  };
  return { status: 200, body };
}

function nameOf({ params }: Exchange): string {
  return params['name'] as string;
}

function describePlace({ name, lease, requestId }: Passage, { member }: Passed) {
  return { name, member, requestId, leaseId: lease.leaseId, ttlMs: lease.ttlMs };
}

function describe(name: string, { round, size, members, memberCount }: DoubleBarrierView): Schemas['DoubleBarrier'] {
  return { ...describeRound(name, round), size: size ?? null, members: members.map(describeEntrant), memberCount };
}

function describeRound(name: string, round: Round | undefined): Schemas['RoundState'] {
  return { name, entered: round !== undefined, since: round === undefined ? null : instant(round.since) };
}

function describeEntrant(view: EntrantView): Schemas['Entrant'] {
  const { external, member, memberId, leaseId, principal, label, size, fencingToken, since, entered } = view;
  const who = external ? { leaseId: null, principal: null, label: null } : { leaseId, principal, label };
  return { member, memberId, ...who, size: size ?? null, fencingToken, since: instant(since), entered, external };
}
