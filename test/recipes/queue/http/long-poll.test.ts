/** Consumers that wait: they cost ZooKeeper nothing, and a push wakes one of them. */
import { expect, test } from 'vitest';
import { eventually, throughout } from '../../../support/eventually.js';
import { startPair, type Replica } from '../../../support/start-gateway.js';
import { scaled, timing } from '../../../support/timing.js';
import { bodiesOf, claim, pop, pushBodies, queueOf, type ShownMessage } from '../client.js';

async function waitingAt(replica: Replica, count: number): Promise<void> {
  await eventually(`${count} wait`, async () => (await replica.metric('postern_waiters', { kind: 'queue' })) === count);
}

test(
  'a thousand that wait at an empty queue: a push is one delivery, and one notification at most for each replica',
  async () => {
    await using pair = await startPair();
    await pushBodies(pair.a, 'work', ['warm']);
    await pop(pair.b, 'work');
    await pop(pair.a, 'work');
    const leaves = new AbortController();
    const served: ShownMessage[] = [];
    const waiting = Array.from({ length: 1_000 }, async (_, i) => {
      const reply = await (i % 2 ? pair.a : pair.b)
        .call('POST', '/v1/queues/work/pop', { body: { waitMs: 50_000 }, signal: leaves.signal })
        .catch(() => undefined);
      if (reply !== undefined) served.push(...(reply.body as { items: ShownMessage[] }).items);
    });
    for (const replica of [pair.a, pair.b]) await waitingAt(replica, 500);
    const counts = (): Promise<number[]> =>
      Promise.all([pair.a, pair.b].map((replica) => replica.metric('postern_watch_events_total')));
    const requests = (): number => pair.a.gateway.context.control.watches.size;
    let last = '';
    await eventually(
      'they have looked',
      async () => {
        const now = `${String(await counts())} ${requests()}`;
        const quiet = now === last;
        last = now;
        return quiet;
      },
      { everyMs: timing.quietMs },
    );
    // Waiting costs nothing: no event, no watch more.
    const [quiet, watches] = [await counts(), requests()];
    await throughout('nothing happens', async () => String(await counts()) === String(quiet), { forMs: scaled(1_500) });
    expect(requests()).toBe(watches);
    for (let i = 0; i < 5; i += 1) {
      const before = await counts();
      await pushBodies(i % 2 ? pair.a : pair.b, 'work', [i]);
      await eventually('one is served', () => served.length === i + 1);
      await throughout('no other one is', () => served.length === i + 1);
      expect(served.at(-1)).toMatchObject({ body: i });
      for (const [replica, count] of (await counts()).entries())
        expect(count - (before[replica] ?? 0), `replica ${replica}, push ${i}`).toBeLessThanOrEqual(1);
      const left = 1_000 - i - 1;
      await eventually('the others wait', async () => {
        const waiters = await Promise.all([pair.a, pair.b].map((r) => r.metric('postern_waiters', { kind: 'queue' })));
        return waiters[0]! + waiters[1]! === left;
      });
    }
    leaves.abort();
    await Promise.all(waiting);
  },
  scaled(90_000),
);

test('a wait ends with 204 when its time is over, not before', async () => {
  await using pair = await startPair();
  const lease = await pair.a.createLease({ ttlMs: 20_000 });
  await pushBodies(pair.a, 'work', [1]);
  await pop(pair.b, 'work');
  for (const [replica, name, what] of [
    [pair.a, 'work', 'pop'],
    [pair.b, 'work', 'pop'],
    [pair.a, 'unknown', 'pop'],
    [pair.b, 'work', 'claim'],
    [pair.a, 'unknown', 'claim'],
  ] as const) {
    const before = performance.now();
    const reply = await replica.call('POST', `/v1/queues/${name}/${what}`, {
      body: { waitMs: 400 },
      ...(what === 'claim' && { leaseToken: lease.leaseToken }),
    });
    const tookMs = performance.now() - before;
    expect(reply.status).toBe(204);
    expect(tookMs).toBeGreaterThanOrEqual(300);
    expect(tookMs).toBeLessThan(scaled(2_500));
  }
});

