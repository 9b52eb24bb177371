/** One message, by its id: shown and removed. */
import { expect, test } from 'vitest';
import { startPair, type Pair } from '../../../support/start-gateway.js';
import type { Reply } from '../../../support/http/client.js';
import { claimOne } from '../claims.js';
import { bodiesOf, claim, configure, peek, pop, pushBodies, queueOf, settleAll, type PushedItem } from '../client.js';

type Replica = Pair['a'];

const TTL_MS = 20_000;

const call = (replica: Replica, method: 'GET' | 'DELETE', id: string, query = ''): Promise<Reply> =>
  replica.call(method, `/v1/queues/work/messages/${id}${query}`);

async function pushed(replica: Replica, bodies: readonly unknown[], more = {}): Promise<string[]> {
  return (await pushBodies(replica, 'work', bodies, more)).map(({ id }: PushedItem) => id);
}

test('a message is shown as it is: available, delayed, claimed by whom until when, or a dead letter', async () => {
  await using pair = await startPair();
  const lease = await pair.a.createLease({ ttlMs: TTL_MS });
  await configure(pair.a, 'orders', { maxDeliveries: 1, deadLetterQueue: 'work' });
  const [first = '', second = ''] = await pushed(pair.a, [1, 2]);
  const [late = ''] = await pushed(pair.a, [3], { delayMs: 60_000 });
  const held = await claimOne(pair.b, 'work', lease, { claimMs: 30_000 });
  const of = async (id: string): Promise<unknown> => (await call(pair.b, 'GET', id)).body;
  expect(await of(first)).toMatchObject({
    body: 1,
    state: 'claimed',
    deliveries: 1,
    claimedBy: lease.leaseId,
    claimedUntil: held.claimedUntil,
  });
  expect(await of(second)).toMatchObject({ id: second, body: 2, state: 'available', deliveries: 0 });
  expect(await of(late)).toMatchObject({ body: 3, state: 'delayed', dueAt: expect.any(String) as string });
  await pushBodies(pair.a, 'orders', ['dead']);
  await settleAll(pair.b, 'orders', 'nack', lease, [await claimOne(pair.a, 'orders', lease)]);
  const dead = (await peek(pair.a, 'work')).find(({ body }) => body === 'dead');
  expect(await of(dead?.id ?? '')).toMatchObject({
    state: 'available',
    deadLetter: { queue: 'orders', cause: 'nack' },
  });
});

test('one that nobody has claimed is removed, once, also a delayed one and one that was delivered before', async () => {
  await using pair = await startPair();
  const lease = await pair.a.createLease({ ttlMs: TTL_MS });
  const [again = '', fresh = '', kept = ''] = await pushed(pair.a, ['again', 'fresh', 'kept']);
  const [late = ''] = await pushed(pair.a, ['late'], { delayMs: 60_000 });
  await settleAll(pair.b, 'work', 'nack', lease, [await claimOne(pair.b, 'work', lease)]);
  for (const id of [again, fresh, late]) {
    expect((await call(pair.b, 'DELETE', id)).status).toBe(204);
    for (const method of ['GET', 'DELETE'] as const) {
      const gone = await call(pair.a, method, id);
      expect(gone.status).toBe(404);
      expect(gone.body).toMatchObject({ code: 'not-found' });
      expect(gone.body).not.toHaveProperty('nextPageToken');
    }
  }
  expect(await queueOf(pair.a, 'work')).toMatchObject({ depth: 1, delayed: 0 });
  expect(await pop(pair.b, 'work', { max: 5 })).toMatchObject([{ id: kept, body: 'kept' }]);
});

test('one that is claimed stays with its consumer: 409, which says whose it is', async () => {
  await using pair = await startPair();
  const lease = await pair.a.createLease({ ttlMs: TTL_MS });
  const [id = ''] = await pushed(pair.a, [1]);
  const held = await claimOne(pair.a, 'work', lease, { claimMs: 15_000 });
  const refused = await call(pair.b, 'DELETE', id);
  expect(refused.status).toBe(409);
  expect(refused.body).toMatchObject({
    code: 'conflict',
    retryable: false,
    id,
    claimedBy: lease.leaseId,
    claimedUntil: held.claimedUntil,
  });
  await settleAll(pair.a, 'work', 'ack', lease, [held]);
  expect((await call(pair.b, 'DELETE', id)).status).toBe(404);
});

test('a consumer and a removal that want a message at once: one of them gets it', async () => {
  await using pair = await startPair();
  const lease = await pair.a.createLease({ ttlMs: TTL_MS });
  for (let round = 0; round < 10; round += 1) {
    const [id = ''] = await pushed(pair.a, [round]);
    const [claimed, removed] = await Promise.all([claim(pair.a, 'work', lease), call(pair.b, 'DELETE', id)]);
    expect([claimed.length, removed.status]).toEqual(removed.status === 204 ? [0, 204] : [1, 409]);
    await (claimed.length > 0 ? settleAll(pair.b, 'work', 'ack', lease, claimed) : Promise.resolve());
    expect(await queueOf(pair.b, 'work')).toMatchObject({ depth: 0, claimed: 0 });
  }
});

test('it is looked for among a bounded number of messages, and the 404 says where to go on', async () => {
  await using pair = await startPair();
  // Ten pages of a mebibyte each are looked at by one request: four of these a page.
  const large = 'x'.repeat(250_000);
  for (let i = 0; i < 14; i += 1) await pushed(pair.a, [large, large, large]);
  const [id = ''] = await pushed(pair.a, ['last']);
  const partly = await call(pair.b, 'GET', id);
  expect(partly.status).toBe(404);
  const { nextPageToken } = partly.body as { nextPageToken: string };
  const found = await call(pair.a, 'GET', id, `?pageToken=${nextPageToken}`);
  expect(found.body).toMatchObject({ id, body: 'last' });
  expect((await call(pair.a, 'DELETE', id)).body).toMatchObject({ code: 'not-found', nextPageToken });
  expect((await call(pair.a, 'DELETE', id, `?pageToken=${nextPageToken}`)).status).toBe(204);
  expect(bodiesOf(await peek(pair.a, 'work'))).toHaveLength(42);
});

test('of an id, a queue or a page token that means nothing, the answer says which', async () => {
  await using pair = await startPair();
  await configure(pair.a, 'work');
  const none = await pair.a.call('GET', '/v1/queues/none/messages/x');
  expect([none.status, none.body.detail]).toEqual([404, expect.stringContaining('queue "none"')]);
  for (const [id, query, field] of [
    ['a.b', '', 'id'],
    ['a', '?pageToken=nonsense', 'pageToken'],
  ] as const) {
    const refused = await call(pair.a, 'DELETE', id, query);
    expect([refused.status, refused.body.field]).toEqual([422, field]);
  }
});
