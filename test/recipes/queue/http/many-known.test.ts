/** Pushes of many messages that are known by something cost a handful of requests, however many they are (C26). */
import { expect, test } from 'vitest';
import { startPair, type Replica } from '../../../support/start-gateway.js';
import { configure, push, queueOf, type PushedItem } from '../client.js';
import { eventually } from '../../../support/eventually.js';

const MANY = 1_000;

/** Requests to ZooKeeper that write, of one replica so far. */
async function writes(replica: Replica): Promise<number> {
  const metric = await replica.gateway.metrics.registry
    .getSingleMetric('postern_zookeeper_request_duration_seconds')
    ?.get();
  return (metric?.values ?? [])
    .filter(
      ({ labels, ...value }) =>
        'metricName' in value &&
        String(value.metricName).endsWith('_count') &&
        /^(multi|create)$/.test(String(labels['op'])),
    )
    .reduce((sum, { value }) => sum + value, 0);
}

function named(count: number, prefix: string): { body: number; messageId: string }[] {
  return Array.from({ length: count }, (_, i) => ({ body: i, messageId: `${prefix}-${i}` }));
}

async function pushed(
  replica: Replica,
  messages: object[],
  options = {},
): Promise<{ items: PushedItem[]; cost: number }> {
  const before = await writes(replica);
  const reply = await push(replica, 'work', messages as never, options);
  expect(reply.status).toBe(201);
  return { items: (reply.body as unknown as { items: PushedItem[] }).items, cost: (await writes(replica)) - before };
}

function statuses(items: readonly PushedItem[]): Set<number> {
  return new Set(items.map(({ status }) => status));
}

/** What it takes to make a queue, what a replica's clock and its own upkeep write meanwhile, and the push. */
const FEW = 30;

test('the first one into a queue makes what it needs at once', async () => {
  await using pair = await startPair();
  const { items, cost } = await pushed(pair.a, named(MANY, 'm'));
  expect(statuses(items)).toEqual(new Set([201]));
  expect(cost).toBeLessThan(FEW);
  expect((await queueOf(pair.b, 'work')).depth).toBe(MANY);
});

test.each([
  ['by their messageIds', named(MANY, 'm'), {}],
  [
    'by their Idempotency-Key',
    Array.from({ length: MANY }, (_, i) => ({ body: i })),
    { headers: { 'idempotency-key': 'request-1' } },
  ],
])('a repetition finds all of them at once, %s', async (_, messages, options) => {
  await using pair = await startPair();
  const { items } = await pushed(pair.a, messages, options);
  const again = await pushed(pair.b, messages, options);
  expect(again.items).toEqual(items.map(({ id }) => ({ id, status: 200 })));
  expect(again.cost).toBeLessThan(FEW);
  expect((await queueOf(pair.b, 'work')).depth).toBe(MANY);
});

test('one of which half is known pushes the others, in their order', async () => {
  await using pair = await startPair();
  const messages = named(200, 'm');
  const known = await pushed(
    pair.a,
    messages.filter((_, i) => i % 2 === 0),
  );
  const { items, cost } = await pushed(pair.b, messages);
  for (const [i, { id, status }] of items.entries()) {
    expect(status).toBe(i % 2 === 0 ? 200 : 201);
    if (i % 2 === 0) expect(id).toBe(known.items[i / 2]?.id);
  }
  expect(cost).toBeLessThan(FEW);
  expect((await queueOf(pair.a, 'work')).depth).toBe(200);
});

test('what has run out is replaced at once', async () => {
  await using pair = await startPair();
  await configure(pair.a, 'work', { dedupWindowMs: 300 });
  const messages = named(200, 'm');
  const first = await pushed(pair.a, messages);
  const second = await eventually('the window is over', async () => {
    const again = await pushed(pair.b, messages);
    expect(again.cost).toBeLessThan(FEW);
    return [...statuses(again.items)].includes(201) && again;
  });
  expect(new Set([...first.items, ...second.items].map(({ id }) => id)).size).toBeGreaterThan(200);
});

test('many pushes of the same messages at once, into a queue that nobody has pushed to, are one', async () => {
  await using pair = await startPair();
  const messages = named(200, 'm');
  const replies = await Promise.all(
    Array.from({ length: 6 }, (_, i) => push(i % 2 ? pair.a : pair.b, 'work', messages)),
  );
  expect(replies.map(({ status }) => status)).toEqual(Array(6).fill(201));
  const items = replies.map(({ body }) => (body as unknown as { items: PushedItem[] }).items);
  expect(items.flat().filter(({ status }) => status === 201)).toHaveLength(200);
  expect(new Set(items.map((all) => all.map(({ id }) => id).join())).size).toBe(1);
  expect((await queueOf(pair.a, 'work')).depth).toBe(200);
});
