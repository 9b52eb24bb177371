/** `/v1/counters`: the requests about counters, in the words of the contract. */
import type { Coordination } from '../../recipes/coordination.js';
import type { CounterOperation } from '../../recipes/counter/counter.js';
import { listCounters, readCounter } from '../../recipes/counter/view.js';
import type { CounterWriter } from '../../recipes/counter/writer.js';
import { attemptOf } from '../../recipes/marks.js';
import type { components } from '../contract.js';
import type { Answer, Exchange, Routes } from '../exchange.js';
import { namespaceOfReader, pageOf, pageTokenOf, requestIdOf } from './subject.js';

type Schemas = components['schemas'];

export function counterRoutes(context: Coordination, writer: CounterWriter): Routes {
  return {
    addToCounter: (exchange) => {
      const body = exchange.body as Schemas['AddToCounterRequest'];
      return change(context, writer, exchange, body, { type: 'add', by: body.by });
    },
    setCounter: (exchange) => {
      const body = exchange.body as Schemas['SetCounterRequest'];
      return change(context, writer, exchange, body, { type: 'set', value: body.value, expected: body.expected });
    },
    showCounter: (exchange) => show(context, exchange),
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

async function show(context: Coordination, exchange: Exchange): Promise<Answer> {
  const namespace = await namespaceOfReader(exchange, context.leases);
  const name = nameOf(exchange);
  return answer({ name, value: await readCounter(context, namespace, name, exchange.deadline, isStale(exchange)) });
}

async function list(context: Coordination, exchange: Exchange): Promise<Answer> {
  const namespace = await namespaceOfReader(exchange, context.leases);
  const page = pageOf(exchange);
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
