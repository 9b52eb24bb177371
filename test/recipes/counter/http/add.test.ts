/** Counters: what is added is added once, whoever adds at the same time and however often it is repeated. */
import { describe, expect, it } from 'vitest';
import type { Client, Reply } from '../../../support/http/client.js';
import { EventReader } from '../../../support/http/event-stream.js';
import { eventually } from '../../../support/eventually.js';
import { startPair } from '../../../support/start-gateway.js';
import { scaled } from '../../../support/timing.js';

const MAX = Number.MAX_SAFE_INTEGER;

function add(client: Client, name: string, body: unknown, headers: Record<string, string> = {}): Promise<Reply> {
  return client.call('POST', `/v1/counters/${name}/add`, { body, headers });
}

function set(client: Client, name: string, body: unknown, headers: Record<string, string> = {}): Promise<Reply> {
  return client.call('PUT', `/v1/counters/${name}`, { body, headers });
}

async function valueOf(client: Client, name: string): Promise<number> {
  return ((await client.expect(200, 'GET', `/v1/counters/${name}`)) as { value: number }).value;
}

describe('a counter', () => {
  it('is 0 until it is changed, and is added to, set and read at any replica', async () => {
    await using pair = await startPair();
    expect(await valueOf(pair.a, 'visits')).toBe(0);
    expect((await add(pair.a, 'visits', { by: 5 })).body).toEqual({ name: 'visits', value: 5 });
    expect((await add(pair.b, 'visits', { by: -7 })).body).toEqual({ name: 'visits', value: -2 });
    expect((await add(pair.b, 'visits', { by: 0 })).body).toEqual({ name: 'visits', value: -2 });
    expect((await set(pair.a, 'visits', { value: 40 })).body).toEqual({ name: 'visits', value: 40 });
    expect(await valueOf(pair.b, 'visits')).toBe(40);
    expect((await set(pair.b, 'visits', { value: 41, expected: 40 })).status).toBe(200);
    expect(await set(pair.a, 'visits', { value: 0, expected: 40 })).toMatchObject({
      status: 412,
      body: { code: 'version-mismatch', name: 'visits', value: 41, outcome: 'not-applied' },
    });
    expect(await set(pair.a, 'fresh', { value: 1, expected: 1 })).toMatchObject({ status: 412, body: { value: 0 } });
    expect((await set(pair.a, 'fresh', { value: 1, expected: 0 })).status).toBe(200);
    expect(await pair.b.expect(200, 'GET', '/v1/counters')).toEqual({
      items: [
        { name: 'fresh', value: 1 },
        { name: 'visits', value: 41 },
      ],
    });
  });

  it('is listed by name and page', async () => {
    await using pair = await startPair();
    for (const name of ['b2', 'a', 'b1', 'c']) await add(pair.a, name, { by: 1 });
    const first = (await pair.b.expect(200, 'GET', '/v1/counters?limit=3')) as { nextPageToken: string };
    expect(first).toMatchObject({ items: [{ name: 'a' }, { name: 'b1' }, { name: 'b2' }] });
    const rest = await pair.b.expect(200, 'GET', `/v1/counters?limit=3&pageToken=${first.nextPageToken}`);
    expect(rest).toEqual({ items: [{ name: 'c', value: 1 }] });
    expect(await pair.a.expect(200, 'GET', '/v1/counters?prefix=b')).toMatchObject({
      items: [{ name: 'b1' }, { name: 'b2' }],
    });
  });

  it('never passes what JSON numbers hold exactly, and says how far it is', async () => {
    await using pair = await startPair();
    await set(pair.a, 'full', { value: MAX - 1 });
    expect((await add(pair.a, 'full', { by: 1 })).body.value).toBe(MAX);
    for (const by of [1, MAX])
      expect(await add(pair.b, 'full', { by })).toMatchObject({
        status: 422,
        body: { code: 'invalid', field: 'by', value: MAX, maxValue: MAX, minValue: -MAX, outcome: 'not-applied' },
      });
    expect((await add(pair.b, 'full', { by: -MAX })).body.value).toBe(0);
    expect((await add(pair.b, 'full', { by: -MAX })).body.value).toBe(-MAX);
    expect((await add(pair.b, 'full', { by: -1 })).status).toBe(422);
    expect(await valueOf(pair.a, 'full')).toBe(-MAX);
  });

  it('of one namespace is not that of another', async () => {
    await using pair = await startPair();
    await add(pair.a, 'visits', { by: 3 }, { namespace: 'one' });
    expect(await valueOf(pair.b, 'visits')).toBe(0);
    expect((await add(pair.b, 'visits', { by: 1 }, { namespace: 'one' })).body.value).toBe(4);
  });
});

