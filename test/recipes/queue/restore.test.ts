/** Messages of a backup that are brought back into a queue (protocol C97). */
import { expect, test } from 'vitest';
import { startPair, type Replica } from '../../support/start-gateway.js';
import { configure, peek, pop, push } from './client.js';

const HOUR_MS = 3_600_000;
const inMs = (ms: number): string => new Date(Date.now() + ms).toISOString();

function restore(replica: Replica, messages: readonly object[], queue = 'work'): ReturnType<Replica['call']> {
  return replica.call('POST', `/v1/queues/${queue}/restore`, { body: { messages } });
}

test('come with all that they had, once, through any replica, whatever the queue remembers and has room for (C97)', async () => {
  await using pair = await startPair();
  await configure(pair.a, 'work', { order: 'priority', dedupWindowMs: 0, maxDepth: 1, messageTtlMs: 1_000 });
  const messages = [
    { id: 'later', body: 1, priority: 7, dueAt: inMs(HOUR_MS), expiresAt: inMs(2 * HOUR_MS), deliveries: 3 },
    {
      id: 'first',
      bodyBase64: '/w==',
      contentType: 'image/x',
      priority: 2,
      attributes: { a: 'b' },
      enqueuedAt: '2020-01-02T03:04:05.678Z',
      deliveries: 4,
      group: 'g',
      deadLetter: { queue: 'other', cause: 'nack', reason: 'r', priority: 1, deliveries: 9 },
    },
    { id: 'overdue', body: 2, priority: 3, dueAt: '2020-01-02T03:04:05.678Z' },
    { id: 'expired', body: 3, priority: 900, expiresAt: '2020-01-02T03:04:05.678Z' },
  ];
  const answers = await Promise.all([pair.a, pair.b].map((replica) => restore(replica, messages)));
  expect(answers.map(({ status }) => status)).toEqual([200, 200]);
  const statuses = answers.map(({ body }) => (body as { items: { status: number }[] }).items[0]?.status);
  expect(statuses.sort()).toEqual([200, 201]);
  const shown = await peek(pair.b, 'work');
  expect(shown.map(({ id, state }) => [id, state])).toEqual([
    ['first', 'available'],
    ['overdue', 'available'],
    ['expired', 'expired'],
    ['later', 'delayed'],
  ]);
  expect(shown[0]).toMatchObject(messages[1] as object);
  expect(shown[3]).toMatchObject(messages[0] as object);
  expect(await pop(pair.a, 'work')).toMatchObject([{ id: 'first' }]);
  const again = await restore(pair.b, messages);
  expect((again.body as { items: { status: number }[] }).items.map(({ status }) => status)).toEqual([
    200, 200, 200, 200,
  ]);
  expect(await peek(pair.a, 'work')).toHaveLength(3);
  // Batches need not be cut at the same places as before.
  const more = await restore(pair.a, [{ id: 'new', body: 4 }, messages[0] as object, { id: 'new', body: 4 }]);
  expect(more.body).toEqual({
    items: [
      { id: 'new', status: 201 },
      { id: 'later', status: 200 },
      { id: 'new', status: 200 },
    ],
  });
  expect((await peek(pair.b, 'work')).filter(({ id }) => id === 'new')).toHaveLength(1);
});

test('are refused, all of them, where one cannot have been in such a queue', async () => {
  await using pair = await startPair();
  expect(await restore(pair.a, [{ id: 'x', body: 1 }])).toMatchObject({ status: 404 });
  await configure(pair.a, 'work', { order: 'grouped' });
  await configure(pair.a, 'plain');
  const good = { id: 'good', body: 1 };
  const refused: [string, object, string][] = [
    ['work', { id: 'x', body: 1, dueAt: inMs(HOUR_MS) }, 'messages[1].dueAt'],
    ['work', { id: 'x', body: 1, expiresAt: inMs(HOUR_MS) }, 'messages[1].expiresAt'],
    ['plain', { id: 'x', body: 1, dueAt: inMs(8 * 24 * HOUR_MS) }, 'messages[1].dueAt'],
    ['plain', { id: 'x', body: 1, expiresAt: '9999-12-31T23:59:59.999Z' }, 'messages[1].expiresAt'],
    ['plain', { id: 'x' }, 'messages[1].body'],
    ['plain', { id: 'x', body: 1, bodyBase64: '' }, 'messages[1].body'],
    ['plain', { id: 'x', bodyBase64: '' }, 'messages[1].contentType'],
  ];
  for (const [queue, bad, field] of refused)
    expect(await restore(pair.a, [good, bad], queue)).toMatchObject({ status: 422, body: { code: 'invalid', field } });
  for (const queue of ['work', 'plain']) expect(await peek(pair.b, queue)).toEqual([]);
});

test('that are not due yet are shown alone, page by page', async () => {
  await using pair = await startPair();
  await push(pair.a, 'work', [{ body: 'due' }, ...[1, 2, 3].map((body) => ({ body, delayMs: body * HOUR_MS }))]);
  const path = '/v1/queues/work/messages?delayed=true&limit=2';
  type Page = { items: { body: unknown }[]; nextPageToken?: string };
  const first = (await pair.a.expect(200, 'GET', path)) as Page;
  const rest = (await pair.b.expect(200, 'GET', `${path}&pageToken=${first.nextPageToken ?? ''}`)) as Page;
  expect([...first.items, ...rest.items].map(({ body }) => body)).toEqual([1, 2, 3]);
});
