/** `/v1/counters`: the requests about counters, in the words of the contract. */
import type { Coordination } from '../../recipes/coordination.js';
import type { CounterOperation } from '../../recipes/counter/counter.js';
import type { CounterObservers, CounterState } from '../../recipes/counter/observers.js';
import { listCounters, readCounter } from '../../recipes/counter/view.js';
import type { CounterWriter } from '../../recipes/counter/writer.js';
import { attemptOf } from '../../recipes/marks.js';
import type { components } from '../contract.js';
import type { Answer, EventStream, Exchange, Routes } from '../exchange.js';
import { checkDraining, longPollOf, notModified } from './long-poll.js';
import { stateStream } from './state-stream.js';
import { namespaceOfReader, pageOfAllowed, pageTokenOf, requestIdOf } from './subject.js';

type Schemas = components['schemas'];

export function counterRoutes(context: Coordination, writer: CounterWriter, observers: CounterObservers): Routes {
  return {
    addToCounter: (exchange) => {
      const body = exchange.body as Schemas['AddToCounterRequest'];
      return change(context, writer, exchange, body, { type: 'add', by: body.by });
    },
    setCounter: (exchange) => {
      const body = exchange.body as Schemas['SetCounterRequest'];
      return change(context, writer, exchange, body, { type: 'set', value: body.value, expected: body.expected });
    },
    showCounter: (exchange) =>
      exchange.wantsEvents ? watch(context, observers, exchange) : show(context, observers, exchange),
    watchCounter: (exchange) => watch(context, observers, exchange),
    listCounters: (exchange) => list(context, exchange),
  };
}

async function change(
  { leases }: Coordination,
  writer: CounterWriter,
  exchange: Exchange,
  body: { requestId?: string | undefined },
  operation: CounterOperation,
): Promise<Answer> {
  const namespace = await namespaceOfReader(exchange, leases, 'use');
  const name = nameOf(exchange);
  const requestId = requestIdOf(exchange, body);
  const who = ['counter', namespace, name, exchange.principal.id];
  const what = operation.type === 'add' ? ['add', operation.by] : ['set', operation.value, operation.expected ?? null];
  const value = await writer.apply({
    namespace,
    name,
    operation,
    attempt: requestId === '' ? undefined : attemptOf(who, requestId, what),
    deadline: exchange.deadline,
  });
  return answer({ name, value });
}

async function show(context: Coordination, observers: CounterObservers, exchange: Exchange): Promise<Answer> {
  const namespace = await namespaceOfReader(exchange, context.leases);
  const name = nameOf(exchange);
  const { waitMs, waitsForChange, isKnown } = longPollOf(exchange);
  let seen: string | undefined;
  if (waitsForChange) {
    const known = (etag: string): boolean => isKnown((seen = etag));
    const { receivedAt, signal } = exchange;
    const changed = await observers.changed(namespace, name, known, receivedAt + waitMs, signal);
    if (changed === undefined) checkDraining(exchange);
    // Without any state seen it is not known that nothing changed: ZooKeeper is asked once more, and may not answer.
    if (changed === undefined && seen !== undefined) return notModified(seen);
  }
  const { value, etag } = await readCounter(context, namespace, name, exchange.deadline + waitMs, isStale(exchange));
  if (isKnown(etag)) return notModified(etag);
  return { ...answer({ name, value }), headers: { ETag: etag } };
}

async function watch(context: Coordination, observers: CounterObservers, exchange: Exchange): Promise<EventStream> {
  const namespace = await namespaceOfReader(exchange, context.leases);
  const name = nameOf(exchange);
  return stateStream<CounterState>(
    exchange,
    (subscriber) => observers.subscribe(namespace, name, subscriber),
    ({ value }): Schemas['Counter'] => ({ name, value }),
  );
}

async function list(context: Coordination, exchange: Exchange): Promise<Answer> {
  const namespace = await namespaceOfReader(exchange, context.leases);
  const page = pageOfAllowed(exchange, namespace);
  const { items, next } = await listCounters(context, namespace, page, exchange.deadline, isStale(exchange));
  const body: Schemas['CounterList'] = { items, ...pageTokenOf(next) };
  return { status: 200, body };
}

function answer(body: Schemas['Counter']): Answer {
  return { status: 200, body };
}

function isStale({ query }: Exchange): boolean {
  return query['consistency'] === 'stale';
}

function nameOf(exchange: Exchange): string {
  return exchange.params['name'] as string;
}
