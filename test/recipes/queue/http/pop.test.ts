/** Popping: at most once, in order, and empty queues and unknown ones are alike. */
import { connect } from 'node:net';
import { expect, test } from 'vitest';
import { eventually } from '../../../support/eventually.js';
import { startPair, type Pair } from '../../../support/start-gateway.js';
import { bodiesOf, claim, pop, pushBodies, queueOf, settleAll } from '../client.js';

function upTo(count: number): number[] {
  return Array.from({ length: count }, (_, i) => i);
}

test('pops in the order of the pushes, through whichever replica, each message once', async () => {
  await using pair = await startPair();
  await pushBodies(pair.a, 'work', upTo(30));
  const popped: unknown[] = [];
  for (let i = 0; i < 30; i += 1) popped.push(...bodiesOf(await pop(i % 2 === 0 ? pair.a : pair.b, 'work')));
  expect(popped).toEqual(upTo(30));
  for (const replica of [pair.a, pair.b]) expect(await pop(replica, 'work')).toEqual([]);
});

test('pops one message unless asked for more, and at most as many as asked for', async () => {
  await using pair = await startPair();
  await pushBodies(pair.a, 'work', upTo(20));
  expect(bodiesOf(await pop(pair.b, 'work'))).toEqual([0]);
  const popped = bodiesOf(await pop(pair.a, 'work', { max: 7 }));
  expect(popped.length).toBeGreaterThanOrEqual(1);
  expect(popped.length).toBeLessThanOrEqual(7);
  while (popped.length < 19) {
    const more = bodiesOf(await pop(pair.b, 'work', { max: 1_000 }));
    expect(more.length).toBeGreaterThanOrEqual(1);
    popped.push(...more);
  }
  expect(popped).toEqual(upTo(20).slice(1));
});

test('answers 204 for an unknown queue as for an empty one, and makes none', async () => {
  await using pair = await startPair();
  for (const replica of [pair.a, pair.b])
    expect((await replica.call('POST', '/v1/queues/unknown/pop')).status).toBe(204);
  expect((await pair.a.call('GET', '/v1/queues/unknown')).status).toBe(404);
  await pushBodies(pair.a, 'unknown', [1]);
  expect(bodiesOf(await pop(pair.b, 'unknown'))).toEqual([1]);
  expect((await pair.b.call('POST', '/v1/queues/unknown/pop')).status).toBe(204);
});

test('sees what was pushed through the other replica a moment before, without waiting for it', async () => {
  await using pair = await startPair();
  for (let i = 0; i < 40; i += 1) {
    await pushBodies(pair.a, 'work', [i]);
    expect(bodiesOf(await pop(pair.b, 'work'))).toEqual([i]);
    expect(await pop(pair.a, 'work')).toEqual([]);
  }
});

test('passes by what is claimed, and takes what is there behind it', async () => {
  await using pair = await startPair();
  const lease = await pair.a.createLease({ ttlMs: 20_000 });
  await pushBodies(pair.a, 'work', upTo(6));
  const claims = await claim(pair.a, 'work', lease, { max: 2 });
  expect(bodiesOf(await pop(pair.b, 'work', { max: 2 }))).toEqual([2, 3]);
  await settleAll(pair.b, 'work', 'nack', lease, claims.slice(0, 1));
  expect(bodiesOf(await pop(pair.a, 'work'))).toEqual([0]);
  expect(bodiesOf(await pop(pair.b, 'work'))).toEqual([4]);
  await settleAll(pair.a, 'work', 'ack', lease, claims.slice(1));
  expect(bodiesOf(await pop(pair.a, 'work', { max: 9 }))).toEqual([5]);
  expect((await queueOf(pair.b, 'work')).depth).toBe(0);
});

test('counts deliveries to those who gave a message back before', async () => {
  await using pair = await startPair();
  const lease = await pair.a.createLease({ ttlMs: 20_000 });
  await pushBodies(pair.a, 'work', [1]);
  for (const [i, replica] of [pair.a, pair.b, pair.a].entries()) {
    const claims = await claim(replica, 'work', lease);
    expect(claims).toMatchObject([{ body: 1, deliveries: i + 1 }]);
    await settleAll(replica, 'work', 'nack', lease, claims);
  }
  expect(await pop(pair.b, 'work')).toMatchObject([{ body: 1, deliveries: 4 }]);
});

