/** Pushing: what is acknowledged is in the queue, once, as it was pushed; what is refused is not. */
import { describe, expect, test } from 'vitest';
import { eventually } from '../../../support/eventually.js';
import { startPair } from '../../../support/start-gateway.js';
import { bodiesOf, configure, peek, pop, push, pushBodies, pushRaw, queueOf, type PushedItem } from '../client.js';

function itemsOf(reply: { body: unknown }): PushedItem[] {
  return (reply.body as { items: PushedItem[] }).items;
}

describe('a push', () => {
  test('makes the queue where there is none, fifo with the defaults, and answers the id of the message', async () => {
    await using pair = await startPair();
    expect((await pair.b.call('GET', '/v1/queues/work')).status).toBe(404);
    const before = Date.now();
    const pushed = await push(pair.a, 'work', [{ body: { order: 1 } }]);
    expect(pushed.status).toBe(201);
    expect(itemsOf(pushed)).toEqual([{ id: expect.any(String), status: 201 }]);
    expect(await queueOf(pair.b, 'work')).toMatchObject({
      name: 'work',
      depth: 1,
      claimed: 0,
      delayed: 0,
      config: { order: 'fifo', dedupWindowMs: 300_000 },
    });
    const [message] = await pop(pair.b, 'work');
    expect(message).toMatchObject({
      id: itemsOf(pushed)[0]?.id,
      body: { order: 1 },
      attributes: {},
      deliveries: 1,
    });
    expect(Date.parse(message?.enqueuedAt ?? '')).toBeGreaterThan(before - 5_000);
    expect(Date.parse(message?.enqueuedAt ?? '')).toBeLessThan(Date.now() + 5_000);
    expect(await pop(pair.a, 'work')).toEqual([]);
    expect(await queueOf(pair.a, 'work')).toMatchObject({ depth: 0, oldestEnqueuedAt: null });
  });

  test('of several messages puts all of them into the queue, in their order, with ids of their own', async () => {
    await using pair = await startPair();
    const bodies = Array.from({ length: 1_000 }, (_, i) => i);
    const items = await pushBodies(pair.a, 'work', bodies);
    expect(new Set(items.map(({ id }) => id)).size).toBe(1_000);
    const peeked = await peek(pair.b, 'work');
    expect(bodiesOf(peeked)).toEqual(bodies);
    expect(peeked.map(({ id }) => id)).toEqual(items.map(({ id }) => id));
  });

  test('delivers any JSON as it was pushed', async () => {
    await using pair = await startPair();
    const bodies = [
      null,
      false,
      true,
      0,
      -1.5e-7,
      '',
      'a "quoted" \n line',
      'ü € 𝄞 \u0000 \ud800',
      [],
      {},
      [null, [false]],
      { a: { b: [1] }, ä: '' },
    ];
    await pushBodies(pair.a, 'work', bodies);
    const popped = await pop(pair.b, 'work', { max: 100 });
    expect(bodiesOf(popped)).toEqual(bodies);
    for (const message of popped) expect(Object.keys(message)).toContain('body');
    expect(popped.some(({ bodyBase64 }) => bodyBase64 !== undefined)).toBe(false);
  });

  test('delivers attributes with the message', async () => {
    await using pair = await startPair();
    const attributes = Object.fromEntries(Array.from({ length: 20 }, (_, i) => [`k.${i}`, `ü\n${'v'.repeat(1_000)}`]));
    await pushBodies(pair.a, 'work', [1], { attributes });
    expect(await pop(pair.b, 'work')).toMatchObject([{ body: 1, attributes }]);
  });
});

