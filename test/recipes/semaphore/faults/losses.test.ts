/** Semaphores while replicas die and connections are lost: no permit is given twice, and none is lost. */
import { expect, test } from 'vitest';
import type { Client, LeaseHandle, Reply } from '../../../support/http/client.js';
import { eventually } from '../../../support/eventually.js';
import { spawnReplica, startPair, startReplica } from '../../../support/start-gateway.js';
import { freshRoot } from '../../../support/start-zookeeper.js';
import { scaled } from '../../../support/timing.js';
import { keptAlive, startCuttable } from '../../../support/scene.js';
import { OPCODE } from '../../../../src/zookeeper/operations.js';

const TTL_MS = 30_000;

function acquire(replica: Client, lease: LeaseHandle, body: Record<string, unknown>): Promise<Reply> {
  return replica.call('POST', '/v1/semaphores/pool/acquire', { body, leaseToken: lease.leaseToken });
}

function release(replica: Client, lease: LeaseHandle): Promise<Reply> {
  return replica.call('POST', '/v1/semaphores/pool/release', { body: {}, leaseToken: lease.leaseToken });
}

async function show(replica: Client): Promise<{ permitsHeld: number; waiterCount: number }> {
  return (await replica.expect(200, 'GET', '/v1/semaphores/pool')) as { permitsHeld: number; waiterCount: number };
}

async function untilWaiting(replica: Client, count: number): Promise<void> {
  await eventually(`${count} wait`, async () => (await show(replica)).waiterCount === count);
}

test('permits and places outlive a replica that is killed, in their order', { timeout: scaled(60_000) }, async () => {
  const root = freshRoot();
  await using doomed = await spawnReplica({ root });
  await using other = await startReplica({ root });
  const [holder, one, two] = (await Promise.all([1, 2, 3].map(() => other.createLease({ ttlMs: TTL_MS })))) as [
    LeaseHandle,
    LeaseHandle,
    LeaseHandle,
  ];
  expect((await acquire(doomed, holder, { limit: 2, count: 2 })).status).toBe(200);
  const cutOff = acquire(doomed, one, { limit: 2, waitMs: 30_000 });
  await untilWaiting(other, 1);
  const behind = acquire(other, two, { limit: 2, count: 2, waitMs: 30_000 });
  await untilWaiting(other, 2);
  const failure = Promise.allSettled([cutOff]);
  await doomed.kill();
  expect((await failure).map(({ status }) => status)).toEqual(['rejected']);
  expect(await show(other)).toEqual(expect.objectContaining({ permitsHeld: 2, waiterCount: 2 }));
  const repeated = acquire(other, one, { limit: 2, waitMs: 30_000 });
  expect((await release(other, holder)).status).toBe(204);
  expect((await repeated).status).toBe(200);
  expect(await show(other)).toEqual(expect.objectContaining({ permitsHeld: 1, waiterCount: 1 }));
  await release(other, one);
  expect((await behind).status).toBe(200);
});

test(
  'a place that nobody asks for any more is removed by those who wait behind it (C3)',
  { timeout: scaled(60_000) },
  async () => {
    await using pair = await startPair();
    const [holder, kept, behind] = (await Promise.all(
      [1, 2, 3].map(() => pair.a.createLease({ ttlMs: 2 * TTL_MS })),
    )) as [LeaseHandle, LeaseHandle, LeaseHandle];
    await acquire(pair.a, holder, { limit: 1 });
    expect((await acquire(pair.a, kept, { limit: 1, keepPlace: true })).status).toBe(202);
    const waiting = acquire(pair.b, behind, { limit: 1, waitMs: 40_000 });
    await untilWaiting(pair.a, 2);
    await release(pair.a, holder);
    expect((await waiting).status).toBe(200);
    expect((await pair.b.heartbeat(kept)).status).toBe(200);
  },
);

