/** Messages that expire: delivered in time or not at all, and removed soon after, but for what is claimed. */
import { describe, expect, test } from 'vitest';
import { HOUSEKEEPING_TIMING, type HousekeepingTiming } from '../../../../src/recipes/housekeeping/housekeeping.js';
import { QueuePaths, SEGMENT_MESSAGES } from '../../../../src/recipes/queue/paths.js';
import { HOUR } from '../../../../src/time.js';
import { eventually, passed } from '../../../support/eventually.js';
import { startPair, startReplica, type Replica } from '../../../support/start-gateway.js';
import { freshRoot } from '../../../support/start-zookeeper.js';
import { scaled } from '../../../support/timing.js';
import {
  bodiesOf,
  claim,
  configure,
  peek,
  pop,
  push,
  pushBodies,
  pushRaw,
  queueOf,
  settleAll,
  type ClaimedMessage,
} from '../client.js';

const BUSY: HousekeepingTiming = { ...HOUSEKEEPING_TIMING, everyMs: 50 };
const NONE: HousekeepingTiming = { ...HOUSEKEEPING_TIMING, everyMs: HOUR };
const TTL_MS = 60_000;
/** Each of two replicas knows the time to within half a round trip. */
const APART_MS = 100;
/** In which a few requests are answered. */
const SOON_MS = scaled(1_500);

async function untilOver({ expiresAt = '' }: { expiresAt?: string }): Promise<void> {
  await passed(Math.max(0, Date.parse(expiresAt) - Date.now()) + APART_MS); // what it waits for is the passing of time
}

async function segmentsOf({ gateway }: Replica, priority: number): Promise<number> {
  const { control, layout } = gateway.context;
  const [contents = ''] = (await control.getChildren(layout.queueContents('default'))).children;
  const directory = new QueuePaths(layout.queueData('default', contents)).priority(priority);
  return (await control.getChildren(directory)).children.length;
}

test('what has expired is delivered to nobody, and what is behind it is, at each replica and in each priority', async () => {
  await using pair = await startPair({ root: freshRoot(), housekeeping: NONE });
  const { a, b } = pair;
  await configure(a, 'work', { order: 'priority' });
  await push(a, 'work', [
    { body: 'soon over', priority: 1, expiresInMs: 300, messageId: 'once' },
    { body: 'over when due', priority: 1, expiresInMs: 300, delayMs: 200 },
    { body: 'first', priority: 1, expiresInMs: HOUR },
    { body: 'over too', priority: 2, expiresInMs: 1 },
    { body: 'last', priority: 2 },
  ]);
  await pushRaw(a, 'work', 'raw', 'text/plain', { query: '?expiresInMs=300' });
  await eventually('they have expired', async () => {
    const shown = await peek(b, 'work');
    return shown.filter(({ state }) => state === 'expired').length === 4;
  });
  expect(bodiesOf(await pop(b, 'work'))).toEqual(['first']);
  expect(bodiesOf(await pop(a, 'work', { max: 10 }))).toEqual(['last']);
  const waiting = pop(b, 'work', { waitMs: 20_000, max: 10 });
  await eventually('it waits', async () => (await queueOf(a, 'work')).consumersWaiting === 1);
  expect((await push(a, 'work', [{ body: 'again', messageId: 'once' }])).body).toMatchObject({
    items: [{ status: 200 }],
  });
  await pushBodies(a, 'work', ['more']);
  expect(bodiesOf(await waiting)).toEqual(['more']);
  expect(await queueOf(b, 'work')).toMatchObject({ oldestEnqueuedAt: null });
});

test('a claim keeps what expires during it; given back, it is gone, and is counted', async () => {
  await using pair = await startPair({ root: freshRoot(), housekeeping: BUSY });
  const { a, b } = pair;
  const lease = await a.createLease({ ttlMs: TTL_MS });
  await pushBodies(a, 'work', ['kept', 'given back', 'held back', 'timed'], { expiresInMs: SOON_MS });
  const claims = await claim(a, 'work', lease, { max: 3, requestId: 'one' });
  const [kept, back, held] = claims as [ClaimedMessage, ClaimedMessage, ClaimedMessage];
  const [timed] = (await claim(a, 'work', lease, { claimMs: SOON_MS + 1_000 })) as [ClaimedMessage];
  await settleAll(a, 'work', { op: 'nack', delayMs: 1 }, lease, [held]);
  const [again] = (await claim(b, 'work', lease, { waitMs: 20_000 })) as [ClaimedMessage];
  expect(again).toMatchObject({ id: held.id, expiresAt: held.expiresAt, deliveries: 2 });
  await settleAll(a, 'work', { op: 'nack', delayMs: 2 * SOON_MS }, lease, [again]);
  await untilOver(timed);
  expect((await peek(b, 'work')).map(({ state }) => state)).toEqual(['claimed', 'claimed', 'claimed', 'expired']);
  expect(await claim(b, 'work', lease, { max: 3, requestId: 'one' })).toMatchObject([{ id: kept.id }, { id: back.id }]);
  const shown = (await b.expect(200, 'GET', '/v1/leases/self', { leaseToken: lease.leaseToken })) as {
    holds: unknown[];
  };
  expect(shown.holds).toMatchObject([kept, back, timed].map(({ claimId }) => ({ claimId })));
  await settleAll(b, 'work', 'ack', lease, [kept]);
  await settleAll(b, 'work', 'nack', lease, [back]);
  expect(await claim(b, 'work', lease, { waitMs: SOON_MS, max: 10 })).toEqual([]);
  await eventually('nothing is left', async () => {
    const { depth, delayed } = await queueOf(a, 'work');
    return depth + delayed === 0;
  });
  const counts = await Promise.all(
    [a, b].map((replica) => replica.metric('postern_queue_messages_total', { op: 'message_expire' })),
  );
  expect(counts.reduce((sum, count) => sum + count, 0)).toBe(3);
});

