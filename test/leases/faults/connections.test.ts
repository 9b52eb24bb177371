/** The connections that carry leases: shared, limited, moved and evicted, and no client notices. */
import { expect, test } from 'vitest';
import { eventually } from '../../support/eventually.js';
import { startPair, startReplica } from '../../support/start-gateway.js';
import { freshRoot, startZooKeeper } from '../../support/start-zookeeper.js';
import { startTcpProxy } from '../../support/zookeeper/tcp-proxy.js';
import { scaled } from '../../support/timing.js';
import { TestConnection } from '../../support/zookeeper/sessions.js';
import { leaseBehind, soon, startCuttable } from '../../support/scene.js';

const TTL_MS = 20_000;
/** Much longer than a request may take. */
const PATIENT_MS = scaled(15_000);
/** Longer than the test: no session ends by itself. */
const LONG_TTL_MS = 60_000;

test('a connection with work in flight is not evicted (C15)', async () => {
  await using replica = await startReplica({ settings: { POSTERN_MAX_ATTACHED: '1' } });
  const { sessions } = replica.gateway.context.leases;
  const leases = await Promise.all([0, 1, 2].map(() => replica.createLease({ ttlMs: TTL_MS })));
  const [me, ...others] = await Promise.all(leases.map((lease) => leaseBehind(replica, lease)));
  await sessions.useRepeatedly(me as NonNullable<typeof me>, soon(), async (session) => {
    for (const other of others) await sessions.useRepeatedly(other, soon(), (theirs) => theirs.sync('/', soon()));
    expect(session.ended).toBe(false);
    await session.sync('/', soon());
  });
  await eventually('what is above the cap has gone', () => sessions.size === 1);
});

test('a request does not wait for an attach of somebody who has more time (C15)', async () => {
  const root = freshRoot();
  await using cuttable = await startCuttable({ root, settings: { POSTERN_REQUEST_TIMEOUT_MS: '500' } });
  await using b = await startReplica({ root });
  const { replica: a, proxy } = cuttable;
  const me = await b.createLease({ ttlMs: TTL_MS });
  proxy.refuse(); // to every attach, as a server does that has enough connections of this address
  const patient = a.acquire('patient', me, { waitMs: PATIENT_MS });
  await eventually('it tries', () => proxy.counters.refused > 0);
  const startedAt = performance.now();
  expect((await a.heartbeat(me)).body).toMatchObject({ status: 503, code: 'zookeeper-unavailable' });
  expect(performance.now() - startedAt).toBeLessThan(PATIENT_MS / 3);
  proxy.accept();
  expect((await patient).status).toBe(200);
});

for (const limit of [10, 60]) {
  test(
    `with ${limit} connections for an address, two replicas serve more leases than that (C15)`,
    { timeout: scaled(120_000) },
    async () => {
      await using zookeeper = await startZooKeeper({ config: { maxClientCnxns: String(limit) } });
      // They take turns at the connections: how long that takes is the machine's.
      const settings = { POSTERN_REQUEST_TIMEOUT_MS: String(scaled(10_000)) };
      await using pair = await startPair({ zookeeper: zookeeper.connectString, settings });
      const replicas = [pair.a, pair.b];
      const at = (i: number): (typeof replicas)[0] => replicas[i % 2] as (typeof replicas)[0];
      const leases = await Promise.all(Array.from({ length: 120 }, (_, i) => at(i).createLease({ ttlMs: TTL_MS })));
      const startedAt = performance.now();
      await Promise.all(
        leases.map(async (lease, i) => {
          await at(i).hold(`own-${i}`, lease);
          expect((await at(i + 1).heartbeat(lease)).status).toBe(200);
          expect((await at(i + 1).release(`own-${i}`, lease)).status).toBe(204);
        }),
      );
      await Promise.all(leases.map(async (lease, i) => expect((await at(i).heartbeat(lease)).status).toBe(200)));
      console.log(`${limit} connections: 480 requests in ${Math.round(performance.now() - startedAt)} ms`);
      expect(pair.a.gateway.context.control.connected && pair.b.gateway.context.control.connected).toBe(true);
    },
  );
}

test(
  'a replica whose own connection is turned away gets one, although its leases have taken all there are (C15)',
  { timeout: scaled(60_000) },
  async () => {
    const limit = 10;
    await using zookeeper = await startZooKeeper({ config: { maxClientCnxns: String(limit) } });
    await using forControl = await startTcpProxy({ port: zookeeper.port });
    await using forLeases = await startTcpProxy({ port: zookeeper.port });
    forLeases.refuse();
    const both = `${forControl.connectString},${forLeases.connectString}`;
    await using a = await startReplica({ root: freshRoot(), zookeeper: both });
    forLeases.accept();
    forControl.refuse();
    const { control, leases } = a.gateway.context;
    for (let i = 0; i < limit - 1; i += 1) await a.createLease({ ttlMs: LONG_TTL_MS });
    expect(leases.sessions.size).toBe(limit - 1);
    forLeases.refuse();
    forControl.cut();
    using stranger = await TestConnection.open(zookeeper.connectString); // takes the place of the control session
    await eventually('the loss is noticed', () => !control.connected);
    forControl.accept();
    await eventually('it is connected again', () => control.connected);
    expect(stranger.connected).toBe(true);
  },
);