test('nothing is taken for a client that has left', async () => {
  await using pair = await startPair();
  const lease = await pair.a.createLease({ ttlMs: 20_000 });
  await pushBodies(pair.a, 'work', [0]);
  await pop(pair.a, 'work');
  const leaves = new AbortController();
  const gone = (['pop', 'claim'] as const).map((what) =>
    pair.a
      .call('POST', `/v1/queues/work/${what}`, {
        body: { waitMs: 30_000, max: 10 },
        signal: leaves.signal,
        ...(what === 'claim' && { leaseToken: lease.leaseToken }),
      })
      .catch((error: unknown) => (error as Error).name),
  );
  await waitingAt(pair.a, 2);
  leaves.abort();
  expect(await Promise.all(gone)).toEqual(['AbortError', 'AbortError']);
  await waitingAt(pair.a, 0);
  await pushBodies(pair.a, 'work', [1, 2]);
  expect(await queueOf(pair.b, 'work')).toMatchObject({ depth: 2, claimed: 0 });
  expect(bodiesOf(await pop(pair.b, 'work', { waitMs: 5_000, max: 5 }))).toEqual([1, 2]);
});

test('who waits longest is served first', async () => {
  await using pair = await startPair();
  await pushBodies(pair.a, 'work', [0]);
  await pop(pair.a, 'work');
  const order: number[] = [];
  const waiting: Promise<void>[] = [];
  for (let i = 0; i < 5; i += 1) {
    waiting.push(
      pop(pair.a, 'work', { waitMs: 20_000 }).then(([message]) => void (order[message?.body as number] = i)),
    );
    await waitingAt(pair.a, i + 1);
  }
  for (let i = 0; i < 5; i += 1) await pushBodies(pair.b, 'work', [i]);
  await Promise.all(waiting);
  expect(order).toEqual([0, 1, 2, 3, 4]);
});

test('who waits at an unknown queue is served when it appears, whichever replica it is made through', async () => {
  await using pair = await startPair();
  const lease = await pair.a.createLease({ ttlMs: 20_000 });
  const waiting = [
    pop(pair.a, 'new', { waitMs: 20_000 }),
    pop(pair.b, 'new', { waitMs: 20_000 }),
    claim(pair.b, 'new', lease, { waitMs: 20_000 }),
  ];
  await throughout('nobody is served', async () => (await pair.a.call('GET', '/v1/queues/new')).status === 404);
  await pushBodies(pair.a, 'new', [1, 2, 3]);
  expect(bodiesOf((await Promise.all(waiting)).flat()).sort()).toEqual([1, 2, 3]);
});

test('a draining replica answers those who wait with 503 draining, takes nothing for them, and the other one goes on', async () => {
  await using pair = await startPair();
  const lease = await pair.b.createLease({ ttlMs: 20_000 });
  await pushBodies(pair.b, 'work', [0]);
  await pop(pair.b, 'work');
  const waiting = [
    pair.a.call('POST', '/v1/queues/work/pop', { body: { waitMs: 30_000 } }),
    pair.a.call('POST', '/v1/queues/none/pop', { body: { waitMs: 30_000 } }),
    pair.a.call('POST', '/v1/queues/work/claim', { body: { waitMs: 30_000 }, leaseToken: lease.leaseToken }),
  ];
  await waitingAt(pair.a, 2);
  const stopped = pair.a.gateway.stop();
  for (const reply of await Promise.all(waiting)) {
    expect(reply.status).toBe(503);
    expect(reply.body).toMatchObject({ code: 'draining', outcome: 'not-applied' });
    expect(Number(reply.headers['retry-after'])).toBeGreaterThanOrEqual(0);
  }
  await stopped;
  await pushBodies(pair.b, 'work', [1, 2]);
  expect(bodiesOf(await pop(pair.b, 'work'))).toEqual([1]);
  expect(bodiesOf(await claim(pair.b, 'work', lease))).toEqual([2]);
});