test('the shorter of the times of message and queue counts, and what would expire before it is due is refused', async () => {
  await using replica = await startReplica({ root: freshRoot(), housekeeping: NONE });
  await configure(replica, 'work', { messageTtlMs: HOUR });
  await push(replica, 'work', [
    { body: HOUR },
    { body: HOUR / 2, expiresInMs: HOUR / 2 },
    { body: HOUR, expiresInMs: 2 * HOUR },
    { body: HOUR, delayMs: 1_000 },
  ]);
  for (const { body, enqueuedAt, expiresAt = '' } of await peek(replica, 'work')) {
    const early = Number(body) - (Date.parse(expiresAt) - Date.parse(enqueuedAt));
    expect(early).toBeGreaterThan(-APART_MS);
    expect(early).toBeLessThan(scaled(30_000)); // counted from when the push was about to be written
  }
  const refused = await push(replica, 'work', [{ body: 1 }, { body: 2, delayMs: HOUR }]);
  expect(refused).toMatchObject({ status: 422, body: { code: 'invalid', field: 'messages[1].delayMs' } });
  expect(await queueOf(replica, 'work')).toMatchObject({ depth: 3, delayed: 1, config: { messageTtlMs: HOUR } });
});

describe('where the queue keeps what expires', () => {
  test('it is a dead letter that says so, and does not expire there but by the time of that queue', async () => {
    await using pair = await startPair({ root: freshRoot(), housekeeping: BUSY });
    const { a, b } = pair;
    await configure(a, 'work', { deadLetterExpired: true, deadLetterQueue: 'dead', messageTtlMs: 400 });
    await pushBodies(a, 'work', [1]);
    await pushBodies(a, 'work', [2], { delayMs: 200 });
    await eventually('they are there', async () => (await queueOf(b, 'dead')).depth === 2);
    expect(await queueOf(b, 'work')).toMatchObject({ depth: 0, delayed: 0 });
    const letters = await peek(b, 'dead');
    expect(letters.map(({ body }) => Number(body)).sort()).toEqual([1, 2]);
    for (const letter of letters) {
      expect(letter).toMatchObject({
        state: 'available',
        deadLetter: { queue: 'work', cause: 'expired', deliveries: 0 },
      });
      expect(letter).not.toHaveProperty('expiresAt');
    }
    await configure(a, 'work', { messageTtlMs: HOUR });
    await a.expect(200, 'POST', '/v1/queues/dead/redrive', { body: { to: 'work' } });
    const popped = await pop(b, 'work', { max: 10 });
    expect(popped).toHaveLength(2);
    for (const { expiresAt = '' } of popped) expect(Date.parse(expiresAt)).toBeGreaterThan(Date.now() + HOUR / 2);
  });

  test('what was delivered as often as it may be has that cause', async () => {
    await using replica = await startReplica({ root: freshRoot(), housekeeping: BUSY });
    const lease = await replica.createLease({ ttlMs: TTL_MS });
    await configure(replica, 'work', { maxDeliveries: 1, deadLetterQueue: 'dead' });
    await pushBodies(replica, 'work', [1], { expiresInMs: SOON_MS });
    await claim(replica, 'work', lease);
    await replica.expect(204, 'DELETE', '/v1/leases/self', { leaseToken: lease.leaseToken });
    await eventually('it is there', async () => (await peek(replica, 'dead').catch(() => [])).length === 1);
    expect(await peek(replica, 'dead')).toMatchObject([{ deadLetter: { cause: 'claim-ended', deliveries: 1 } }]);
  });
});

test('many that have expired cost a pop no reading, and go with their segments', async () => {
  const root = freshRoot();
  await using replica = await startReplica({ root, housekeeping: NONE });
  const { control } = replica.gateway.context;
  for (let i = 0; i < 5; i += 1)
    await pushBodies(
      replica,
      'work',
      Array.from({ length: SEGMENT_MESSAGES / 2 }, (_, j) => j),
      { expiresInMs: 1 },
    );
  await pushBodies(replica, 'work', ['last']);
  expect(await segmentsOf(replica, 100)).toBe(3);
  let reads = 0;
  const multiRead = control.multiRead.bind(control);
  control.multiRead = (...call) => {
    reads += 1;
    return multiRead(...call);
  };
  expect(bodiesOf(await pop(replica, 'work', { max: 10 }))).toEqual(['last']);
  expect(reads).toBeLessThan(5);
  control.multiRead = multiRead;
  await using housekeeper = await startReplica({ root, housekeeping: BUSY });
  await eventually('all of it is gone', async () => (await queueOf(housekeeper, 'work')).depth === 0);
  await eventually('the segments are', async () => (await segmentsOf(housekeeper, 100)) === 1);
  expect(await housekeeper.metric('postern_queue_messages_total', { op: 'message_expire' })).toBe(
    2.5 * SEGMENT_MESSAGES,
  );
});
