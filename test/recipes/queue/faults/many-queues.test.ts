/** Claims from several queues while replicas, connections and clients are lost: none is lost, none is made twice. */
import { expect, test } from 'vitest';
import { claimFromFirst } from '../../../../src/recipes/queue/claim/first-of-many.js';
import type { Consumed } from '../../../../src/recipes/queue/claim/consume.js';
import type { Client, LeaseHandle } from '../../../support/http/client.js';
import { eventually } from '../../../support/eventually.js';
import { PRESENT, soon } from '../../../support/scene.js';
import { spawnReplica, startPair, startReplica, type Replica } from '../../../support/start-gateway.js';
import { freshRoot } from '../../../support/start-zookeeper.js';
import { opened } from '../claims.js';
import { configure, pushBodies, queueOf, type ClaimedMessage } from '../client.js';

const TTL_MS = 60_000;
const QUEUES = ['high', 'low'];

interface Found extends ClaimedMessage {
  queue: string;
}

async function claimAny(replica: Client, { leaseToken }: LeaseHandle, more: Record<string, unknown>): Promise<Found[]> {
  const body = { queues: QUEUES, ...more };
  const answer = await replica.expect([200, 204], 'POST', '/v1/queues/claim', { body, leaseToken });
  return (answer as { items: Found[] } | undefined)?.items ?? [];
}

async function unanswered(replica: Replica, lease: LeaseHandle, requestId: string): Promise<Consumed> {
  return claimFromFirst(replica.gateway.context, replica.gateway.recipes.queue.queues, {
    namespace: 'default',
    names: QUEUES,
    max: 1,
    claim: { lease: await opened(replica, lease), requestId, claimMs: undefined },
    waitMs: 0,
    receivedAt: performance.now(),
    hardDeadline: soon(),
    caller: PRESENT,
    reserve: () => undefined,
  });
}

test('a replica is killed during the wait: the request is repeated at another one, and gets what is pushed', async () => {
  const root = freshRoot();
  await using b = await startReplica({ root });
  await using a = await spawnReplica({ root, controlSessionTimeoutMs: 2_000 });
  const lease = await b.createLease({ ttlMs: TTL_MS });
  for (const queue of QUEUES) await configure(b, queue);
  const more = { requestId: 'one', waitMs: 40_000 };
  const lost = claimAny(a, lease, more).catch(() => 'lost');
  for (const queue of QUEUES)
    await eventually('it waits', async () => (await queueOf(b, queue)).consumersWaiting === 1);
  await a.kill();
  expect(await lost).toBe('lost');
  const answer = claimAny(b, lease, more);
  await pushBodies(b, 'low', [1]);
  expect(await answer).toMatchObject([{ queue: 'low', body: 1, deliveries: 1 }]);
  expect(await queueOf(b, 'low')).toMatchObject({ depth: 1, claimed: 1 });
});

test('an answer is lost: repeated at another replica, the request finds its claims, which then stay', async () => {
  await using pair = await startPair();
  const lease = await pair.a.createLease({ ttlMs: TTL_MS });
  await pushBodies(pair.a, 'low', [1, 2]);
  const first = await unanswered(pair.a, lease, 'one');
  await pushBodies(pair.a, 'high', ['a']);
  expect(await claimAny(pair.b, lease, { requestId: 'one' })).toMatchObject([{ queue: 'low', body: 1 }]);
  first.undelivered();
  // Behind what that would do.
  const second = await unanswered(pair.a, lease, 'two');
  second.undelivered();
  await eventually('the second is taken back', async () => (await queueOf(pair.b, 'high')).claimed === 0);
  expect(await claimAny(pair.b, lease, { requestId: 'one' })).toMatchObject([{ queue: 'low', body: 1, deliveries: 1 }]);
});

test('a client that is gone keeps nothing: what was claimed for it is there for the next, from its queue', async () => {
  await using pair = await startPair();
  const lease = await pair.a.createLease({ ttlMs: TTL_MS });
  await pushBodies(pair.a, 'low', [1]);
  const claimed = await unanswered(pair.a, lease, '');
  expect(claimed.items).toMatchObject([{ queue: 'low' }]);
  expect(await queueOf(pair.b, 'low')).toMatchObject({ claimed: 1 });
  claimed.undelivered();
  expect(await claimAny(pair.b, lease, { waitMs: 20_000 })).toMatchObject([{ queue: 'low', body: 1, deliveries: 2 }]);
});

test('a client goes away while it waits at two queues, as messages come to both: none stays claimed', async () => {
  await using pair = await startPair();
  const lease = await pair.a.createLease({ ttlMs: TTL_MS });
  for (const queue of QUEUES) await configure(pair.a, queue);
  for (let i = 0; i < 10; i += 1) {
    const leaves = new AbortController();
    const body = { queues: QUEUES, waitMs: 20_000 };
    const { leaseToken } = lease;
    const answer = pair.a
      .call('POST', '/v1/queues/claim', { body, leaseToken, signal: leaves.signal })
      .then(({ body: { items } }) => items as Found[])
      .catch(() => []);
    await eventually('it waits', async () => (await pair.a.metric('postern_waiters', { kind: 'queue' })) === 1);
    const pushes = QUEUES.map((queue) => pushBodies(pair.b, queue, [i]));
    if (i % 2 === 0) leaves.abort();
    await Promise.all(pushes);
    leaves.abort();
    for (const { queue, claimId } of await answer)
      await pair.a.expect(200, 'POST', `/v1/queues/${queue}/nack`, { body: { claimIds: [claimId] }, leaseToken });
    for (const queue of QUEUES) {
      await eventually('nothing is claimed', async () => (await queueOf(pair.b, queue)).claimed === 0);
      await pair.b.expect(200, 'POST', `/v1/queues/${queue}/pop`, { body: { max: 1 } });
      expect(await queueOf(pair.b, queue)).toMatchObject({ depth: 0 });
    }
  }
});
