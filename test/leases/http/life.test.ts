/** Taking, showing, keeping and ending a lease; what lies behind the token is in `tokens.test.ts`. */
import { describe, expect, it } from 'vitest';
import { eventually, throughout } from '../../support/eventually.js';
import { startPair, startReplica } from '../../support/start-gateway.js';
import { startZooKeeper } from '../../support/start-zookeeper.js';
import { scaled, timing } from '../../support/timing.js';

/** Short, and long enough for a heartbeat that comes late by the pause of a busy machine. */
const SHORT_TTL_MS = 3_000;

describe('taking a lease', () => {
  it('answers the id, a token, the ttl and the instant at which it ends without a heartbeat', async () => {
    await using pair = await startPair();
    const before = Date.now();
    const reply = await pair.a.call('POST', '/v1/leases', { body: { ttlMs: 5_000 } });
    expect(reply.status).toBe(201);
    expect(Object.keys(reply.body).sort()).toEqual(['expiresAt', 'leaseId', 'leaseToken', 'ttlMs']);
    expect(reply.body.ttlMs).toBe(5_000);
    expect(reply.body.expiresAt).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/);
    const endsAt = Date.parse(reply.body.expiresAt);
    expect(endsAt).toBeGreaterThanOrEqual(before + 5_000);
    expect(endsAt).toBeLessThanOrEqual(Date.now() + 5_000);
    expect(reply.headers['cache-control']).toBe('no-store');
  });

  it('takes 30 seconds when no ttl is given, also without any body', async () => {
    await using pair = await startPair();
    expect((await pair.a.createLease()).ttlMs).toBe(30_000);
    expect((await pair.b.call('POST', '/v1/leases')).body).toMatchObject({ ttlMs: 30_000 });
  });

  it('takes the nearest to 30 seconds that the ensemble allows when no ttl is given', async () => {
    await using quick = await startZooKeeper({ config: { maxSessionTimeout: '8000' } });
    await using slow = await startZooKeeper({ config: { minSessionTimeout: '40000', maxSessionTimeout: '60000' } });
    await using ofQuick = await startReplica({ zookeeper: quick.connectString });
    await using ofSlow = await startReplica({ zookeeper: slow.connectString });
    expect((await ofQuick.createLease()).ttlMs).toBe(8_000);
    expect((await ofSlow.createLease()).ttlMs).toBe(40_000);
  });

  it('refuses a ttl outside the bounds of the ensemble and names them, and accepts the bounds themselves', async () => {
    await using pair = await startPair();
    for (const ttlMs of [1, 2 * timing.tickMs - 1, 300_001, 2_147_483_647]) {
      const { status, body } = await pair.a.call('POST', '/v1/leases', { body: { ttlMs } });
      expect(status, String(ttlMs)).toBe(422);
      expect(body).toMatchObject({
        code: 'invalid',
        field: 'ttlMs',
        minTtlMs: 2 * timing.tickMs,
        maxTtlMs: 300_000,
        retryable: false,
        outcome: 'not-applied',
      });
      expect(body.detail).toContain(String(ttlMs));
    }
    // A busy machine may not make it within its own short life.
    await eventually('the shortest is accepted', async () => {
      const { status, body } = await pair.a.call('POST', '/v1/leases', { body: { ttlMs: 2 * timing.tickMs } });
      return status === 201 && body.ttlMs === 2 * timing.tickMs;
    });
    expect((await pair.a.createLease({ ttlMs: 300_000 })).ttlMs).toBe(300_000);
  });

  it('gives every lease an id and a token of its own', async () => {
    await using pair = await startPair();
    const leases = await Promise.all(
      Array.from({ length: 8 }, (_, index) => [pair.a, pair.b][index % 2]!.createLease({ ttlMs: 5_000 })),
    );
    expect(new Set(leases.map(({ leaseId }) => leaseId)).size).toBe(8);
    expect(new Set(leases.map(({ leaseToken }) => leaseToken)).size).toBe(8);
  });
});

describe('showing my lease', () => {
  it('shows label, metadata and every hold and place in line, through any replica', async () => {
    await using pair = await startPair();
    const mine = await pair.a.createLease({
      ttlMs: 10_000,
      label: 'nightly backup ☾',
      metadata: { host: 'db-1', pid: [4711, null] },
    });
    const other = await pair.b.createLease({ ttlMs: 10_000 });
    await pair.b.hold('theirs', other);
    const hold = await pair.a.hold('mine', mine, { requestId: 'job-1' });
    expect((await pair.b.acquire('theirs', mine, { keepPlace: true })).status).toBe(202);

    const { status, body } = await pair.b.showLease(mine);
    expect(status).toBe(200);
    expect(body).toMatchObject({
      leaseId: mine.leaseId,
      namespace: 'default',
      label: 'nightly backup ☾',
      metadata: { host: 'db-1', pid: [4711, null] },
      ttlMs: 10_000,
    });
    const holds = (body.holds as { name: string }[]).sort((one, two) => one.name.localeCompare(two.name));
    expect(holds).toHaveLength(2);
    expect(holds[0]).toMatchObject({
      kind: 'lock',
      name: 'mine',
      held: true,
      requestId: 'job-1',
      holdId: hold.holdId,
      fencingToken: hold.fencingToken,
    });
    expect(holds[1]).toMatchObject({ kind: 'lock', name: 'theirs', held: false });

    expect((await pair.a.release('mine', mine, { holdId: hold.holdId })).status).toBe(204);
    expect((await pair.b.release('theirs', mine)).status).toBe(204);
    expect((await pair.a.showLease(mine)).body.holds).toEqual([]);
  });

  it('shows an empty label and no metadata when none were given, and never the token', async () => {
    await using pair = await startPair();
    const lease = await pair.a.createLease({ ttlMs: 5_000 });
    const { body } = await pair.b.showLease(lease);
    expect(body).toMatchObject({ label: '', metadata: {}, holds: [] });
    expect(JSON.stringify(body)).not.toContain(lease.leaseToken);
  });
});

