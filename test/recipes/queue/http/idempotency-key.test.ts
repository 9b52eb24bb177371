/** The Idempotency-Key of a push is its principal's own, and stands for one request. */
import { expect, test } from 'vitest';
import { makeApiKeys } from '../../../support/http/api-keys.js';
import { eventually } from '../../../support/eventually.js';
import { startPair } from '../../../support/start-gateway.js';
import { bodiesOf, configure, pop, push, pushRaw, queueOf, type PushedItem } from '../client.js';

const headers = { 'idempotency-key': 'nightly' };

function itemsOf(reply: { body: unknown }): PushedItem[] {
  return (reply.body as { items: PushedItem[] }).items;
}

test('two principals that choose the same key push two messages, and each can repeat its own', async () => {
  await using keys = await makeApiKeys({ ada: '*', bob: '*' });
  await using pair = await startPair({ settings: { POSTERN_AUTH_FILE: keys.file } });
  await using ada = keys.as('ada', pair.a.url);
  await using bob = keys.as('bob', pair.b.url);
  const first = itemsOf(await push(ada, 'work', [{ body: 'ada' }], { headers }));
  const second = itemsOf(await push(bob, 'work', [{ body: 'bob' }], { headers }));
  expect([...first, ...second].map(({ status }) => status)).toEqual([201, 201]);
  expect(itemsOf(await push(ada, 'work', [{ body: 'ada' }], { headers }))).toEqual([{ id: first[0]?.id, status: 200 }]);
  // Nor can a messageId of another one stand for a request.
  const named = await push(bob, 'work', [{ body: 'named', messageId: 'nightly' }]);
  expect(itemsOf(named)).toMatchObject([{ status: 201 }]);
  expect(bodiesOf(await pop(ada, 'work', { max: 10 }))).toEqual(['ada', 'bob', 'named']);
});

test('another request with the same key is refused, and nothing of it is in the queue', async () => {
  await using pair = await startPair();
  const messages = [{ body: 1 }, { body: 2, messageId: 'own' }, { body: 3 }];
  const first = itemsOf(await push(pair.a, 'work', messages, { headers }));
  const others = [
    [{ body: 1 }, { body: 2, messageId: 'own' }, { body: 4 }],
    [{ body: 1 }],
    [...messages, { body: 5 }],
    [{ body: 2, messageId: 'first' }, { body: 1 }],
    [{ body: 1, delayMs: 1 }, ...messages.slice(1)],
    [{ body: 1, attributes: { a: '' } }, ...messages.slice(1)],
  ];
  for (const other of others) {
    const refused = await push(pair.b, 'work', other, { headers });
    expect(refused.status).toBe(422);
    expect(refused.body).toMatchObject({ code: 'invalid', field: 'Idempotency-Key', outcome: 'not-applied' });
  }
  // The very same request is the first one.
  expect(itemsOf(await push(pair.b, 'work', messages, { headers }))).toEqual(
    first.map(({ id }) => ({ id, status: 200 })),
  );
  expect(bodiesOf(await pop(pair.a, 'work', { max: 10 }))).toEqual([1, 2, 3]);
});

test('another raw body, type, priority or delay with the same key is refused as well', async () => {
  await using pair = await startPair();
  await configure(pair.a, 'raw', { order: 'priority' });
  const first = await pushRaw(pair.a, 'raw', 'x', 'text/plain', { headers });
  expect(first.status).toBe(201);
  for (const [bytes, type, query] of [
    ['y', 'text/plain', ''],
    ['x', 'text/html', ''],
    ['x', 'text/plain', '?priority=1'],
    ['x', 'text/plain', '?delayMs=1'],
  ] as const) {
    const refused = await pushRaw(pair.b, 'raw', bytes, type, { query, headers });
    expect(refused.status).toBe(422);
    expect(refused.body).toMatchObject({ code: 'invalid', field: 'Idempotency-Key' });
  }
  expect((await pushRaw(pair.b, 'raw', 'x', 'text/plain', { headers })).body).toMatchObject({ status: 200 });
  expect(await pop(pair.a, 'raw', { max: 10 })).toHaveLength(1);
});

test('a full queue refuses another request for its key, and lets the same one through', async () => {
  await using pair = await startPair();
  await configure(pair.a, 'full', { maxDepth: 1 });
  const [first] = itemsOf(await push(pair.a, 'full', [{ body: 1 }], { headers }));
  await eventually(
    'the queue is known to be full',
    async () => (await push(pair.a, 'full', [{ body: 0 }])).status === 429,
  );
  expect((await push(pair.a, 'full', [{ body: 2 }], { headers })).body).toMatchObject({ field: 'Idempotency-Key' });
  expect(itemsOf(await push(pair.a, 'full', [{ body: 1 }], { headers }))).toEqual([{ id: first?.id, status: 200 }]);
  expect((await queueOf(pair.a, 'full')).depth).toBe(1);
});
