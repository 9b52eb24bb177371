/**
 * Servers of ZooKeeper whose clocks disagree, and replicas whose own is wrong. What another leader's clock says is seen
 * by the replica in the answers to its writes: the proxies shift it there.
 */
import { afterEach, expect, test, vi } from 'vitest';
import { eventually, throughout } from '../support/eventually.js';
import { startReplica, type Replica } from '../support/start-gateway.js';
import { freshRoot, startEnsemble, startZooKeeper } from '../support/start-zookeeper.js';
import { scaled, timing } from '../support/timing.js';

const AHEAD_MS = 60_000;
const DELAY_MS = 6_000;
const LONG_MS = 60_000;
const LATE_MS = 800;
const GRACE_MS = 1_500;

afterEach(() => {
  vi.useRealTimers();
});

/**
 * Takes the lock with a delay, and loses it: somebody else finds the loss.
 * @returns when, monotonic, it was not lost yet, and not found yet
 */
async function lose(replica: Replica, name: string): Promise<number> {
  const lost = await replica.createLease({ ttlMs: 2_000 });
  await replica.hold(name, lost, { lockDelayMs: DELAY_MS });
  await replica.untilEnded(lost);
  return performance.now();
}

async function isDelayed(replica: Replica, name: string): Promise<boolean> {
  return ((await replica.showLock(name)) as { lockedUntil?: string }).lockedUntil !== undefined;
}

test(
  'a lock-delay lasts as long as it says, although the clock of ZooKeeper leaps (C40)',
  { timeout: scaled(60_000) },
  async () => {
    await using zookeeper = await startZooKeeper({ proxied: true });
    await using replica = await startReplica({ zookeeper: zookeeper.connectString, root: freshRoot() });
    const next = await replica.createLease({ ttlMs: LONG_MS });
    const lostAt = await lose(replica, 'leaping');
    expect(await isDelayed(replica, 'leaping')).toBe(true);
    const waiting = replica.hold('leaping', next, { waitMs: 30_000 }).then(() => performance.now());
    zookeeper.proxy.shiftClock(AHEAD_MS);
    const { control, layout } = replica.gateway.context;
    await control.setData(layout.namespaces, Buffer.alloc(0));
    await eventually(
      'the replica believes it',
      () => replica.gateway.context.zooKeeperClock.now() > Date.now() + 50_000,
    );
    expect(await isDelayed(replica, 'leaping')).toBe(true);
    expect((await waiting) - lostAt).toBeGreaterThanOrEqual(DELAY_MS);
    // Only some answers are shifted.
    expect(await replica.metric('postern_zookeeper_clock_leaps_total')).toBeGreaterThan(0);
  },
);

test(
  'a replica that comes later goes by the clock of the leader that saw a lock-delay begin, and by no other leader’s (C40)',
  { timeout: timing.processMs + scaled(60_000) },
  async () => {
    await using ensemble = await startEnsemble({ proxied: true });
    const root = freshRoot();
    const options = { root, zookeeper: ensemble.connectString };
    await using first = await startReplica(options);
    await lose(first, 'early');
    await lose(first, 'late');
    expect([await isDelayed(first, 'early'), await isDelayed(first, 'late')]).toEqual([true, true]);
    // A delay begins when the loss is found, which was done by then.
    const foundAt = performance.now();

    await eventually('the first delay is over', () => performance.now() - foundAt > DELAY_MS + 500);
    await using second = await startReplica(options);
    const begun = performance.now();
    await second.hold('early', await second.createLease({ ttlMs: LONG_MS }));
    expect(performance.now() - begun).toBeLessThan(DELAY_MS / 2);

    await (await ensemble.leader()).kill();
    for (const { proxy } of ensemble.nodes) proxy?.shiftClock(AHEAD_MS);
    await eventually(
      'another leads',
      async () => (await first.call('POST', '/v1/leases', { body: {} })).status === 201,
      {
        withinMs: timing.processMs,
      },
    );
    await using third = await startReplica(options);
    const lease = await third.createLease({ ttlMs: LONG_MS });
    const seenAt = performance.now();
    expect((await third.acquire('late', lease)).status).toBe(409);
    await throughout('it is not granted', async () => (await third.acquire('late', lease)).status === 409);
    await third.hold('late', lease, { waitMs: 30_000 });
    expect(performance.now() - seenAt).toBeGreaterThanOrEqual(DELAY_MS - 1);
  },
);

test('a replica that is ready knows the time of the ensemble, whatever its own clock says (T9)', async () => {
  vi.useFakeTimers({ toFake: ['Date'], now: Date.now() - AHEAD_MS });
  const root = freshRoot();
  await using first = await startReplica({ root });
  // Where everything exists already, nothing has to be made.
  await using second = await startReplica({ root });
  for (const { gateway } of [first, second]) {
    expect(gateway.context.zooKeeperClock.known).toBe(true);
    expect(gateway.context.zooKeeperClock.now() - Date.now()).toBeGreaterThan(AHEAD_MS - 10_000);
  }
});

test('a revoked hold is not broken early by a replica whose writes took long when it last wrote (T9)', async () => {
  const root = freshRoot();
  await using a = await startReplica({ root });
  const held = await a.hold('door', await a.createLease({ ttlMs: LONG_MS }));
  await using b = await startReplica({ root });
  // The leader stood still while it was written to, and said what time it was at the end.
  const { zooKeeperClock } = b.gateway.context;
  const answeredAt = performance.now();
  zooKeeperClock.observe(zooKeeperClock.now() + AHEAD_MS, answeredAt - LATE_MS, answeredAt);
  expect(zooKeeperClock.errorMs).toBeGreaterThanOrEqual(LATE_MS / 2);
  const askedAt = performance.now();
  await a.expect(200, 'POST', '/v1/locks/door/revoke', { body: { graceMs: GRACE_MS } });
  await eventually('it is broken', async () => {
    const body = { fencingToken: held.fencingToken };
    const checked = await a.expect(200, 'POST', '/v1/locks/door/check', { body });
    return !(checked as { current: boolean }).current;
  });
  expect(performance.now() - askedAt).toBeGreaterThanOrEqual(GRACE_MS);
});
