/** `/v1/counters`: the requests about counters, in the words of the contract. */
import { InvalidError } from '../../errors.js';
import type { Coordination } from '../../recipes/coordination.js';
import type { CounterOperation, CounterState } from '../../recipes/counter/counter.js';
import { listCounters, readCounterStale } from '../../recipes/counter/view.js';
import type { CounterWriter } from '../../recipes/counter/writer.js';
import { attemptOf } from '../../recipes/marks.js';
import type { components } from '../contract/contract.js';
import type { Answer, Exchange, Routes } from '../frame/exchange.js';
import { conditionOf, etagsOf } from './shared/etag.js';
import { longPollOf, type LongPoll } from './shared/long-poll.js';
import type { Building } from './shared/serving.js';
import { named, StateRoutes } from './shared/state-routes.js';
import { namespaceOf, pageOfAllowed, pageTokenOf, requestIdOf } from './shared/subject.js';

type Schemas = components['schemas'];

export function counterRoutes({ watchables, context, recipes }: Building): Routes {
  const { writer, observers } = recipes.counter;
  const state = new StateRoutes(context, {
    what: 'the counter',
    observers,
    subject: named((namespace, name) => context.layout.counter(namespace, name)),
    read: ({ name, path }, zk) => readCounterStale(zk, name, path),
    etagOf: ({ etag }) => etag,
    show: ({ value }, { name }) => ({ body: { name, value } satisfies Schemas['Counter'] }),
    event: ({ value }, { name }): Schemas['Counter'] => ({ name, value }),
    inUse: ({ exists }) => exists,
    pollOf,
  });
  watchables.set('counter', state);
  return {
    addToCounter: (exchange) => {
      const body = exchange.body as Schemas['AddToCounterRequest'];
      return change(context, writer, exchange, body, { type: 'add', by: body.by });
    },
    setCounter: (exchange) => {
      const body = exchange.body as Schemas['SetCounterRequest'];
      return change(context, writer, exchange, body, { type: 'set', value: body.value, expected: body.expected });
    },
    deleteCounter: async (exchange) => {
      await change(
        context,
        writer,
        exchange,
        {},
        { type: 'delete', ifMatch: etagsOf(conditionOf(exchange, 'If-Match')) },
      );
      return { status: 204 };
    },
    showCounter: (exchange) => state.show(exchange),
    watchCounter: (exchange) => state.watch(exchange),
    listCounters: (exchange) => list(context, exchange),
  };
}

/** With bounds a client waits until the value is within them, and with an ETag until it has another state as well. */
function pollOf(exchange: Exchange): LongPoll<CounterState> {
  const { atLeast, atMost } = exchange.query as { atLeast?: number; atMost?: number };
  const poll = longPollOf(exchange);
  if (atLeast === undefined && atMost === undefined) return poll;
  if (atLeast !== undefined && atMost !== undefined && atLeast > atMost)
    throw new InvalidError('atLeast', atLeast, 'at most atMost, since no value is within both', { in: 'query' });
  const isWithin = (value: number): boolean => value >= (atLeast ?? -Infinity) && value <= (atMost ?? Infinity);
  return {
    ...poll,
    waits: poll.waitMs > 0,
    isWanted: (etag, state) => isWithin(state.value) && poll.isWanted(etag, state),
  };
}

async function change(
  { leases }: Coordination,
  writer: CounterWriter,
  exchange: Exchange,
  body: { requestId?: string | undefined },
  operation: CounterOperation,
): Promise<Answer> {
  const namespace = await namespaceOf(exchange, leases, 'use');
  const name = nameOf(exchange);
  const requestId = requestIdOf(exchange, body);
  const who = ['counter', namespace, name, exchange.principal.id];
  const value = await writer.apply({
    namespace,
    name,
    operation,
    attempt: requestId === '' ? undefined : attemptOf(who, requestId, whatOf(operation)),
    deadline: exchange.deadline,
    requester: exchange.requester,
  });
  return { status: 200, body: { name, value } satisfies Schemas['Counter'] };
}

/** Everything that it does, except the condition of a deletion: a repetition may carry a newer ETag, as for a key. */
function whatOf(operation: CounterOperation): (string | number | null)[] {
  switch (operation.type) {
    case 'add':
      return ['add', operation.by];
    case 'set':
      return ['set', operation.value, operation.expected ?? null];
    case 'delete':
      return ['delete'];
  }
}

async function list(context: Coordination, exchange: Exchange): Promise<Answer> {
  const namespace = await namespaceOf(exchange, context.leases);
  const page = pageOfAllowed(exchange, namespace);
  const isStale = exchange.query['consistency'] === 'stale';
  const zk = context.control.until(exchange.deadline);
  const { items, next } = await listCounters(zk, context.layout.counters(namespace), page, isStale);
  const body: Schemas['CounterList'] = { items, ...pageTokenOf(next) };
  return { status: 200, body };
}

function nameOf(exchange: Exchange): string {
  return exchange.params['name'] as string;
}
