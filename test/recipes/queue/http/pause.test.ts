/** Queues that hand nothing out for a while. */
import { describe, expect, test } from 'vitest';
import { eventually, throughout } from '../../../support/eventually.js';
import { startPair, type Pair } from '../../../support/start-gateway.js';
import { claimOne } from '../claims.js';
import {
  bodiesOf,
  claim,
  configure,
  peek,
  pop,
  push,
  pushBodies,
  queueOf,
  settleAll,
  type ShownMessage,
} from '../client.js';

type Replica = Pair['a'];

const TTL_MS = 20_000;

async function pause(replica: Replica, queue = 'work'): Promise<void> {
  await replica.expect(204, 'POST', `/v1/queues/${queue}/pause`);
}

async function resume(replica: Replica, queue = 'work'): Promise<void> {
  await replica.expect(204, 'POST', `/v1/queues/${queue}/resume`);
}

async function waitingAt(replica: Replica, count: number): Promise<void> {
  await eventually(`${count} wait`, async () => (await replica.metric('postern_waiters', { kind: 'queue' })) === count);
}

describe('a paused queue', () => {
  test('takes pushes and hands nothing out at any replica, from the answer of the pause to that of the resumption (C70)', async () => {
    await using pair = await startPair();
    const lease = await pair.a.createLease({ ttlMs: TTL_MS });
    await pushBodies(pair.a, 'work', ['warm', 'warm']);
    for (const replica of [pair.a, pair.b]) await pop(replica, 'work');
    for (let round = 0; round < 10; round += 1) {
      const [one, other] = round % 2 === 0 ? [pair.a, pair.b] : [pair.b, pair.a];
      await pushBodies(one, 'work', [round, round]);
      await pause(one);
      expect(await pop(other, 'work')).toEqual([]);
      expect(await claim(one, 'work', lease)).toEqual([]);
      await pushBodies(other, 'work', [round]);
      expect(await claim(other, 'work', lease, { max: 10, waitMs: 100 })).toEqual([]);
      expect(await queueOf(one, 'work')).toMatchObject({ depth: 3, claimed: 0, paused: true });
      await resume(one);
      expect(bodiesOf(await pop(other, 'work', { max: 2 }))).toEqual([round, round]);
      const last = await claim(one, 'work', lease, { waitMs: 10_000 });
      expect(bodiesOf(last)).toEqual([round]);
      await settleAll(other, 'work', 'ack', lease, last);
      expect(await queueOf(other, 'work')).toMatchObject({ depth: 0, paused: false });
    }
  });

  test('lets claims be extended, given back and acknowledged, and be found by who repeats the request', async () => {
    await using pair = await startPair();
    const lease = await pair.a.createLease({ ttlMs: TTL_MS });
    await pushBodies(pair.a, 'work', [1, 2]);
    const first = await claimOne(pair.a, 'work', lease, { requestId: 'one' });
    const second = await claimOne(pair.b, 'work', lease);
    await pause(pair.b);
    expect(await claimOne(pair.b, 'work', lease, { requestId: 'one' })).toMatchObject({ claimId: first.claimId });
    await settleAll(pair.b, 'work', { op: 'extend', claimMs: 10_000 }, lease, [first]);
    await settleAll(pair.b, 'work', 'ack', lease, [first]);
    await settleAll(pair.a, 'work', 'nack', lease, [second]);
    expect(await claim(pair.a, 'work', lease, { waitMs: 100 })).toEqual([]);
    await resume(pair.a);
    expect(await claim(pair.b, 'work', lease, { waitMs: 10_000 })).toMatchObject([{ id: second.id, deliveries: 2 }]);
  });

  test('wakes, when it is resumed, as many of those who wait as there are messages, in the order of their arrival', async () => {
    await using pair = await startPair();
    await pushBodies(pair.a, 'work', [1, 2, 3]);
    await pause(pair.a);
    const leaves = new AbortController();
    const served: ShownMessage[] = [];
    const waiting = Array.from({ length: 200 }, async (_, i) => {
      const call = { body: { waitMs: 50_000 }, signal: leaves.signal };
      const reply = await (i % 2 ? pair.a : pair.b).call('POST', '/v1/queues/work/pop', call).catch(() => undefined);
      if (reply !== undefined) served.push(...(reply.body as { items: ShownMessage[] }).items);
    });
    for (const replica of [pair.a, pair.b]) await waitingAt(replica, 100);
    await eventually('all are told of', async () => (await queueOf(pair.a, 'work')).consumersWaiting === 200);
    await throughout('nobody is served', () => served.length === 0);
    await resume(pair.b);
    await eventually('three are served', () => served.length === 3);
    await throughout('no other one is', () => served.length === 3);
    expect(bodiesOf(served).sort()).toEqual([1, 2, 3]);
    const woken = await Promise.all([pair.a, pair.b].map((r) => r.metric('postern_wakeups_total', { kind: 'queue' })));
    expect(woken[0]! + woken[1]!).toBe(3);
    leaves.abort();
    await Promise.all(waiting);
  });

  test('gets its delayed messages when they are due, and hands them out when it is resumed', async () => {
    await using pair = await startPair();
    await configure(pair.a, 'work');
    await pause(pair.a);
    await pushBodies(pair.a, 'work', [1], { delayMs: 300 });
    const waiting = pop(pair.b, 'work', { waitMs: 50_000 });
    await eventually('it is due', async () => (await peek(pair.a, 'work'))[0]?.state === 'available');
    await resume(pair.a);
    expect(bodiesOf(await waiting)).toEqual([1]);
  });

  test('stays paused when it is paused again, and when it is configured', async () => {
    await using pair = await startPair();
    await pushBodies(pair.a, 'work', [1]);
    for (const replica of [pair.a, pair.b]) await pause(replica);
    expect((await configure(pair.b, 'work', { maxDepth: 2 })).body).toMatchObject({ paused: true });
    expect(await pair.a.expect(200, 'GET', '/v1/queues')).toMatchObject({ items: [{ name: 'work', paused: true }] });
    expect(await pop(pair.a, 'work')).toEqual([]);
    expect((await push(pair.a, 'work', [{ body: 2 }, { body: 3 }])).status).toBe(429);
    for (const replica of [pair.b, pair.a]) await resume(replica);
    expect((await queueOf(pair.a, 'work')).config).toMatchObject({ maxDepth: 2 });
    expect(bodiesOf(await pop(pair.b, 'work'))).toEqual([1]);
  });

  test('that is deleted and made anew is not paused; one that does not exist cannot be', async () => {
    await using pair = await startPair();
    await configure(pair.a, 'work');
    await pause(pair.a);
    await pair.b.expect(204, 'DELETE', '/v1/queues/work');
    for (const what of ['pause', 'resume']) {
      const refused = await pair.a.call('POST', `/v1/queues/work/${what}`);
      expect(refused.status).toBe(404);
      expect(refused.body).toMatchObject({ code: 'not-found' });
    }
    await pushBodies(pair.a, 'work', [1]);
    expect(bodiesOf(await pop(pair.b, 'work'))).toEqual([1]);
  });
});
