/** Queues with groups: one message of a group at a time, in order, and no group holds another one up. */
import { expect, test } from 'vitest';
import { WINDOW_SEGMENTS } from '../../../../src/recipes/queue/claim/priority-head.js';
import { SEGMENT_MESSAGES } from '../../../../src/recipes/queue/paths.js';
import { eventually } from '../../../support/eventually.js';
import { startPair, startReplica } from '../../../support/start-gateway.js';
import { freshRoot } from '../../../support/start-zookeeper.js';
import {
  bodiesOf,
  claim,
  configure,
  peek,
  pop,
  push,
  pushRaw,
  queueOf,
  settleAll,
  type ClaimedMessage,
} from '../client.js';

const TTL_MS = 60_000;
const GROUPED = { order: 'grouped' };
const WAIT = { waitMs: 20_000 };

/** `a1` belongs to group `a`. */
function inGroups(...bodies: string[]): { body: string; group: string }[] {
  return bodies.map((body) => ({ body, group: body.slice(0, 1) }));
}

test('a group with a claim gives nothing, to claims or pops, at any replica; groups take turns', async () => {
  await using pair = await startPair({ root: freshRoot() });
  const { a, b } = pair;
  const lease = await a.createLease({ ttlMs: TTL_MS });
  await configure(a, 'work', GROUPED);
  await push(a, 'work', inGroups('a1', 'a2', 'a3', 'b1', 'b2', 'c1'));
  const [a1, b1] = (await claim(a, 'work', lease, { max: 2, requestId: 'one' })) as [ClaimedMessage, ClaimedMessage];
  expect([a1, b1]).toMatchObject([
    { body: 'a1', group: 'a' },
    { body: 'b1', group: 'b' },
  ]);
  expect(bodiesOf(await pop(b, 'work', { max: 10 }))).toEqual(['c1']);
  expect(await pop(b, 'work', { max: 10 })).toEqual([]);
  expect(await claim(a, 'work', lease, { max: 10 })).toEqual([]);
  // Found again by its requestId, settled at the other replica.
  expect(await claim(b, 'work', lease, { max: 2, requestId: 'one' })).toMatchObject([a1, b1]);
  const next = claim(a, 'work', lease, { ...WAIT, max: 10 });
  await eventually('it waits', async () => (await queueOf(b, 'work')).consumersWaiting === 1);
  await settleAll(b, 'work', 'ack', lease, [a1]);
  const [a2] = (await next) as [ClaimedMessage];
  expect(a2).toMatchObject({ body: 'a2', deliveries: 1 });
  await settleAll(a, 'work', 'nack', lease, [a2]);
  const [again] = (await claim(b, 'work', lease, { ...WAIT, max: 10 })) as [ClaimedMessage];
  expect(again).toMatchObject({ body: 'a2', deliveries: 2 });
  await settleAll(b, 'work', 'ack', lease, [again, b1]);
  expect(bodiesOf(await pop(b, 'work', { ...WAIT, max: 1 }))).toEqual(['a3']);
  expect(bodiesOf(await pop(a, 'work', { ...WAIT, max: 1 }))).toEqual(['b2']);
  expect(await queueOf(a, 'work')).toMatchObject({ depth: 0 });
});

test('one consumer serves all groups in turn, whatever one of them has', async () => {
  await using replica = await startReplica({ root: freshRoot() });
  const lease = await replica.createLease({ ttlMs: TTL_MS });
  await configure(replica, 'work', GROUPED);
  await push(replica, 'work', inGroups('a1', 'a2', 'a3', 'b1', 'b2', 'c1'));
  const seen: unknown[] = [];
  for (let i = 0; i < 4; i += 1) {
    const claimed = await claim(replica, 'work', lease, WAIT);
    seen.push(...bodiesOf(claimed));
    await settleAll(replica, 'work', 'ack', lease, claimed);
  }
  for (let i = 0; i < 2; i += 1) seen.push(...bodiesOf(await pop(replica, 'work')));
  expect(seen).toEqual(['a1', 'b1', 'c1', 'a2', 'b2', 'a3']);
});

test('the end of a lease brings the same message first, a dead letter the next one, and redriven it keeps its group', async () => {
  await using replica = await startReplica({ root: freshRoot() });
  const [lease, other] = [await replica.createLease({ ttlMs: TTL_MS }), await replica.createLease({ ttlMs: TTL_MS })];
  await configure(replica, 'work', { ...GROUPED, maxDeliveries: 2, deadLetterQueue: 'dead' });
  await push(replica, 'work', inGroups('a1', 'a2'));
  await claim(replica, 'work', lease);
  const next = claim(replica, 'work', other, WAIT);
  await eventually('it waits', async () => (await queueOf(replica, 'work')).consumersWaiting === 1);
  await replica.expect(204, 'DELETE', '/v1/leases/self', { leaseToken: lease.leaseToken });
  const [a1] = (await next) as [ClaimedMessage];
  expect(a1).toMatchObject({ body: 'a1', deliveries: 2 });
  await settleAll(replica, 'work', 'nack', other, [a1]);
  const [a2] = (await claim(replica, 'work', other, { ...WAIT, max: 10 })) as [ClaimedMessage];
  expect(a2).toMatchObject({ body: 'a2', deliveries: 1 });
  await replica.expect(200, 'POST', '/v1/queues/dead/redrive', { body: { to: 'work' } });
  expect(await peek(replica, 'work')).toMatchObject([
    { body: 'a2', state: 'claimed' },
    { body: 'a1', group: 'a' },
  ]);
  expect(await pop(replica, 'work', { max: 10 })).toEqual([]);
  await settleAll(replica, 'work', 'ack', other, [a2]);
  expect(bodiesOf(await pop(replica, 'work', { ...WAIT, max: 10 }))).toEqual(['a1']);
});