test('a draining replica hands its waiters over with their places', { timeout: scaled(60_000) }, async () => {
  await using pair = await startPair();
  const [holder, one, two] = (await Promise.all([1, 2, 3].map(() => pair.b.createLease({ ttlMs: TTL_MS })))) as [
    LeaseHandle,
    LeaseHandle,
    LeaseHandle,
  ];
  await acquire(pair.b, holder, { limit: 1 });
  const keeping = acquire(pair.a, one, { limit: 1, waitMs: 30_000, keepPlace: true });
  await untilWaiting(pair.b, 1);
  const waiting = acquire(pair.a, two, { limit: 1, waitMs: 30_000 });
  await untilWaiting(pair.b, 2);
  const stopped = pair.a.gateway.stop();
  expect((await keeping).body).toMatchObject({ held: false, position: 1 });
  expect((await waiting).body).toMatchObject({ code: 'draining' });
  await stopped;
  const again = [one, two].map((lease) => acquire(pair.b, lease, { limit: 1, waitMs: 30_000 }));
  await release(pair.b, holder);
  expect((await again[0])?.status).toBe(200);
  expect(await show(pair.b)).toEqual(expect.objectContaining({ permitsHeld: 1, waiterCount: 1 }));
  await release(pair.b, one);
  expect((await again[1])?.status).toBe(200);
});

test(
  'requests go on waiting when the control session is replaced, and miss no release and no change of the limit (T4)',
  { timeout: scaled(60_000) },
  async () => {
    const root = freshRoot();
    await using cuttable = await startCuttable({ root, controlSessionTimeoutMs: 2_000 });
    await using b = await startReplica({ root });
    const { replica: a, proxy } = cuttable;
    const leases = await Promise.all([0, 1, 2, 3, 4].map(() => b.createLease({ ttlMs: 8_000 })));
    const [first, second, third, fourth, fifth] = leases as [
      LeaseHandle,
      LeaseHandle,
      LeaseHandle,
      LeaseHandle,
      LeaseHandle,
    ];
    await using _alive = keptAlive(b, leases, 8_000);
    for (const lease of [first, second]) expect((await acquire(b, lease, { limit: 2 })).status).toBe(200);
    const waits: Promise<Reply>[] = [];
    for (const lease of [third, fourth, fifth]) {
      waits.push(acquire(a, lease, { limit: 2, waitMs: 40_000 }));
      await untilWaiting(b, waits.length);
    }
    await eventually('all wait at A', async () => (await a.metric('postern_waiters')) === 3);
    const { control } = a.gateway.context;
    const session = control.sessionId;
    proxy.suspend();
    await release(b, first); // nobody tells A
    await b.expect(200, 'PUT', '/v1/semaphores/pool', { body: { limit: 3 } });
    await eventually('the session is given up', () => control.sessionId !== session);
    proxy.heal();
    expect((await waits[0])?.status).toBe(200);
    expect((await waits[1])?.status).toBe(200);
    expect(await show(b)).toEqual(expect.objectContaining({ permitsHeld: 3, waiterCount: 1 }));
    await release(b, second);
    expect((await waits[2])?.status).toBe(200);
  },
);

test('a request whose turn comes while the connection is lost keeps its place, and is granted', async () => {
  const root = freshRoot();
  await using cuttable = await startCuttable({ root });
  await using b = await startReplica({ root });
  const { replica: a, proxy } = cuttable;
  const [first, second, me] = (await Promise.all([1, 2, 3].map(() => b.createLease({ ttlMs: TTL_MS })))) as [
    LeaseHandle,
    LeaseHandle,
    LeaseHandle,
  ];
  for (const lease of [first, second]) expect((await acquire(b, lease, { limit: 2 })).status).toBe(200);
  // From now on a grant looks at those who hold under the old limit.
  await b.expect(200, 'PUT', '/v1/semaphores/pool', { body: { limit: 1 } });
  const waiting = acquire(a, me, { limit: 1, waitMs: 30_000 });
  await untilWaiting(b, 1);
  await release(b, first);
  const lost = proxy.loseReply(OPCODE.multiRead);
  await release(b, second);
  await lost;
  expect((await waiting).status).toBe(200);
});
