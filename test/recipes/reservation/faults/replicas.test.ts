/** Reservations whose replicas are killed, or go by wrong clocks (protocol C56, C57). */
import { afterEach, describe, expect, test, vi } from 'vitest';
import { eventually, throughout } from '../../../support/eventually.js';
import { spawnReplica, startPair, startReplica, type Replica } from '../../../support/start-gateway.js';
import { freshRoot, startZooKeeper } from '../../../support/start-zookeeper.js';
import { scaled, timing } from '../../../support/timing.js';
import { CLOCK_MS, giveBack, isFree, LONG_MS, reservationOf, reserved, tryToReserve } from '../client.js';

afterEach(() => {
  vi.useRealTimers();
});

async function untilFree(replica: Replica, name: string): Promise<void> {
  await eventually('it is free', () => isFree(replica, name), { withinMs: scaled(30_000) });
}

describe('a replica that is killed', () => {
  test('leaves its reservations to others, which free them on time (C57)', async () => {
    const root = freshRoot();
    await using doomed = await spawnReplica({ root });
    await using other = await startReplica({ root });
    const held = await reserved(doomed, 'left', { forMs: scaled(1_500) });
    await doomed.kill();
    await untilFree(other, 'left');
    const late = Date.now() - Date.parse(held.reservedUntil);
    expect(late).toBeGreaterThanOrEqual(-CLOCK_MS);
    expect(late).toBeLessThan(scaled(2_000));
  });

  test('while a reservation waits through it does not block the line for longer than a TTL and some ticks (C56)', async () => {
    const root = freshRoot();
    // As short a TTL as the gateway's own leases can get.
    await using zookeeper = await startZooKeeper({ config: { maxSessionTimeout: '4000' } });
    const options = { root, zookeeper: zookeeper.connectString };
    await using doomed = await spawnReplica(options);
    await using other = await startReplica(options);
    const [first, second] = [await other.createLease({ ttlMs: 4_000 }), await other.createLease({ ttlMs: 4_000 })];
    await other.hold('blocked', first);
    const waiting = tryToReserve(doomed, 'blocked', { waitMs: 50_000 }).catch(() => undefined);
    await other.untilWaiting('blocked', 1);
    const behind = other.hold('blocked', second, { waitMs: 50_000 });
    await other.untilWaiting('blocked', 2);
    await doomed.kill();
    await waiting;
    const killedAt = performance.now();
    await other.release('blocked', first);
    await behind;
    expect(performance.now() - killedAt).toBeLessThan(4_000 + scaled(4_000));
  });
});

test(
  'a reservation survives a restart of everything, and its token serves afterwards',
  { timeout: timing.processMs + scaled(60_000) },
  async () => {
    const root = freshRoot();
    await using zookeeper = await startZooKeeper();
    const options = { root, zookeeper: zookeeper.connectString };
    const before = await startReplica(options);
    const [long, short] = [await reserved(before, 'long'), await reserved(before, 'short', { forMs: 3_000 })];
    await before[Symbol.asyncDispose]();
    await zookeeper.kill();
    await zookeeper.restart();
    await using after = await startReplica(options);
    await untilFree(after, 'short');
    expect(Date.now()).toBeGreaterThanOrEqual(Date.parse(short.reservedUntil) - CLOCK_MS);
    expect(await reservationOf(after, 'long')).toMatchObject({ holdId: long.holdId });
    expect((await giveBack(after, 'long', long)).status).toBe(204);
  },
);

test('a replica whose own clock is an hour ahead frees nothing early, and reserves for no longer (C57)', async () => {
  vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + LONG_MS });
  await using pair = await startPair();
  const held = await reserved(pair.a, 'ahead', { forMs: scaled(2_000) });
  vi.useRealTimers();
  const until = Date.parse(held.reservedUntil);
  expect(until - Date.now()).toBeLessThan(scaled(2_000) + CLOCK_MS);
  await throughout('it stands', async () => (await reservationOf(pair.b, 'ahead')) !== undefined);
  await untilFree(pair.b, 'ahead');
  expect(Date.now() - until).toBeGreaterThanOrEqual(-CLOCK_MS);
});

test('many that end at once are all freed, by whichever replica, and each once', async () => {
  await using pair = await startPair();
  const names = Array.from({ length: 20 }, (_, i) => `many-${i}`);
  await Promise.all(names.map((name, i) => reserved(i % 2 === 0 ? pair.a : pair.b, name, { forMs: 2_000 })));
  await eventually('all are free', async () => {
    const { items } = (await pair.a.expect(200, 'GET', '/v1/reservations')) as { items: unknown[] };
    return items.length === 0;
  });
  const ended = { outcome: 'ended' };
  await eventually('each was freed once', async () => {
    const counts = await Promise.all([pair.a, pair.b].map((one) => one.metric('postern_reservations_total', ended)));
    return counts.reduce((sum, count) => sum + count, 0) === names.length;
  });
  for (const replica of [pair.a, pair.b])
    await eventually('none is known', async () => (await replica.metric('postern_reservations')) === 0);
});