test('a group that is stuck, with more than a segment of messages, holds nobody up', async () => {
  await using pair = await startPair({ root: freshRoot() });
  const { a, b } = pair;
  const lease = await a.createLease({ ttlMs: TTL_MS });
  await configure(a, 'work', GROUPED);
  const stuck = Array.from({ length: SEGMENT_MESSAGES }, (_, i) => ({ body: i, group: 'stuck' }));
  for (let i = 0; i < 3; i += 1) await push(a, 'work', stuck);
  await push(a, 'work', inGroups('b1', 'c1', 'b2'));
  // What is far behind may come with a later claim.
  const held: ClaimedMessage[] = [];
  while (held.length < 3) held.push(...(await claim(a, 'work', lease, { ...WAIT, max: 10 })));
  expect(bodiesOf(held)).toEqual([0, 'b1', 'c1']);
  expect(await queueOf(b, 'work')).toMatchObject({ claimed: 3 });
  await settleAll(a, 'work', 'ack', lease, held.slice(1));
  expect(bodiesOf(await pop(b, 'work', { ...WAIT, max: 10 }))).toEqual(['b2']);
  await push(b, 'work', inGroups('d1'));
  expect(bodiesOf(await pop(a, 'work', { ...WAIT, max: 10 }))).toEqual(['d1']);
});

test('beyond the messages that are looked at, nothing is taken, and nobody is kept from the rest', async () => {
  await using replica = await startReplica({ root: freshRoot() });
  const lease = await replica.createLease({ ttlMs: TTL_MS });
  await configure(replica, 'work', GROUPED);
  const stuck = Array.from({ length: SEGMENT_MESSAGES }, (_, i) => ({ body: i, group: 'stuck' }));
  for (let i = 0; i <= WINDOW_SEGMENTS; i += 1) await push(replica, 'work', stuck);
  const held = await claim(replica, 'work', lease);
  const next = claim(replica, 'work', lease, { waitMs: 50_000 });
  await eventually('it waits', async () => (await queueOf(replica, 'work')).consumersWaiting === 1);
  await push(replica, 'work', inGroups('b1', 'b2'));
  await settleAll(replica, 'work', 'ack', lease, held);
  expect(bodiesOf(await next)).toEqual([1]);
});

test('groups where there are none, and none where there are, are refused, and nothing is done', async () => {
  await using replica = await startReplica({ root: freshRoot() });
  const lease = await replica.createLease({ ttlMs: TTL_MS });
  await configure(replica, 'work', GROUPED);
  const refused = async (queue: string, message: Record<string, unknown>, field: string): Promise<void> => {
    const { status, body } = await push(replica, queue, [{ body: 1, ...message }]);
    expect({ status, body }).toMatchObject({ status: 422, body: { errors: [{ field: `messages[0].${field}` }] } });
  };
  await refused('plain', { group: 'a' }, 'group');
  await refused('work', {}, 'group');
  await refused('work', { group: '' }, 'group');
  await refused('work', { group: 'x'.repeat(201) }, 'group');
  await refused('work', { group: 'a', priority: 1 }, 'priority');
  await refused('work', { group: 'a', delayMs: 1 }, 'delayMs');
  await refused('work', { group: 'a', expiresInMs: 1 }, 'expiresInMs');
  expect((await configure(replica, 'work', { ...GROUPED, messageTtlMs: 1 })).body).toMatchObject({
    status: 422,
    field: 'messageTtlMs',
  });
  expect((await pushRaw(replica, 'work', 'raw', 'text/plain')).status).toBe(422);
  expect((await replica.call('GET', '/v1/queues/plain')).status).toBe(404);
  expect((await pushRaw(replica, 'work', 'raw', 'text/plain', { query: '?group=a' })).status).toBe(201);
  const claimed = await claim(replica, 'work', lease);
  expect(claimed).toMatchObject([{ group: 'a' }]);
  const nack = await replica.call('POST', '/v1/queues/work/nack', {
    body: { claimIds: claimed.map(({ claimId }) => claimId), delayMs: 5 },
    leaseToken: lease.leaseToken,
  });
  expect(nack.status).toBe(422);
  await settleAll(replica, 'work', 'ack', lease, claimed);
  expect((await configure(replica, 'work', {})).body).toMatchObject({ name: 'work' });
});
