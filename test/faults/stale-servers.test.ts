/** Servers that are behind, and servers that disagree about who has a lease's connection. */
import { isDeepStrictEqual } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { eventually, throughout } from '../support/eventually.js';
import { startReplica, type Replica } from '../support/start-gateway.js';
import { freshRoot, startEnsemble, type TestEnsemble, type ZooKeeperNode } from '../support/start-zookeeper.js';
import type { TcpProxy } from '../support/zookeeper/tcp-proxy.js';
import { scaled, timing } from '../support/timing.js';
import { Resource, rounds, seededRandom, startSplit } from '../support/scene.js';

const TTL_MS = 7_000;
let ensemble: TestEnsemble;
let leader: ZooKeeperNode;
let behind: ZooKeeperNode;
let other: ZooKeeperNode;

beforeAll(async () => {
  ensemble = await startEnsemble({ proxied: true, proxiedPeers: true, config: { maxSessionTimeout: '60000' } });
  leader = await ensemble.leader();
  [behind, other] = (await ensemble.followers()) as [ZooKeeperNode, ZooKeeperNode];
});
afterAll(() => ensemble.stop());

function proxyOf(node: ZooKeeperNode): TcpProxy {
  return node.proxy as TcpProxy;
}

test(
  'a control session at a server that is behind never takes a holder that it has not heard of for gone (C2)',
  { timeout: scaled(60_000) + rounds(0) * 2_000 },
  async () => {
    const random = seededRandom('C2');
    const root = freshRoot();
    await using b = await startReplica({ root, zookeeper: leader.connectString });
    await using a = await startSplit({ root }, proxyOf(behind), proxyOf(other));
    const [holder, me] = [await b.createLease({ ttlMs: 60_000 }), await b.createLease({ ttlMs: 60_000 })];
    await b.hold('stale', holder);
    await b.release('stale', holder);
    const resource = new Resource();
    const total = rounds(15);
    let slowestMs = 0;
    try {
      for (let round = 0; round < total; round += 1) {
        ensemble.lag(behind.id, 80 + Math.round(random() * 80));
        // It may wait a moment: the leader answers a `sync` before it has applied what a follower has answered already.
        resource.enter('holder', (await b.hold('stale', holder, { waitMs: 20_000 })).fencingToken);
        // My place is made elsewhere, and A goes on with it: so nothing that A writes brings its control session up to
        // date.
        await b.expect(202, 'POST', '/v1/locks/stale/acquire', { body: { waitMs: 1, keepPlace: true }, ...me });
        const joinedAt = performance.now();
        const waiting = a.hold('stale', me, { waitMs: 20_000 }).then((hold) => {
          resource.enter('me', hold.fencingToken);
          slowestMs = Math.max(slowestMs, performance.now() - joinedAt);
          return hold;
        });
        if (random() < 0.5)
          await throughout('I wait', () => resource.violations.length === 0, { forMs: random() * 200, everyMs: 5 });
        resource.leave('holder');
        await b.release('stale', holder);
        const { holdId } = await waiting;
        resource.leave('me');
        expect((await a.release('stale', me, { holdId })).status).toBe(204);
      }
    } finally {
      ensemble.lag(behind.id, 0);
      behind.proxy?.accept();
    }
    console.log(`C2: ${total} rounds, ${resource.used} holds, slowest wait ${Math.round(slowestMs)} ms`);
    expect(resource.violations).toEqual([]);
    expect(resource.used).toBe(2 * total);
  },
);

test(
  'a place at a semaphore that the control session has not heard of yet is granted all the same (C2)',
  { timeout: scaled(60_000) },
  async () => {
    const root = freshRoot();
    await using b = await startReplica({ root, zookeeper: leader.connectString });
    await using a = await startSplit({ root }, proxyOf(behind), proxyOf(other));
    const [holder, me] = [await b.createLease({ ttlMs: 60_000 }), await b.createLease({ ttlMs: 60_000 })];
    const asked = { limit: 1, waitMs: 1, keepPlace: true };
    try {
      for (let round = 0; round < 5; round += 1) {
        const path = `/v1/semaphores/new-${round}`;
        ensemble.lag(behind.id, 600);
        await b.expect(200, 'POST', `${path}/acquire`, { body: asked, ...holder });
        await b.expect(202, 'POST', `${path}/acquire`, { body: asked, ...me });
        // A finds the place in the lease's session, and nothing at all in its control session.
        const waiting = a.expect(200, 'POST', `${path}/acquire`, { body: { limit: 1, waitMs: 20_000 }, ...me });
        await eventually('A waits', async () => (await a.metric('postern_waiters')) === 1);
        ensemble.lag(behind.id, 0);
        await b.expect(204, 'POST', `${path}/release`, { body: {}, ...holder });
        expect(await waiting).toMatchObject({ held: true });
      }
    } finally {
      ensemble.lag(behind.id, 0);
      behind.proxy?.accept();
    }
  },
);

