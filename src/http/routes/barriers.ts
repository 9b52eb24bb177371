/** `/v1/barriers`: the requests about barriers, in the words of the contract. */
import type { BarrierObservers } from '../../recipes/barrier-observer.js';
import {
  liftBarrier,
  liftedAt,
  listBarriers,
  raiseBarrier,
  readBarrier,
  type BarrierView,
} from '../../recipes/barrier.js';
import type { Coordination } from '../../recipes/coordination.js';
import { SharedReadings } from '../../recipes/shared-readings.js';
import { instant } from '../../time.js';
import type { components } from '../contract.js';
import type { Answer, EventStream, Exchange, Routes } from '../exchange.js';
import { checkDraining, longPollOf, notModified } from './long-poll.js';
import { stateStream } from './state-stream.js';
import { namespaceOf, namespaceOfReader, pageOfAllowed, pageTokenOf } from './subject.js';

type Schemas = components['schemas'];

export function barrierRoutes(context: Coordination, observers: BarrierObservers): Routes {
  const routes = new BarrierRoutes(context, observers);
  return {
    raiseBarrier: (exchange) => routes.raise(exchange),
    liftBarrier: (exchange) => routes.lift(exchange),
    showBarrier: (exchange) => routes.show(exchange),
    watchBarrier: (exchange) => routes.watch(exchange),
    listBarriers: (exchange) => routes.list(exchange),
  };
}

class BarrierRoutes {
  readonly #context: Coordination;
  readonly #observers: BarrierObservers;
  readonly #readings = new SharedReadings<BarrierView>('the reading of the barrier');

  constructor(context: Coordination, observers: BarrierObservers) {
    this.#context = context;
    this.#observers = observers;
  }

  async raise(exchange: Exchange): Promise<Answer> {
    const { control, layout } = this.#context;
    const name = nameOf(exchange);
    const path = layout.barrier(namespaceOf(exchange, 'use'), name);
    const { created, barrier } = await raiseBarrier(control, path, exchange.principal.id, exchange.deadline);
    return { status: created ? 201 : 200, body: describe(name, barrier), headers: { ETag: barrier.etag } };
  }

  async lift(exchange: Exchange): Promise<Answer> {
    const { control, layout } = this.#context;
    const path = layout.barrier(namespaceOf(exchange, 'use'), nameOf(exchange));
    await liftBarrier(control, path, exchange.deadline);
    return { status: 204 };
  }

  async show(exchange: Exchange): Promise<Answer | EventStream> {
    if (exchange.wantsEvents) return this.watch(exchange);
    const namespace = await namespaceOfReader(exchange, this.#context.leases);
    const name = nameOf(exchange);
    const path = this.#context.layout.barrier(namespace, name);
    const { waitMs, waitsForChange, isKnown } = longPollOf(exchange);
    if (waitMs > 0 && !waitsForChange) return this.#wait(exchange, name, path, waitMs);
    const deadline = exchange.deadline + waitMs;
    if (waitsForChange) {
      let last: string | undefined;
      const known = (etag: string): boolean => isKnown((last = etag));
      const changed = await this.#observers.changed(path, known, exchange.receivedAt + waitMs, exchange.signal);
      if (changed === undefined) checkDraining(exchange);
      // Without any state seen it is not known that nothing changed: ZooKeeper is asked once more, and may not answer.
      if (changed === undefined && last !== undefined) return notModified(last);
    }
    const isStale = (exchange.query as { consistency?: string }).consistency === 'stale';
    let barrier = isStale
      ? await readBarrier(this.#context.control, path, deadline, true)
      : await this.#read(path, exchange.receivedAt, deadline);
    // The shared reading may have been begun before the change that this poll was woken by.
    if (waitsForChange && isKnown(barrier.etag)) barrier = await this.#read(path, performance.now(), deadline);
    return isKnown(barrier.etag) ? notModified(barrier.etag) : shown(name, barrier);
  }

  async watch(exchange: Exchange): Promise<EventStream> {
    const namespace = await namespaceOfReader(exchange, this.#context.leases);
    const name = nameOf(exchange);
    const path = this.#context.layout.barrier(namespace, name);
    return stateStream<BarrierView>(
      exchange,
      (subscriber) => this.#observers.subscribe(path, subscriber),
      (barrier) => describe(name, barrier),
    );
  }

  async list(exchange: Exchange): Promise<Answer> {
    const { control, layout } = this.#context;
    const namespace = namespaceOf(exchange, 'read');
    const parent = layout.barriers(namespace);
    const { items, next } = await listBarriers(control, parent, pageOfAllowed(exchange, namespace), exchange.deadline);
    const body: Schemas['BarrierList'] = {
      items: items.map(({ name, ...barrier }) => describe(name, barrier)),
      ...pageTokenOf(next),
    };
    return { status: 200, body };
  }

  /** Until it is lifted. */
  async #wait(exchange: Exchange, name: string, path: string, waitMs: number): Promise<Answer> {
    const { receivedAt, signal } = exchange;
    const seen = await this.#read(path, receivedAt, exchange.deadline);
    if (!seen.raised) {
      this.#observers.count('immediate', receivedAt);
      return shown(name, seen);
    }
    const deadline = receivedAt + waitMs;
    if (await this.#observers.untilLifted({ path, seen, receivedAt, deadline, signal }))
      return shown(name, liftedAt(seen.zxid));
    checkDraining(exchange);
    return shown(name, seen);
  }

  /** Up to date. */
  #read(path: string, since: number, deadline: number): Promise<BarrierView> {
    const { control } = this.#context;
    return this.#readings.read(path, since, deadline, (until) => readBarrier(control, path, until));
  }
}

function nameOf({ params }: Exchange): string {
  return params['name'] as string;
}

function shown(name: string, barrier: BarrierView): Answer {
  return { status: 200, body: describe(name, barrier), headers: { ETag: barrier.etag } };
}

function describe(name: string, { raised, since, principal, external }: BarrierView): Schemas['Barrier'] {
  return {
    name,
    raised,
    ...(since === undefined ? {} : { since: instant(since), principal: principal ?? null, external }),
  };
}
