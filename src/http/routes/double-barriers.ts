/** `/v1/double-barriers`: the requests about double barriers, in the words of the contract. */
import { InvalidError } from '../../errors.js';
import type { Coordination } from '../../recipes/coordination.js';
import type { RoundObservers, RoundState } from '../../recipes/double-barrier-observer.js';
import {
  describeDoubleBarrier,
  etagOfRound,
  listDoubleBarriers,
  listEntrants,
  type EntrantView,
} from '../../recipes/double-barrier-view.js';
import type { DoubleBarriers, Passage, Passed } from '../../recipes/double-barrier.js';
import { READY, type Round } from '../../recipes/round.js';
import { instant } from '../../time.js';
import type { components } from '../contract.js';
import type { Answer, EventStream, Exchange, Routes } from '../exchange.js';
import { checkDraining, longPollOf, notModified } from './long-poll.js';
import { stateStream } from './state-stream.js';
import { leaseOf, namespaceOf, namespaceOfReader, pageOf, pageOfAllowed, pageTokenOf, requestIdOf } from './subject.js';

type Schemas = components['schemas'];

export function doubleBarrierRoutes(
  context: Coordination,
  doubleBarriers: DoubleBarriers,
  observers: RoundObservers,
): Routes {
  const routes = new DoubleBarrierRoutes(context, doubleBarriers, observers);
  return {
    enterDoubleBarrier: (exchange) => routes.enter(exchange),
    leaveDoubleBarrier: (exchange) => routes.leave(exchange),
    showDoubleBarrier: (exchange) => routes.show(exchange),
    watchDoubleBarrier: (exchange) => routes.watch(exchange),
    listEntrants: (exchange) => routes.listEntrants(exchange),
    listDoubleBarriers: (exchange) => routes.list(exchange),
  };
}

class DoubleBarrierRoutes {
  readonly #context: Coordination;
  readonly #doubleBarriers: DoubleBarriers;
  readonly #observers: RoundObservers;

  constructor(context: Coordination, doubleBarriers: DoubleBarriers, observers: RoundObservers) {
    this.#context = context;
    this.#doubleBarriers = doubleBarriers;
    this.#observers = observers;
  }

  async enter(exchange: Exchange): Promise<Answer> {
    const { size } = exchange.body as Schemas['EnterRequest'];
    const passage = await this.#passageOf(exchange);
    const passed = await this.#doubleBarriers.enter(passage, size);
    const place = {
      ...describePlace(passage, passed),
      memberId: passed.memberId ?? '',
      fencingToken: passed.fencingToken ?? 0,
      size,
    };
    if (!passed.done) {
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

  async leave(exchange: Exchange): Promise<Answer> {
    const passage = await this.#passageOf(exchange);
    const passed = await this.#doubleBarriers.leave(passage);
    const place = describePlace(passage, passed);
    if (!passed.done) {
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

  async show(exchange: Exchange): Promise<Answer | EventStream> {
    if (exchange.wantsEvents) return this.watch(exchange);
    const { name, directory } = await this.#readerOf(exchange);
    const { waitMs, waitsForChange, isKnown } = longPollOf(exchange);
    if (waitsForChange) {
      let last: string | undefined;
      const changed = await this.#observers.until(
        directory,
        ({ round }) => !isKnown((last = etagOfRound(round))),
        exchange.receivedAt + waitMs,
        exchange.signal,
      );
      if (changed === undefined) checkDraining(exchange);
      // Without any state seen it is not known that nothing changed: ZooKeeper is asked once more, and may not answer.
      if (changed === undefined && last !== undefined) return notModified(last);
    }
    const isStale = (exchange.query as { consistency?: string }).consistency === 'stale';
    const view = await describeDoubleBarrier(this.#context, directory, exchange.deadline + waitMs, isStale);
    const etag = etagOfRound(view.round);
    if (isKnown(etag)) return notModified(etag);
    const body: Schemas['DoubleBarrier'] = {
      ...describeRound(name, view.round),
      size: view.size ?? null,
      members: view.members.map(describeEntrant),
      memberCount: view.memberCount,
    };
    return { status: 200, body, headers: { ETag: etag } };
  }

  async watch(exchange: Exchange): Promise<EventStream> {
    const { name, directory } = await this.#readerOf(exchange);
    let told: string | undefined;
    const subscribe = (subscriber: (state: RoundState) => void): (() => void) =>
      this.#observers.subscribe(directory, (state) => {
        const etag = etagOfRound(state.round);
        if (etag === told) return;
        told = etag;
        subscriber({ ...state, etag });
      });
    return stateStream(exchange, subscribe, ({ round }) => describeRound(name, round));
  }

  async listEntrants(exchange: Exchange): Promise<Answer> {
    const { directory } = await this.#readerOf(exchange);
    const { items, next } = await listEntrants(this.#context, directory, pageOf(exchange), exchange.deadline);
    const body: Schemas['EntrantList'] = { items: items.map(describeEntrant), ...pageTokenOf(next) };
    return { status: 200, body };
  }

  async list(exchange: Exchange): Promise<Answer> {
    const namespace = namespaceOf(exchange, 'read');
    const { items, next } = await listDoubleBarriers(
      this.#context,
      namespace,
      pageOfAllowed(exchange, namespace),
      exchange.deadline,
    );
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
    const body = exchange.body as Schemas['LeaveRequest'];
    if (body.member === READY)
      throw new InvalidError('member', body.member, `a name other than "${READY}", which is that of the round itself`);
    return {
      lease: await leaseOf(exchange, this.#context.leases),
      name: nameOf(exchange),
      member: body.member,
      requestId: requestIdOf(exchange, body),
      waitMs: body.waitMs ?? 0,
      receivedAt: exchange.receivedAt,
      deadline: exchange.deadline,
      signal: exchange.signal,
    };
  }

  async #readerOf(exchange: Exchange): Promise<{ name: string; directory: string }> {
    const namespace = await namespaceOfReader(exchange, this.#context.leases);
    const name = nameOf(exchange);
    return { name, directory: this.#context.layout.doubleBarrier(namespace, name) };
  }
}

function nameOf({ params }: Exchange): string {
  return params['name'] as string;
}

function describePlace({ name, lease, requestId }: Passage, { member }: Passed) {
  return { name, member, requestId, leaseId: lease.leaseId, ttlMs: lease.ttlMs };
}

function describeRound(name: string, round: Round | undefined): Schemas['RoundState'] {
  return { name, entered: round !== undefined, since: round === undefined ? null : instant(round.since) };
}

function describeEntrant(view: EntrantView): Schemas['Entrant'] {
  const { external, member, memberId, leaseId, principal, label, size, fencingToken, since, entered } = view;
  const who = external ? { leaseId: null, principal: null, label: null } : { leaseId, principal, label };
  return { member, memberId, ...who, size: size ?? null, fencingToken, since: instant(since), entered, external };
}
