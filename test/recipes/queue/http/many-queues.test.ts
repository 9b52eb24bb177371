/** Claiming from the first of several queues that has messages (C98). */
import { expect, test } from 'vitest';
import type { CallOptions, Client, LeaseHandle, Reply } from '../../../support/http/client.js';
import { eventually, throughout } from '../../../support/eventually.js';
import { startPair, startReplica, type Replica } from '../../../support/start-gateway.js';
import { scaled } from '../../../support/timing.js';
import { claim, configure, pushBodies, queueOf, settleAll, type ClaimedMessage } from '../client.js';

interface Found extends ClaimedMessage {
  queue: string;
}

const TTL_MS = 60_000;
const WAIT_MS = 30_000;
const HIGH_AND_LOW = ['high', 'low'];

function ask(replica: Client, { leaseToken }: LeaseHandle, body: unknown, options: CallOptions = {}): Promise<Reply> {
  return replica.call('POST', '/v1/queues/claim', { ...options, body, leaseToken });
}

async function claimAny(
  replica: Client,
  lease: LeaseHandle,
  queues: readonly string[],
  more: Record<string, unknown> = {},
): Promise<Found[]> {
  const reply = await ask(replica, lease, { queues, ...more });
  expect(reply.status, JSON.stringify(reply.body)).toBeOneOf([200, 204]);
  return (reply.body as { items: Found[] } | undefined)?.items ?? [];
}

function shown(items: readonly Found[]): [string, unknown][] {
  return items.map(({ queue, body }) => [queue, body as unknown]);
}

async function waitingAt(replica: Replica, queue: string, count: number): Promise<void> {
  await eventually(`${count} wait`, async () => (await replica.metric('postern_waiters', { kind: 'queue' })) === count);
  await eventually('the queue says so', async () => (await queueOf(replica, queue)).consumersWaiting === count);
}

test('messages come from the first queue that has some, in the order of the request, and each names its queue', async () => {
  await using pair = await startPair();
  const lease = await pair.a.createLease({ ttlMs: TTL_MS });
  await pushBodies(pair.a, 'low', [1, 2, 3]);
  await pushBodies(pair.b, 'high', ['a', 'b']);
  const queues = ['none', 'high', 'low'];
  const first = await claimAny(pair.b, lease, queues);
  expect(shown(first)).toEqual([['high', 'a']]);
  const second = await claimAny(pair.a, lease, queues, { max: 10 });
  expect(shown(second)).toEqual([['high', 'b']]);
  expect(shown(await claimAny(pair.a, lease, queues, { max: 2 }))).toEqual([
    ['low', 1],
    ['low', 2],
  ]);
  // What was pushed before the request is seen, at whichever replica.
  await pushBodies(pair.b, 'high', ['c']);
  expect(shown(await claimAny(pair.a, lease, queues, { max: 10 }))).toEqual([['high', 'c']]);
  await pair.a.expect(204, 'POST', '/v1/queues/high/pause');
  await settleAll(pair.b, 'high', 'nack', lease, first);
  expect(shown(await claimAny(pair.b, lease, queues))).toEqual([['low', 3]]);
  await pair.a.expect(204, 'POST', '/v1/queues/high/resume');
  expect(shown(await claimAny(pair.b, lease, queues))).toEqual([['high', 'a']]);
  expect(await claimAny(pair.b, lease, queues)).toEqual([]);
  expect(await pair.a.metric('postern_queue_messages_total', { op: 'claim' })).toBe(4);
});

test('a request that is repeated finds the same claims, in whichever queue they are, at another replica too', async () => {
  await using pair = await startPair();
  const lease = await pair.a.createLease({ ttlMs: TTL_MS });
  await pushBodies(pair.a, 'low', [1, 2]);
  const more = { requestId: 'again', max: 2 };
  const found = await claimAny(pair.a, lease, HIGH_AND_LOW, more);
  expect(shown(found)).toHaveLength(2);
  await pushBodies(pair.a, 'high', ['a']);
  expect(await claimAny(pair.b, lease, HIGH_AND_LOW, more)).toEqual(found);
  expect(await claim(pair.b, 'low', lease, more)).toMatchObject(found.map(({ claimId }) => ({ claimId })));
  await settleAll(pair.b, 'low', 'ack', lease, found);
  expect(shown(await claimAny(pair.b, lease, HIGH_AND_LOW, more))).toEqual([['high', 'a']]);
});

test('one that waits is served by whichever gets a message, also one that is only made then, and by one of them', async () => {
  await using pair = await startPair();
  const lease = await pair.a.createLease({ ttlMs: TTL_MS });
  await configure(pair.a, 'high');
  for (const queue of ['low', 'high']) {
    const queues = ['never', ...HIGH_AND_LOW];
    const answer = claimAny(pair.a, lease, queues, { waitMs: WAIT_MS });
    await waitingAt(pair.a, 'high', 1);
    await pushBodies(pair.b, queue, [queue]);
    const items = await answer;
    expect(shown(items)).toEqual([[queue, queue]]);
    await settleAll(pair.b, queue, 'ack', lease, items);
  }
  // Both at once: one for it, and the other is for the next.
  const answer = claimAny(pair.a, lease, HIGH_AND_LOW, { waitMs: WAIT_MS });
  await waitingAt(pair.a, 'low', 1);
  await Promise.all([pushBodies(pair.a, 'high', ['one']), pushBodies(pair.a, 'low', ['one'])]);
  const [{ queue } = { queue: '' }] = await answer;
  const other = queue === 'high' ? 'low' : 'high';
  expect(await queueOf(pair.a, queue)).toMatchObject({ depth: 1, claimed: 1 });
  expect(await queueOf(pair.a, other)).toMatchObject({ depth: 1, claimed: 0 });
  expect(shown(await claimAny(pair.b, lease, HIGH_AND_LOW))).toEqual([[other, 'one']]);
  expect(await pair.a.metric('postern_waiters', { kind: 'queue' })).toBe(0);
});