describe('many who add at once', () => {
  it(
    'through two replicas are each counted once, and each is told a value of its own',
    { timeout: scaled(60_000) },
    async () => {
      await using pair = await startPair();
      const replies = await Promise.all(
        Array.from({ length: 600 }, (_, i) => add([pair.a, pair.b][i % 2]!, 'busy', { by: 1 })),
      );
      expect(new Set(replies.map(({ status }) => status))).toEqual(new Set([200]));
      const values = replies.map(({ body }) => (body as { value: number }).value).sort((a, b) => a - b);
      expect(values).toEqual(Array.from({ length: 600 }, (_, i) => i + 1));
      expect(await valueOf(pair.a, 'busy')).toBe(600);
      // Together, not one by one.
      const transactions =
        (await pair.a.metric('postern_counters_transactions_total')) +
        (await pair.b.metric('postern_counters_transactions_total'));
      expect(transactions).toBeLessThan(300);
      expect(
        (await pair.a.metric('postern_counters_operations_total', { outcome: 'applied' })) +
          (await pair.b.metric('postern_counters_operations_total', { outcome: 'applied' })),
      ).toBe(600);
    },
  );

  it('are not disturbed by those who are refused in between', async () => {
    await using pair = await startPair();
    await Promise.all([
      ...Array.from({ length: 50 }, (_, i) => add([pair.a, pair.b][i % 2]!, 'mixed', { by: 2 })),
      ...Array.from({ length: 10 }, async (_, i) => {
        expect((await set([pair.a, pair.b][i % 2]!, 'mixed', { value: 7, expected: -1 })).status).toBe(412);
      }),
    ]);
    expect(await valueOf(pair.b, 'mixed')).toBe(100);
  });
});

describe('an operation with a requestId', () => {
  it('counts once, however often it is repeated and through which replica, and answers the first outcome', async () => {
    await using pair = await startPair();
    const first = await add(pair.a, 'once', { by: 5, requestId: 'r1' });
    await add(pair.b, 'once', { by: 100 });
    for (const reply of [
      await add(pair.b, 'once', { by: 5, requestId: 'r1' }),
      await add(pair.a, 'once', { by: 5 }, { 'idempotency-key': 'r1' }),
    ])
      expect([reply.status, reply.body]).toEqual([200, first.body]);
    expect(await valueOf(pair.a, 'once')).toBe(105);
    const setting = { value: 1, expected: 105, requestId: 's1' };
    expect((await set(pair.a, 'once', setting)).body).toEqual({ name: 'once', value: 1 });
    await add(pair.b, 'once', { by: 1 });
    expect((await set(pair.b, 'once', setting)).body).toEqual({ name: 'once', value: 1 });
    expect(await valueOf(pair.a, 'once')).toBe(2);
    // Of another counter it is another request.
    expect((await add(pair.b, 'other', { by: 5, requestId: 'r1' })).body.value).toBe(5);
  });

  it('sent ten times at once through both replicas counts once', async () => {
    await using pair = await startPair();
    for (let round = 0; round < 5; round += 1) {
      const replies = await Promise.all(
        Array.from({ length: 10 }, (_, i) =>
          add([pair.a, pair.b][i % 2]!, 'burst', { by: 1, requestId: `round-${round}` }),
        ),
      );
      expect(replies.map(({ body }) => (body as { value: number }).value)).toEqual(Array(10).fill(round + 1));
    }
    expect(await valueOf(pair.a, 'burst')).toBe(5);
  });

  it('does not stand for another one, and one that was refused may be tried again', async () => {
    await using pair = await startPair();
    await add(pair.a, 'kept', { by: 1, requestId: 'r' });
    for (const reply of [
      await add(pair.b, 'kept', { by: 2, requestId: 'r' }),
      await set(pair.b, 'kept', { value: 1, requestId: 'r' }),
    ])
      expect(reply).toMatchObject({ status: 422, body: { code: 'invalid', field: 'Idempotency-Key' } });
    const later = { value: 9, expected: 2, requestId: 'later' };
    expect((await set(pair.a, 'kept', later)).status).toBe(412);
    await add(pair.b, 'kept', { by: 1 });
    expect((await set(pair.a, 'kept', later)).status).toBe(200);
  });
});

