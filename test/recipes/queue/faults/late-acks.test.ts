/** Acknowledgements travel with other requests' writes, and not on the session of their lease. */
import { expect, test } from 'vitest';
import { bodiesOf, claim, configure, pushBodies, queueOf, settle, settleAll } from '../client.js';
import { eventually } from '../../../support/eventually.js';
import { startCuttable } from '../../../support/scene.js';
import { startPair, startReplica } from '../../../support/start-gateway.js';
import { freshRoot } from '../../../support/start-zookeeper.js';

const TTL_MS = 20_000;

test('an acknowledgement that ZooKeeper hears of late does nothing to a message that was claimed anew since (C20)', async () => {
  const root = freshRoot();
  await using cuttable = await startCuttable({ root });
  await using b = await startReplica({ root });
  const { replica: a, proxy } = cuttable;
  await configure(b, 'work');
  await pushBodies(b, 'work', [1]);
  const [one, two] = [await a.createLease({ ttlMs: TTL_MS }), await b.createLease({ ttlMs: TTL_MS })];
  const claims = await claim(a, 'work', one);
  const gone = new AbortController();
  proxy.suspend(); // what A sends from here on arrives later
  const left = a
    .call('POST', '/v1/queues/work/ack', {
      body: { claimIds: claims.map(({ claimId }) => claimId) },
      leaseToken: one.leaseToken,
      signal: gone.signal,
    })
    .catch(() => 'left');
  await eventually('A has sent it, which takes more than pings', () => proxy.heldBytes('toZooKeeper') > 100);
  gone.abort();
  expect(await left).toBe('left');
  expect((await b.endLease(one)).status).toBe(204);
  const others = await claim(b, 'work', two, { waitMs: 30_000 });
  expect(bodiesOf(others)).toEqual([1]);
  proxy.heal();
  await a.createLease({ ttlMs: TTL_MS }); // behind it
  expect(await queueOf(a, 'work')).toMatchObject({ depth: 1, claimed: 1 });
  expect(await settle(b, 'work', 'ack', two, others)).toMatchObject([{ status: 200 }]);
  expect(await queueOf(b, 'work')).toMatchObject({ depth: 0 });
});

test.each(['prolonged', 'answered to a repeated request'])(
  'an acknowledgement that was given up, and that ZooKeeper hears of late, does nothing to a claim that was %s since (C35)',
  async (how) => {
    const root = freshRoot();
    await using cuttable = await startCuttable({ root });
    await using b = await startReplica({ root });
    const { replica: a, proxy } = cuttable;
    await configure(b, 'work');
    await pushBodies(b, 'work', [1]);
    const lease = await a.createLease({ ttlMs: TTL_MS });
    const terms = { requestId: 'once', claimMs: TTL_MS };
    const claims = await claim(a, 'work', lease, terms);
    const gone = new AbortController();
    proxy.suspend(); // what A sends from here on arrives later
    const left = a
      .call('POST', '/v1/queues/work/ack', {
        body: { claimIds: claims.map(({ claimId }) => claimId) },
        leaseToken: lease.leaseToken,
        signal: gone.signal,
      })
      .catch(() => 'left');
    await eventually('A has sent it, which takes more than pings', () => proxy.heldBytes('toZooKeeper') > 100);
    gone.abort();
    expect(await left).toBe('left');
    if (how === 'prolonged')
      expect(await settle(b, 'work', { op: 'extend', claimMs: TTL_MS }, lease, claims)).toMatchObject([
        { status: 200 },
      ]);
    else expect(await claim(b, 'work', lease, terms)).toMatchObject(claims.map(({ claimId }) => ({ claimId })));
    proxy.heal();
    await a.createLease({ ttlMs: TTL_MS }); // behind it
    expect(await queueOf(a, 'work')).toMatchObject({ depth: 1, claimed: 1 });
    expect(await settle(b, 'work', 'ack', lease, claims)).toMatchObject([{ status: 200 }]);
    expect(await queueOf(b, 'work')).toMatchObject({ depth: 0 });
  },
);

test('an acknowledgement leaves the session of its lease with the replica that uses it', async () => {
  await using pair = await startPair();
  const { a, b } = pair;
  await configure(a, 'work');
  await pushBodies(a, 'work', [1, 2]);
  const lease = await a.createLease({ ttlMs: TTL_MS });
  await settleAll(b, 'work', 'ack', lease, await claim(a, 'work', lease, { max: 2 }));
  expect(await queueOf(a, 'work')).toMatchObject({ depth: 0 });
  expect(await b.metric('postern_leases_attached')).toBe(0);
  expect(await a.metric('postern_leases_attached')).toBe(1);
});
