/** `/v1/barriers`: the requests about barriers, in the words of the contract. */
import { countWait, untilLifted, type BarrierObservers, type BarrierState } from '../../recipes/barrier/observer.js';
import {
  liftBarrier,
  liftedAt,
  listBarriers,
  raiseBarrier,
  readBarrierStale,
  type BarrierView,
} from '../../recipes/barrier/barrier.js';
import type { Coordination } from '../../recipes/coordination.js';
import { instant } from '../../time.js';
import type { components } from '../contract/contract.js';
import type { Answer, EventStream, Exchange, Routes } from '../frame/exchange.js';
import { checkEnded, longPollOf } from './shared/long-poll.js';
import type { Building } from './shared/serving.js';
import { named, StateRoutes, type Named } from './shared/state-routes.js';
import { namespaceOf, pageOfAllowed, pageTokenOf } from './shared/subject.js';

type Schemas = components['schemas'];

export function barrierRoutes({ watchables, context, recipes: { barrier } }: Building): Routes {
  const routes = new BarrierRoutes(context, barrier.observers);
  watchables.set('barrier', routes.state);
  return {
    raiseBarrier: (exchange) => routes.raise(exchange),
    liftBarrier: (exchange) => routes.lift(exchange),
    showBarrier: (exchange) => routes.show(exchange),
    watchBarrier: (exchange) => routes.state.watch(exchange),
    listBarriers: (exchange) => routes.list(exchange),
  };
}

class BarrierRoutes {
  readonly state: StateRoutes<Named, BarrierState, BarrierView>;
  readonly #context: Coordination;
  readonly #observers: BarrierObservers;

  constructor(context: Coordination, observers: BarrierObservers) {
    this.#context = context;
    this.#observers = observers;
    this.state = new StateRoutes(context, {
      what: 'the barrier',
      observers,
      subject: named((namespace, name) => context.layout.barrier(namespace, name)),
      read: ({ path }, zk) => readBarrierStale(zk, path),
      etagOf: ({ etag }) => etag,
      show: (barrier, { name }) => ({ body: describe(name, barrier) }),
      event: (barrier, { name }) => describe(name, barrier),
      inUse: ({ raised }) => raised,
    });
  }

  async raise(exchange: Exchange): Promise<Answer> {
    const name = nameOf(exchange);
    const ref = { namespace: await namespaceOf(exchange, this.#context.leases, 'use'), name };
    const { created, barrier } = await raiseBarrier(this.#context, ref, exchange.principal.id, exchange);
    const showsWhole = created || exchange.allows('read', ref.namespace, { name });
    const body: Schemas['Barrier'] = showsWhole ? describe(name, barrier) : { name, raised: barrier.raised };
    return { status: created ? 201 : 200, body, headers: { ETag: barrier.etag } };
  }

  async lift(exchange: Exchange): Promise<Answer> {
    const ref = { namespace: await namespaceOf(exchange, this.#context.leases, 'use'), name: nameOf(exchange) };
    await liftBarrier(this.#context, ref, exchange);
    return { status: 204 };
  }

  async show(exchange: Exchange): Promise<Answer | EventStream> {
    const { waitMs, waits } = longPollOf(exchange);
    if (waitMs > 0 && !waits && !exchange.wantsEvents) return this.#wait(exchange, waitMs);
    return this.state.show(exchange);
  }

  async list(exchange: Exchange): Promise<Answer> {
    const { control, layout } = this.#context;
    const namespace = await namespaceOf(exchange, this.#context.leases, 'read');
    const parent = layout.barriers(namespace);
    const { items, next } = await listBarriers(
      control.until(exchange.deadline),
      parent,
      pageOfAllowed(exchange, namespace),
    );
    const body: Schemas['BarrierList'] = {
      items: items.map(({ name, ...barrier }) => describe(name, barrier)),
      ...pageTokenOf(next),
    };
    return { status: 200, body };
  }

  /** Waits until the barrier is lifted. */
  async #wait(exchange: Exchange, waitMs: number): Promise<Answer> {
    const { receivedAt, signal } = exchange;
    const barrier = await this.state.subjectOf(exchange);
    const seen = await this.state.readLatest(barrier, receivedAt, exchange.deadline);
    if (!seen.raised) {
      countWait(this.#context.metrics, 'immediate', receivedAt);
      return this.state.answer(seen, barrier);
    }
    const wait = { path: barrier.path, seen, receivedAt, deadline: receivedAt + waitMs, signal };
    if (await untilLifted(this.#context, this.#observers, wait)) return this.state.answer(liftedAt(seen.zxid), barrier);
    checkEnded(exchange);
    return this.state.answer(seen, barrier);
  }
}

function nameOf({ params }: Exchange): string {
  return params['name'] as string;
}

function describe(name: string, { raised, since, principal, external }: BarrierView): Schemas['Barrier'] {
  return {
    name,
    raised,
    ...(since === undefined ? {} : { since: instant(since), principal: principal ?? null, external }),
  };
}