describe('long poll and stream', () => {
  it('tell of a change at the other replica, and 304 when there was none', async () => {
    await using pair = await startPair();
    const unused = await pair.a.call('GET', '/v1/counters/polled');
    const etag = String(unused.headers['etag']);
    const poll = (client: Client, known: string, waitMs: number): Promise<Reply> =>
      client.call('GET', `/v1/counters/polled?waitMs=${waitMs}`, { headers: { 'If-None-Match': known } });
    expect((await poll(pair.b, etag, 100)).status).toBe(304);
    const waiting = poll(pair.b, etag, 20_000);
    await eventually('it looks', () => pair.b.gateway.observed() === 1);
    await add(pair.a, 'polled', { by: 3 });
    const changed = await waiting;
    expect(changed.body).toEqual({ name: 'polled', value: 3 });
    // Back at the old value it is another state: nobody misses that it was another in between.
    const first = String(changed.headers['etag']);
    await add(pair.a, 'polled', { by: 1 });
    await add(pair.a, 'polled', { by: -1 });
    expect((await poll(pair.b, first, 20_000)).body).toEqual({ name: 'polled', value: 3 });
  });

  it('of a counter that changes all the time tells the newest value, and not each', async () => {
    await using pair = await startPair();
    await using stream = await EventReader.open(pair.b.gateway.url, '/v1/counters/busy/events');
    await eventually('it begins', () => stream.seen.length > 0);
    expect(stream.seen[0]).toMatchObject({ event: 'state', data: { name: 'busy', value: 0 } });
    for (let i = 0; i < 100; i += 1) await add(pair.a, 'busy', { by: 1 });
    await eventually('it tells the last', () => (stream.seen.at(-1)?.data as { value: number }).value === 100);
    expect(stream.seen.length).toBeLessThan(100);
    const values = stream.seen.map(({ data }) => (data as { value: number }).value);
    expect(values).toEqual([...values].sort((a, b) => a - b));
  });
});

describe('what is wrong', () => {
  it('is refused by its name, and nothing is counted', async () => {
    await using pair = await startPair();
    for (const [body, field] of [
      [{}, 'by'],
      [{ by: 1.5 }, 'by'],
      [{ by: '1' }, 'by'],
      [{ by: null }, 'by'],
      [{ by: 1, requestId: '' }, 'requestId'],
      [{ by: 1, requestId: 'a b' }, 'requestId'],
      [{ by: 1, more: 1 }, 'more'],
      [{ value: 1, by: 1 }, 'value'],
    ] as const)
      expect(await add(pair.a, 'wrong', body), JSON.stringify(body)).toMatchObject({
        status: 422,
        body: { code: 'invalid', field },
      });
    for (const [body, field] of [
      [{}, 'value'],
      [{ value: 0.5 }, 'value'],
      [{ value: 1, expected: '0' }, 'expected'],
      [{ value: 1, expected: 0.5 }, 'expected'],
      [{ value: 1, by: 1 }, 'by'],
    ] as const)
      expect(await set(pair.a, 'wrong', body), JSON.stringify(body)).toMatchObject({
        status: 422,
        body: { code: 'invalid', field },
      });
    expect((await add(pair.a, 'a%2Fb', { by: 1 })).body).toMatchObject({ code: 'invalid', field: 'name' });
    for (const value of [MAX + 1, -MAX - 1, 1e20]) {
      const [added, written] = [await add(pair.a, 'wrong', { by: value }), await set(pair.a, 'wrong', { value })];
      expect(added, String(value)).toMatchObject({ status: 422, body: { code: 'invalid', field: 'by' } });
      expect(written, String(value)).toMatchObject({ status: 422, body: { code: 'invalid', field: 'value' } });
    }
    // What would not be kept as it is written is no number of ours.
    for (const body of ['{"by": 9007199254740993}', '{"by": -9007199254740993}', '{"by": 1e999}'])
      expect(await add(pair.a, 'wrong', body), body).toMatchObject({
        status: 400,
        body: { code: 'malformed', position: 7 },
      });
    expect((await add(pair.a, 'wrong', '{"by": 1')).status).toBe(400);
    expect(await pair.b.expect(200, 'GET', '/v1/counters')).toEqual({ items: [] });
  });
});