test('every replica attaches a lease to the same server, so a second attach ends the first (C5)', async () => {
  const root = freshRoot();
  const servers = [leader, behind, other].map(({ connectString }) => connectString);
  await using a = await startReplica({ root, zookeeper: servers.join(',') });
  await using b = await startReplica({ root, zookeeper: servers.toReversed().join(',') });
  const connections = (): number[] => [leader, behind, other].map(({ proxy }) => proxy?.openConnections ?? 0);
  const sumOf = (counts: readonly number[]): number => counts.reduce((sum, count) => sum + count, 0);
  for (let i = 0; i < 6; i += 1) {
    const lease = await a.createLease({ ttlMs: TTL_MS });
    expect(a.gateway.context.leases.sessions.size).toBe(1);
    const before = connections();
    expect((await b.heartbeat(lease)).status).toBe(200);
    await eventually('A has lost its connection', () => a.gateway.context.leases.sessions.size === 0);
    await eventually('B is where A was', () => isDeepStrictEqual(connections(), before));
    await b.endLease(lease);
    const left = sumOf(before) - 1;
    await eventually('its connection is closed', () => sumOf(connections()) === left);
  }
});

test(
  'a lease that is used at two servers at once is served by both, and nothing is done twice (C5)',
  { timeout: scaled(60_000) },
  async () => {
    const root = freshRoot();
    await using a = await startReplica({ root, zookeeper: other.connectString });
    await using b = await startReplica({ root, zookeeper: leader.connectString });
    const me = await a.createLease({ ttlMs: TTL_MS });
    const replicas = [a, b];
    const tokens: number[] = [];
    for (let round = 0; round < 20; round += 1) {
      const [here, there] = [replicas[round % 2] as Replica, replicas[(round + 1) % 2] as Replica];
      expect((await there.heartbeat(me)).status).toBe(200); // the connection of `here` is at the wrong server now
      const { holdId, fencingToken } = await here.hold('both', me);
      tokens.push(fencingToken);
      expect(await there.hold('both', me)).toMatchObject({ fencingToken, alreadyHeld: true });
      expect((await here.release('both', me, { holdId })).status).toBe(204);
    }
    expect(tokens).toEqual([...new Set(tokens)].sort((x, y) => x - y));
  },
);

test('a heartbeat is not answered by a follower whose leader is silent (C5)', async () => {
  const root = freshRoot();
  const settings = { POSTERN_REQUEST_TIMEOUT_MS: String(scaled(1_000)) };
  await using a = await startReplica({ root, zookeeper: other.connectString, settings });
  const me = await a.createLease({ ttlMs: 60_000 });
  expect((await a.heartbeat(me)).status).toBe(200);
  const leading = await ensemble.leader();
  leading.pause();
  try {
    // The signal takes a moment to stop all threads of a busy machine's server.
    await eventually('the leader is silent', async () => (await a.heartbeat(me)).status === 503);
  } finally {
    leading.resume();
  }
  await eventually('it is answered again', async () => (await a.heartbeat(me)).status === 200, {
    withinMs: timing.processMs,
  });
});

test('what is shown is no older than the request, at a server that is behind (C2)', async () => {
  const root = freshRoot();
  await using b = await startReplica({ root, zookeeper: leader.connectString });
  await using a = await startReplica({ root, zookeeper: behind.connectString });
  const lease = await b.createLease({ ttlMs: 60_000 });
  const show = async (path: string): Promise<unknown> => (await a.call('GET', path)).body as unknown;
  // What is looked at for the first time may have to be found first: only what follows has to come through a server
  // that is behind.
  await b.expect(201, 'PUT', '/v1/barriers/new');
  await b.expect(204, 'DELETE', '/v1/barriers/new');
  ensemble.lag(behind.id, 300);
  try {
    await b.expect(201, 'PUT', '/v1/barriers/new');
    expect(await show('/v1/barriers/new')).toMatchObject({ raised: true });
    await b.expect(204, 'DELETE', '/v1/barriers/new');
    expect(await show('/v1/barriers/new?waitMs=1')).toMatchObject({ raised: false });
    await b.expect(201, 'PUT', '/v1/barriers/new');
    expect(await show('/v1/barriers/new?waitMs=1')).toMatchObject({ raised: true });
    await b.expect(201, 'PUT', '/v1/config/new', { body: { n: 1 } });
    expect(await show('/v1/config/new')).toEqual({ n: 1 });
    await b.expect(200, 'PUT', '/v1/counters/new', { body: { value: 7 } });
    expect(await show('/v1/counters/new')).toMatchObject({ value: 7 });
    const { fencingToken } = await b.hold('new', lease);
    expect(await show('/v1/locks/new')).toMatchObject({ holders: [{ fencingToken }] });
    await b.expect(201, 'POST', '/v1/queues/new/messages', { body: { messages: [{ body: 1 }] } });
    expect(await show('/v1/queues/new')).toMatchObject({ depth: 1 });
  } finally {
    ensemble.lag(behind.id, 0);
  }
});
