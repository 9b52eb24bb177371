/**
 * Giving messages back, with answers that are lost: a repetition finds out, and nobody is told that it acknowledged
 * what others did (C21).
 */
import { describe, expect, test } from 'vitest';
import { OPCODE } from '../../../../src/zookeeper/operations.js';
import { bodiesOf, claim, configure, peek, pop, pushBodies, queueOf, settle, settleAll } from '../client.js';
import { startPair, startReplica, type Pair, type Replica } from '../../../support/start-gateway.js';
import { freshRoot } from '../../../support/start-zookeeper.js';
import { scaled } from '../../../support/timing.js';
import { soon, startCuttable } from '../../../support/scene.js';

const TTL_MS = 20_000;
/** Of a replica whose ZooKeeper is taken away: it answers by then, and has asked before. */
const settings = { POSTERN_REQUEST_TIMEOUT_MS: String(scaled(3_000)) };

/** How a message can be given back: to its place, with a delay, to the dead letters. */
const WAYS = {
  'to its place': { config: {}, body: {}, queue: 'work', deliveries: 2 },
  'with a delay': { config: {}, body: { delayMs: 50 }, queue: 'work', deliveries: 2 },
  'to the dead letters': {
    config: { maxDeliveries: 1, deadLetterQueue: 'dead' },
    body: {},
    queue: 'dead',
    deliveries: 1,
  },
  'to the dead letters, as it is asked for': {
    config: { maxDeliveries: 9, deadLetterQueue: 'dead' },
    body: { deadLetter: true },
    queue: 'dead',
    deliveries: 1,
  },
};

describe.each(Object.entries(WAYS))('a message that is given back %s', (_, { config, body, queue, deliveries }) => {
  test('is given back once when the answer is lost: the repetition, at another replica, is told so', async () => {
    const root = freshRoot();
    await using b = await startReplica({ root });
    await using cuttable = await startCuttable({ root, settings });
    const { replica: a, proxy } = cuttable;
    await configure(b, 'work', config);
    await configure(b, 'dead');
    await pushBodies(b, 'work', [1]);
    const lease = await b.createLease({ ttlMs: TTL_MS });
    const claims = await claim(b, 'work', lease);
    const claimIds = claims.map(({ claimId }) => claimId);
    const cut = proxy.loseReply(OPCODE.multi).then(() => proxy.refuse());
    const answer = await a.call('POST', '/v1/queues/work/nack', {
      body: { claimIds, ...body },
      leaseToken: lease.leaseToken,
    });
    await cut;
    expect(answer).toMatchObject({ status: 503, body: { code: 'outcome-unknown', retryable: true } });
    // The reply that is lost may be of what is made first, a directory for delayed ones, or the node that remembers
    // what the lease has given back: then it is done now.
    const [found] = await settle(b, 'work', { op: 'nack', ...body }, lease, claims);
    expect(found).toMatchObject('delayMs' in body || queue === 'dead' ? { status: 200 } : { status: 200, gone: true });
    expect(await settle(b, 'work', { op: 'nack', ...body }, lease, claims)).toEqual([
      { claimId: claimIds[0], status: 200, gone: true },
    ]);
    expect(await pop(b, queue, { waitMs: 5_000 })).toMatchObject([{ body: 1, deliveries }]);
    // The message is gone, and nothing has changed for who gave it back.
    expect(await settle(b, 'work', { op: 'nack', ...body }, lease, claims)).toMatchObject([
      { status: 200, gone: true },
    ]);
    expect(await settle(b, 'work', 'ack', lease, claims)).toMatchObject([{ status: 409, code: 'not-holder' }]);
    expect(await queueOf(b, queue)).toMatchObject({ depth: 0, delayed: 0 });
    proxy.accept();
  });

  test('is not acknowledged by who gave it back, when somebody else has done that since (C21)', async () => {
    await using pair = await startPair();
    await configure(pair.a, 'work', config);
    await configure(pair.a, 'dead');
    const [one, two] = [await pair.a.createLease({ ttlMs: TTL_MS }), await pair.b.createLease({ ttlMs: TTL_MS })];
    await pushBodies(pair.a, 'work', [1, 2]);
    const claims = await claim(pair.a, 'work', one, { max: 2 });
    await settleAll(pair.a, 'work', { op: 'nack', ...body }, one, claims.slice(0, 1));
    await settleAll(pair.b, 'work', 'ack', one, claims.slice(1));
    const others = await claim(pair.b, queue, two, { waitMs: 5_000 });
    expect(bodiesOf(others)).toEqual([1]);
    expect(await settle(pair.b, 'work', 'ack', one, claims)).toMatchObject([{ status: 409 }, { gone: true }]);
    await settleAll(pair.a, queue, 'ack', two, others);
    for (const replica of [pair.a, pair.b])
      expect(await settle(replica, 'work', 'ack', one, claims)).toMatchObject([{ status: 409 }, { gone: true }]);
    expect(await settle(pair.a, queue, 'ack', two, others)).toMatchObject([{ status: 200, gone: true }]);
  });
});