test('answers at most about a megabyte at once, in several requests', async () => {
  await using pair = await startPair();
  for (let i = 0; i < 8; i += 1) await pushBodies(pair.a, 'work', [`${i}${'x'.repeat(250_000)}`]);
  const first: string[] = [];
  for (let i = 0; i < 8 && first.length < 8; i += 1) {
    const some = bodiesOf(await pop(i % 2 === 0 ? pair.b : pair.a, 'work', { max: 100 })) as string[];
    expect(some.length).toBeLessThanOrEqual(4);
    first.push(...some.map((body) => body.slice(0, 1)));
  }
  expect(first).toEqual(['0', '1', '2', '3', '4', '5', '6', '7']);
});

test('many that pop at once, through both replicas, get every message, and none twice', async () => {
  await using pair = await startPair();
  for (let i = 0; i < 10; i += 1)
    await pushBodies(
      pair.a,
      'work',
      upTo(100).map((j) => i * 100 + j),
    );
  const popped: number[] = [];
  await Promise.all(
    upTo(16).map(async (i) => {
      const own: number[] = [];
      for (;;) {
        const some = bodiesOf(await pop(i % 2 === 0 ? pair.a : pair.b, 'work', { max: 5 })) as number[];
        if (some.length === 0) break;
        own.push(...some);
      }
      // Each of them sees them in their order.
      expect(own).toEqual([...own].sort((a, b) => a - b));
      popped.push(...own);
    }),
  );
  expect(popped.sort((a, b) => a - b)).toEqual(upTo(1_000));
});

/** As somebody with ZooKeeper's credentials might. */
async function putBelow({ b }: Pair, queue: string, body: unknown): Promise<void> {
  const { control, paths } = await b.gateway.recipes.queue.queues.expect('default', queue, performance.now() + 5_000);
  const segment = paths.segment(100, 1);
  for (const name of (await control.getChildren(segment)).children) {
    const { data } = await control.getData(`${segment}/${name}`);
    if (data.toString('utf8').includes(JSON.stringify(body))) await control.create(`${segment}/${name}/theirs`);
  }
}

test('passes over a message below which somebody else has put something, whether it was claimed before or not', async () => {
  await using pair = await startPair();
  await pushBodies(pair.a, 'work', ['never claimed', 'claimed once', 'free']);
  const lease = await pair.a.createLease({ ttlMs: 60_000 });
  const claims = await claim(pair.a, 'work', lease, { max: 2 });
  expect(bodiesOf(claims)).toEqual(['never claimed', 'claimed once']);
  await settleAll(pair.a, 'work', 'nack', lease, claims);
  await putBelow(pair, 'work', 'claimed once');
  await pushBodies(pair.a, 'work', ['below which there is something at once']);
  await putBelow(pair, 'work', 'below which there is something at once');
  // Popped at a replica that has not seen them yet.
  const popped: unknown[] = [];
  for (;;) {
    const more = bodiesOf(await pop(pair.b, 'work', { max: 10 }));
    if (more.length === 0) break;
    popped.push(...more);
  }
  expect(popped).toEqual(['never claimed', 'free']);
});

test('is refused before it takes anything while its principal does not read answers that are as long as they may be', async () => {
  await using pair = await startPair({ settings: { POSTERN_MAX_ANSWER_BYTES_AT_ONCE: '1048576' } });
  const body = 'a'.repeat(100_000);
  await pushBodies(pair.a, 'work', [body]);
  await pair.a.expect(201, 'PUT', '/v1/config/large', { body: { text: 'b'.repeat(800_000) } });
  const unread = connect(Number(new URL(pair.a.url).port), '127.0.0.1');
  unread.on('error', () => undefined).pause();
  const asked = 40;
  unread.write('GET /v1/config/large HTTP/1.1\r\nHost: localhost\r\n\r\n'.repeat(asked));
  // The system takes some of them. While it does, each read of ours leaves time for one of theirs.
  await eventually('one of them is stuck', async () => {
    for (let i = 0; i < asked; i += 1) if ((await pair.a.call('GET', '/v1/config/large')).status !== 503) return false;
    return true;
  });
  const refused = await pair.a.call('POST', '/v1/queues/work/pop');
  expect(refused).toMatchObject({
    status: 503,
    body: { code: 'overloaded', outcome: 'not-applied', limit: 'maxAnswerBytesAtOnce', maxAnswerBytesAtOnce: 524_288 },
  });
  unread.destroy();
  await eventually('there is room again', async () => (await pair.a.call('GET', '/v1/config/large')).status === 200);
  expect(bodiesOf(await pop(pair.a, 'work'))).toEqual([body]);
});