describe('a raw push', () => {
  test('delivers the bytes and their type, whatever they are', async () => {
    await using pair = await startPair();
    const bytes = Buffer.from(Array.from({ length: 256 }, (_, i) => i));
    const pushed = await pushRaw(pair.a, 'work', bytes, 'image/x-any; a="b"');
    expect(pushed.status).toBe(201);
    expect(pushed.body).toEqual({ id: expect.any(String), status: 201 });
    await pushRaw(pair.b, 'work', '{"json":"kept as text"}', 'application/json');
    await pushRaw(pair.a, 'work', 'a=b', 'application/x-www-form-urlencoded');
    const popped = await pop(pair.b, 'work', { max: 10 });
    expect(popped.map(({ bodyBase64, contentType }) => [bodyBase64, contentType])).toEqual([
      [bytes.toString('base64'), 'image/x-any; a="b"'],
      [Buffer.from('{"json":"kept as text"}').toString('base64'), 'application/json'],
      [Buffer.from('a=b').toString('base64'), expect.any(String)],
    ]);
    for (const message of popped) expect(message).not.toHaveProperty('body');
    expect(popped[0]?.id).toBe((pushed.body as PushedItem).id);
  });

  test('takes messageId, priority and delayMs from the query', async () => {
    await using pair = await startPair();
    await configure(pair.a, 'work', { order: 'priority' });
    const first = await pushRaw(pair.a, 'work', 'x', 'text/plain', { query: '?messageId=m1&priority=7' });
    expect((await pushRaw(pair.b, 'work', 'x', 'text/plain', { query: '?messageId=m1&priority=7' })).body).toEqual({
      ...(first.body as PushedItem),
      status: 200,
    });
    await pushRaw(pair.b, 'work', 'y', 'text/plain', { query: '?delayMs=600000&priority=3' });
    expect(await peek(pair.a, 'work')).toMatchObject([
      { priority: 7, state: 'available', contentType: 'text/plain' },
      { priority: 3, state: 'delayed' },
    ]);
  });
});

describe('a messageId', () => {
  test('is in the queue once, whichever replica it is pushed to and however often (C26)', async () => {
    await using pair = await startPair();
    const messages = [{ body: 'first', messageId: 'order-1' }];
    const [first] = itemsOf(await push(pair.a, 'work', messages));
    expect(first?.status).toBe(201);
    for (const replica of [pair.a, pair.b]) {
      const again = await push(replica, 'work', [{ body: 'other', messageId: 'order-1' }]);
      expect(again.status).toBe(201);
      expect(itemsOf(again)).toEqual([{ id: first?.id, status: 200 }]);
    }
    expect(bodiesOf(await pop(pair.b, 'work', { max: 10 }))).toEqual(['first']);
    // The message is gone, and is still not pushed again.
    expect(itemsOf(await push(pair.b, 'work', messages))).toEqual([{ id: first?.id, status: 200 }]);
    expect(await pop(pair.a, 'work')).toEqual([]);
  });

  test('pushed through both replicas at the same time is one message (C26)', async () => {
    await using pair = await startPair();
    for (let round = 0; round < 20; round += 1) {
      const messages = [{ body: round, messageId: `m-${round}` }];
      const pushed = await Promise.all([0, 1, 2, 3].map((i) => push(i % 2 ? pair.a : pair.b, 'work', messages)));
      const items = pushed.flatMap(itemsOf);
      expect(new Set(items.map(({ id }) => id)).size).toBe(1);
      expect(items.filter(({ status }) => status === 201)).toHaveLength(1);
    }
    expect(bodiesOf(await peek(pair.a, 'work'))).toEqual(Array.from({ length: 20 }, (_, i) => i));
  });

  test('that occurs twice in one request is one message, also when one of them was there before', async () => {
    await using pair = await startPair();
    const items = itemsOf(
      await push(pair.a, 'work', [
        { body: 1, messageId: 'a' },
        { body: 2 },
        { body: 3, messageId: 'a' },
        { body: 4, messageId: 'b' },
      ]),
    );
    expect(items.map(({ status }) => status)).toEqual([201, 201, 200, 201]);
    expect(items[2]?.id).toBe(items[0]?.id);
    const more = itemsOf(
      await push(pair.b, 'work', [
        { body: 5, messageId: 'b' },
        { body: 6, messageId: 'c' },
        { body: 7, messageId: 'b' },
      ]),
    );
    expect(more.map(({ status }) => status)).toEqual([200, 201, 200]);
    expect([more[0]?.id, more[2]?.id]).toEqual([items[3]?.id, items[3]?.id]);
    expect(bodiesOf(await pop(pair.a, 'work', { max: 10 }))).toEqual([1, 2, 4, 6]);
  });

  test('counts in its own queue, and may be pushed again when the window is over or there is none (C26)', async () => {
    await using pair = await startPair();
    await configure(pair.a, 'short', { dedupWindowMs: 3_000 });
    await configure(pair.a, 'none', { dedupWindowMs: 0 });
    const messages = [{ body: 1, messageId: 'm' }];
    const [first] = itemsOf(await push(pair.a, 'short', messages));
    expect(itemsOf(await push(pair.a, 'none', messages))[0]).toMatchObject({ status: 201 });
    expect(itemsOf(await push(pair.b, 'none', messages))[0]).toMatchObject({ status: 201 });
    expect(itemsOf(await push(pair.b, 'short', messages))[0]).toEqual({ id: first?.id, status: 200 });
    const [second] = await eventually('the window is over', async () => {
      const items = itemsOf(await push(pair.b, 'short', messages));
      return items[0]?.status === 201 && items;
    });
    expect(second?.id).not.toBe(first?.id);
    // The new mark counts like the first one did.
    expect(itemsOf(await push(pair.a, 'short', messages))[0]).toEqual({ id: second?.id, status: 200 });
    expect(await pop(pair.a, 'short', { max: 10 })).toHaveLength(2);
    expect(await pop(pair.a, 'none', { max: 10 })).toHaveLength(2);
  });

  test('comes from the Idempotency-Key for messages that have none', async () => {
    await using pair = await startPair();
    const headers = { 'idempotency-key': 'request-1' };
    const messages = [{ body: 1 }, { body: 2 }, { body: 3, messageId: 'own' }];
    const first = itemsOf(await push(pair.a, 'work', messages, { headers }));
    const again = itemsOf(await push(pair.b, 'work', messages, { headers }));
    expect(again).toEqual(first.map(({ id }) => ({ id, status: 200 })));
    const raw = await pushRaw(pair.a, 'raw', 'x', 'text/plain', { headers });
    expect((await pushRaw(pair.b, 'raw', 'x', 'text/plain', { headers })).body).toMatchObject({
      id: (raw.body as PushedItem).id,
      status: 200,
    });
    expect(bodiesOf(await pop(pair.a, 'work', { max: 10 }))).toEqual([1, 2, 3]);
  });
});