describe('keeping a lease', () => {
  it('lives on as long as it is heartbeated, through either replica in turn', async () => {
    await using pair = await startPair();
    const lease = await pair.a.createLease({ ttlMs: SHORT_TTL_MS });
    const { fencingToken } = await pair.a.hold('kept', lease);
    let turn = 0;
    await throughout(
      'it is heartbeated and holds',
      async () => {
        const replica = [pair.a, pair.b][turn++ % 2]!;
        const { status, body } = await replica.heartbeat(lease);
        expect(status).toBe(200);
        expect(body).toMatchObject({ leaseId: lease.leaseId, ttlMs: SHORT_TTL_MS, revocations: [], lost: [] });
        const holders = (await replica.showLock('kept')).holders as { fencingToken: number }[];
        return holders[0]?.fencingToken === fencingToken;
      },
      { forMs: 2 * SHORT_TTL_MS, everyMs: SHORT_TTL_MS / 4 },
    );
  });

  it('counts any other request with the token as a heartbeat too', async () => {
    await using pair = await startPair();
    const lease = await pair.a.createLease({ ttlMs: SHORT_TTL_MS });
    await throughout('it is shown', async () => (await pair.b.showLease(lease)).status === 200, {
      forMs: 2 * SHORT_TTL_MS,
      everyMs: SHORT_TTL_MS / 4,
    });
  });

  it('moves expiresAt with every heartbeat', async () => {
    await using pair = await startPair();
    const lease = await pair.a.createLease({ ttlMs: 5_000 });
    const moved = await eventually('expiresAt has moved on', async () => {
      const { body } = await pair.b.heartbeat(lease);
      return Date.parse(body.expiresAt) > Date.parse(lease.expiresAt) && body;
    });
    expect(Date.parse(moved.expiresAt)).toBeLessThanOrEqual(Date.now() + 5_000);
  });

  it('is never ended before its ttl has passed since the last answered heartbeat, and is gone soon after', async () => {
    await using pair = await startPair();
    const lease = await pair.a.createLease({ ttlMs: SHORT_TTL_MS });
    await pair.a.hold('freed-by-time', lease);
    const sentAt = performance.now();
    expect((await pair.b.heartbeat(lease)).status).toBe(200);
    const answeredAt = performance.now();
    const freedAt = await eventually(
      'the lock is free',
      async () => (await pair.a.showLock('freed-by-time')).holders.length === 0 && performance.now(),
    );
    expect(freedAt - sentAt).toBeGreaterThanOrEqual(SHORT_TTL_MS);
    expect(freedAt - answeredAt).toBeLessThanOrEqual(SHORT_TTL_MS + 2 * timing.tickMs + scaled(2_000));
  });
});

describe('a lease that has ended', () => {
  it('answers 410 to everything but its end, through both replicas', async () => {
    await using pair = await startPair();
    const lease = await pair.a.createLease({ ttlMs: 2_000 });
    await pair.b.untilEnded(lease);
    for (const replica of [pair.a, pair.b]) {
      for (const reply of [
        await replica.heartbeat(lease),
        await replica.showLease(lease),
        await replica.call('GET', '/v1/leases/self/events', {
          leaseToken: lease.leaseToken,
          headers: { accept: 'text/event-stream' },
        }),
        await replica.acquire('late', lease),
        await replica.acquire('late', lease, { waitMs: 1_000, keepPlace: true }),
        await replica.release('late', lease),
      ]) {
        expect(reply.status).toBe(410);
        expect(reply.body).toMatchObject({
          code: 'lease-expired',
          retryable: false,
          outcome: 'not-applied',
          type: '/problems/lease-expired',
        });
      }
      expect((await replica.endLease(lease)).status).toBe(204);
    }
    expect(await pair.a.showLock('late')).toMatchObject({ holders: [], waiterCount: 0 });
  });

  it('has freed everything it held at once, and ending it again is 204 too', async () => {
    await using pair = await startPair();
    const lease = await pair.a.createLease({ ttlMs: 60_000 });
    const next = await pair.b.createLease({ ttlMs: 60_000 });
    await pair.a.hold('one', lease);
    await pair.b.hold('two', lease, { requestId: 'r' });
    const waiting = pair.b.acquire('one', next, { waitMs: 20_000 });
    await pair.a.untilWaiting('one', 1);

    expect((await pair.a.endLease(lease)).status).toBe(204);
    expect((await pair.b.hold('two', next)).alreadyHeld).toBe(false); // without any wait
    const granted = await waiting;
    expect(granted.status).toBe(200);
    expect(granted.body.waitedMs).toBeLessThan(timing.eventuallyMs);
    expect((await pair.b.endLease(lease)).status).toBe(204);
    expect((await pair.a.endLease(lease)).status).toBe(204);
    expect((await pair.b.heartbeat(lease)).body).toMatchObject({ code: 'lease-expired' });
  });
});