test(
  'of many that wait at two queues a push serves one, and the others wait on',
  { timeout: scaled(60_000) },
  async () => {
    await using replica = await startReplica();
    const lease = await replica.createLease({ ttlMs: TTL_MS });
    for (const queue of HIGH_AND_LOW) await configure(replica, queue);
    const leaves = new AbortController();
    const served: string[] = [];
    const waiting = Array.from({ length: 50 }, async () => {
      const body = { queues: HIGH_AND_LOW, waitMs: WAIT_MS };
      const reply = await ask(replica, lease, body, { signal: leaves.signal }).catch(() => undefined);
      if (reply !== undefined) served.push(...(reply.body as { items: Found[] }).items.map(({ queue }) => queue));
    });
    await waitingAt(replica, 'low', 50);
    const woken = await replica.metric('postern_wakeups_total', { kind: 'queue' });
    for (const [i, queue] of ['low', 'high', 'low'].entries()) {
      await pushBodies(replica, queue, [i]);
      await eventually('one is served', () => served.length === i + 1);
      await throughout('no other one is', () => served.length === i + 1);
      expect(served.at(-1)).toBe(queue);
      expect((await replica.metric('postern_wakeups_total', { kind: 'queue' })) - woken).toBe(i + 1);
      await eventually('the others wait', async () => {
        return (await replica.metric('postern_waiters', { kind: 'queue' })) === 50 - i - 1;
      });
    }
    leaves.abort();
    await Promise.all(waiting);
    // Nothing is taken for those who have left.
    await eventually('nobody waits', async () => (await replica.metric('postern_waiters', { kind: 'queue' })) === 0);
    await pushBodies(replica, 'high', ['later']);
    expect(await queueOf(replica, 'high')).toMatchObject({ depth: 2, claimed: 1 });
  },
);

test('a wait ends with 204 when its time is over, and goes on at a queue that is deleted and made anew', async () => {
  await using pair = await startPair();
  const lease = await pair.a.createLease({ ttlMs: TTL_MS });
  await configure(pair.a, 'high');
  for (const queues of [['none', 'neither'], HIGH_AND_LOW]) {
    const begun = performance.now();
    expect((await ask(pair.a, lease, { queues, waitMs: 400 })).status).toBe(204);
    expect(performance.now() - begun).toBeGreaterThanOrEqual(399);
    expect(performance.now() - begun).toBeLessThan(400 + scaled(1_000));
  }
  const answer = claimAny(pair.a, lease, HIGH_AND_LOW, { waitMs: WAIT_MS });
  await waitingAt(pair.a, 'high', 1);
  await pair.b.expect(204, 'DELETE', '/v1/queues/high?force=true');
  await pushBodies(pair.b, 'high', ['new']);
  expect(shown(await answer)).toEqual([['high', 'new']]);
});

test('a wait ends with the lease, and claims nothing then', async () => {
  await using pair = await startPair();
  const lease = await pair.a.createLease({ ttlMs: TTL_MS });
  await configure(pair.a, 'high');
  const answer = ask(pair.a, lease, { queues: HIGH_AND_LOW, waitMs: WAIT_MS });
  await waitingAt(pair.a, 'high', 1);
  await pair.b.endLease(lease);
  expect((await answer).status).toBe(410);
  await pushBodies(pair.b, 'high', [1]);
  expect(await queueOf(pair.a, 'high')).toMatchObject({ depth: 1, claimed: 0 });
});

test.each([
  [{ queues: [] }, 'queues'],
  [{ queues: ['high', 'low', 'high'] }, 'queues'],
  [{ queues: Array.from({ length: 17 }, (_, i) => `q${i}`) }, 'queues'],
  [{ queues: ['high', 'a/b'] }, 'queues[1]'],
  [{}, 'queues'],
  [{ queues: ['high'], max: 0 }, 'max'],
  [{ queues: ['high', 'low'], claimMs: 2_000 }, 'claimMs'],
])('%j is refused with 422 that names the field, and nothing is claimed', async (body, field) => {
  await using replica = await startReplica();
  const lease = await replica.createLease({ ttlMs: TTL_MS });
  await configure(replica, 'low', { maxClaimMs: 1_000 });
  await pushBodies(replica, 'high', [1]);
  const reply = await ask(replica, lease, body);
  expect(reply).toMatchObject({ status: 422, body: { code: 'invalid', field, outcome: 'not-applied' } });
  expect(await queueOf(replica, 'high')).toMatchObject({ claimed: 0 });
});

test('a queue may have that name', async () => {
  await using replica = await startReplica();
  await pushBodies(replica, 'claim', [1]);
  expect(await queueOf(replica, 'claim')).toMatchObject({ name: 'claim', depth: 1 });
});