test.each(Object.entries(WAYS).slice(1))('%s by two requests at once: both are told that it was', async (_, way) => {
  await using pair = await startPair();
  await configure(pair.a, 'work', way.config);
  await configure(pair.a, 'dead');
  await pushBodies(pair.a, 'work', [1, 2]);
  const lease = await pair.a.createLease({ ttlMs: TTL_MS });
  const claims = await claim(pair.a, 'work', lease, { max: 2 });
  const giveBack = (replica: Replica) => settle(replica, 'work', { op: 'nack', ...way.body }, lease, claims);
  const { control, layout } = pair.a.gateway.context;
  const getData = control.getData.bind(control);
  let other: ReturnType<typeof giveBack> | undefined;
  // The marks were read, and the message is about to be.
  control.getData = async (path, deadline) => {
    if (path.startsWith(layout.queueData('default', '')) && !path.includes('/nacks/'))
      await (other ??= giveBack(pair.b));
    return getData(path, deadline);
  };
  expect(await giveBack(pair.a)).toMatchObject([{ status: 200 }, { status: 200 }]);
  expect(await other).toMatchObject([{ status: 200 }, { status: 200 }]);
  const moved = [await pop(pair.b, way.queue, { waitMs: 5_000 }), await pop(pair.b, way.queue, { waitMs: 5_000 })];
  expect(bodiesOf(moved.flat()).sort()).toEqual([1, 2]);
  expect(await queueOf(pair.b, way.queue)).toMatchObject({ depth: 0, delayed: 0 });
});

async function marks(pair: Pair, leaseId: string): Promise<number | undefined> {
  const { control, layout } = pair.a.gateway.context;
  const { data } = await control.getData(layout.queue('default', 'work'));
  const path = `${layout.queueData('default', (JSON.parse(data.toString('utf8')) as { id: string }).id)}/nacks/${leaseId}`;
  return (await control.exists(path))?.dataLength;
}

test('many at once are given back in their old places, and all of them are known to the repetition', async () => {
  await using pair = await startPair();
  const lease = await pair.a.createLease({ ttlMs: TTL_MS });
  const bodies = Array.from({ length: 500 }, (_, i) => i);
  for (let round = 0; round < 3; round += 1) {
    if (round === 0) await pushBodies(pair.a, 'work', bodies);
    const claims = [];
    while (claims.length < bodies.length) claims.push(...(await claim(pair.a, 'work', lease, { max: 500 })));
    expect(bodiesOf(claims)).toEqual(bodies);
    // Two requests at once write the same node: both are done.
    await Promise.all([
      settleAll(pair.a, 'work', 'nack', lease, claims.slice(0, 250)),
      settleAll(pair.b, 'work', 'nack', lease, claims.slice(250)),
    ]);
    const again = await settle(pair.b, 'work', 'nack', lease, claims);
    expect(again.every(({ status, gone }) => status === 200 && gone === true)).toBe(true);
  }
  // It does not grow for ever, and goes with the lease.
  expect(await marks(pair, lease.leaseId)).toBe(1_024 * 8);
  expect(bodiesOf(await peek(pair.b, 'work'))).toEqual(bodies);
  await pair.a.endLease(lease);
  expect(await marks(pair, lease.leaseId)).toBeUndefined();
});

test('an acknowledgement that was done for some is not called undone when nobody can tell what became of the others', async () => {
  const root = freshRoot();
  await using b = await startReplica({ root });
  await using cuttable = await startCuttable({ root, settings });
  const { replica: a, proxy } = cuttable;
  const lease = await b.createLease({ ttlMs: TTL_MS });
  await pushBodies(a, 'work', [1, 2]);
  const claims = await claim(b, 'work', lease, { max: 2 });
  const claimIds = claims.map(({ claimId }) => claimId);
  await settleAll(b, 'work', 'nack', lease, claims.slice(1));
  await a.gateway.recipes.queue.queues.expect('default', 'work', soon()); // so A knows the queue, and reads nothing else
  // Behind the transaction with the first one: why the second one was lost.
  const cut = proxy.loseReply(OPCODE.getData).then(() => proxy.refuse());
  const options = { body: { claimIds }, leaseToken: lease.leaseToken };
  const answer = await a.call('POST', '/v1/queues/work/ack', options);
  await cut;
  expect(answer).toMatchObject({ status: 503, body: { code: 'outcome-unknown', outcome: 'unknown' } });
  proxy.accept();
  expect(await queueOf(b, 'work')).toMatchObject({ depth: 1 });
  const [first, second] = await settle(a, 'work', 'ack', lease, claims);
  expect(first).toMatchObject({ status: 200, gone: true });
  expect(second).toMatchObject({ status: 409, code: 'not-holder' });
});

test('many are given back in a few requests to ZooKeeper where some of them are to become dead letters', async () => {
  await using pair = await startPair();
  await configure(pair.a, 'work', { maxDeliveries: 2, deadLetterQueue: 'dead' });
  const lease = await pair.a.createLease({ ttlMs: TTL_MS });
  const bodies = Array.from({ length: 300 }, (_, i) => i);
  await pushBodies(pair.a, 'work', bodies);
  await settleAll(pair.a, 'work', 'nack', lease, await claim(pair.a, 'work', lease, { max: 3 }));
  const claims = [];
  while (claims.length < bodies.length) claims.push(...(await claim(pair.a, 'work', lease, { max: 300 })));
  const { control } = pair.b.gateway.context;
  const getData = control.getData.bind(control);
  let reads = 0;
  control.getData = (path, deadline) => {
    reads += 1;
    return getData(path, deadline);
  };
  await settleAll(pair.b, 'work', 'nack', lease, claims);
  expect(reads).toBeLessThan(50);
  expect(bodiesOf(await peek(pair.a, 'work'))).toEqual(bodies.slice(3));
  expect(bodiesOf(await peek(pair.a, 'dead')).sort()).toEqual([0, 1, 2]);
});