describe('a push is refused, and nothing of it is in the queue,', () => {
  test('when the queue is full: 429 with Retry-After', async () => {
    await using pair = await startPair();
    await configure(pair.a, 'work', { maxDepth: 3 });
    await pushBodies(pair.b, 'work', [1, 2]);
    for (const replica of [pair.a, pair.b]) {
      const refused = await eventually('the replica knows how many there are', async () => {
        const reply = await push(replica, 'work', [{ body: 3 }, { body: 4 }]);
        return reply.status === 429 && reply;
      });
      expect(refused.body).toMatchObject({ code: 'queue-full', retryable: true, outcome: 'not-applied', maxDepth: 3 });
      expect(refused.body).toMatchObject({ detail: expect.stringContaining('3') });
      expect(Number(refused.headers['retry-after'])).toBeGreaterThanOrEqual(1);
    }
    expect((await queueOf(pair.a, 'work')).depth).toBe(2);
    await pushBodies(pair.b, 'work', [3]);
    expect((await push(pair.b, 'work', [{ body: 4 }])).status).toBe(429);
    await pop(pair.a, 'work');
    await eventually('there is room again', async () => (await push(pair.b, 'work', [{ body: 5 }])).status === 201);
    expect(bodiesOf(await peek(pair.a, 'work'))).toEqual([2, 3, 5]);
  });

  test('but not when it only repeats what is there: its answer was lost, and it filled the queue', async () => {
    await using pair = await startPair();
    await configure(pair.a, 'work', { maxDepth: 2 });
    const messages = [1, 2].map((body) => ({ body, messageId: `m${body}` }));
    const first = itemsOf(await push(pair.a, 'work', messages));
    expect((await push(pair.a, 'work', [{ body: 3 }])).status).toBe(429);
    for (const replica of [pair.a, pair.b])
      expect(itemsOf(await push(replica, 'work', messages))).toEqual(first.map(({ id }) => ({ id, status: 200 })));
    const more = await push(pair.b, 'work', [...messages, { body: 3, messageId: 'm3' }]);
    expect(more.status).toBe(429);
    expect(bodiesOf(await pop(pair.a, 'work', { max: 10 }))).toEqual([1, 2]);
  });

  test('when a message is larger than the limit, which the answer tells (C27)', async () => {
    await using pair = await startPair({ settings: { POSTERN_MAX_MESSAGE_BYTES: '1024' } });
    // As JSON, with its quotes.
    await pushBodies(pair.a, 'work', ['x'.repeat(1_022)]);
    const refused = await push(pair.a, 'work', [{ body: 'fits' }, { body: 'x'.repeat(1_023) }]);
    expect(refused.status).toBe(413);
    expect(refused.body).toMatchObject({ code: 'too-large', maxBytes: 1_024, outcome: 'not-applied' });
    expect((refused.body as { detail: string }).detail).toMatch(/messages\[1\]\.body.*1025.*1024/);
    expect((await pushRaw(pair.b, 'work', 'x'.repeat(1_024), 'text/plain')).status).toBe(201);
    const raw = await pushRaw(pair.b, 'work', 'x'.repeat(1_025), 'text/plain');
    expect(raw.status).toBe(413);
    expect((raw.body as { detail: string }).detail).toMatch(/1025.*1024/);
    expect((await queueOf(pair.b, 'work')).depth).toBe(2);
    expect((await push(pair.b, 'other', [{ body: 'x'.repeat(1_023) }])).status).toBe(413);
    expect((await pair.a.call('GET', '/v1/queues/other')).status).toBe(404);
  });

  test('when a batch does not fit into one transaction; the largest that fits is taken whole (C27)', async () => {
    await using pair = await startPair();
    const limit = 960 * 1_024;
    const messages = (count: number, bytes: number): { body: string }[] =>
      Array.from({ length: count }, () => ({ body: 'x'.repeat(bytes) }));
    const refused = await push(pair.a, 'work', messages(4, 250_000));
    expect(refused.status).toBe(413);
    expect(refused.body).toMatchObject({ code: 'too-large', maxBytes: limit, outcome: 'not-applied' });
    expect((refused.body as { detail: string }).detail).toContain(String(limit));
    expect((await pair.b.call('GET', '/v1/queues/work')).status).toBe(404);
    for (const [count, bytes] of [
      [4, 245_000],
      [1_000, 700],
    ] as const) {
      expect((await push(pair.a, 'work', messages(count, bytes))).status).toBe(201);
      expect((await queueOf(pair.b, 'work')).depth).toBe(count);
      await pair.a.expect(204, 'DELETE', '/v1/queues/work?force=true');
    }
    // The request itself has a limit too.
    const large = await push(pair.a, 'work', messages(5, 250_000));
    expect(large.status).toBe(413);
    expect(large.body).toMatchObject({ code: 'too-large', maxBytes: 1_048_576 });
  });

  test('when it has a priority and the queue none', async () => {
    await using pair = await startPair();
    await pushBodies(pair.a, 'work', [1]);
    const refused = await push(pair.b, 'work', [{ body: 2 }, { body: 3, priority: 5 }]);
    expect(refused.status).toBe(422);
    expect(refused.body).toMatchObject({ code: 'invalid', field: 'messages[1].priority' });
    expect((refused.body as { detail: string }).detail).toMatch(/priority is 5;.*fifo/);
    expect((await pushRaw(pair.a, 'work', 'x', 'text/plain', { query: '?priority=5' })).status).toBe(422);
    expect((await queueOf(pair.a, 'work')).depth).toBe(1);
    // Nor is a queue made for it.
    expect((await push(pair.b, 'unknown', [{ body: 1, priority: 5 }])).status).toBe(422);
    expect((await pair.b.call('GET', '/v1/queues/unknown')).status).toBe(404);
  });

  test('but not when the queue has priorities since a moment ago, by the other replica', async () => {
    await using pair = await startPair();
    for (let round = 0; round < 10; round += 1) {
      const queue = `work-${round}`;
      await pushBodies(pair.b, queue, [1]);
      await pop(pair.b, queue);
      expect((await configure(pair.a, queue, { order: 'priority' })).status).toBe(200);
      expect((await push(pair.b, queue, [{ body: 2, priority: 5 }])).status).toBe(201);
    }
  });
});
