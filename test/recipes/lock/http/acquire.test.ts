/** Acquiring an exclusive lock with a lease: at once, after a wait, in vain, and again. */
import { describe, expect, it } from 'vitest';
import { eventually, throughout } from '../../../support/eventually.js';
import { startPair, startReplica } from '../../../support/start-gateway.js';
import { scaled, timing } from '../../../support/timing.js';

describe('a free lock', () => {
  it('is held at once, and the answer says everything about the hold', async () => {
    await using pair = await startPair();
    const lease = await pair.a.createLease({ ttlMs: 5_000 });
    const before = Date.now();
    const { status, body, headers } = await pair.b.acquire('free', lease);
    expect(status).toBe(200);
    expect(Object.keys(body).sort()).toEqual(
      [
        'alreadyHeld',
        'expiresAt',
        'fencingToken',
        'held',
        'holdId',
        'leaseId',
        'name',
        'requestId',
        'ttlMs',
        'waitedMs',
      ].sort(),
    );
    expect(body).toMatchObject({
      name: 'free',
      held: true,
      requestId: '',
      alreadyHeld: false,
      leaseId: lease.leaseId,
      ttlMs: 5_000,
    });
    expect(body.holdId).toMatch(/^[A-Za-z0-9._~-]+$/);
    expect(Number.isSafeInteger(body.fencingToken)).toBe(true);
    expect(body.waitedMs).toBeLessThan(timing.eventuallyMs);
    expect(Date.parse(body.expiresAt)).toBeGreaterThanOrEqual(before + 5_000 - 1);
    expect(Date.parse(body.expiresAt)).toBeLessThanOrEqual(Date.now() + 5_000);
    expect(headers['trace-id']).toMatch(/^[0-9a-f]{32}$/);
    expect(headers['cache-control']).toBe('no-store');
  });

  it('is given to exactly one of many who ask at once at both replicas', async () => {
    await using pair = await startPair();
    const leases = await Promise.all(Array.from({ length: 10 }, () => pair.a.createLease({ ttlMs: 10_000 })));
    const replies = await Promise.all(
      leases.map((lease, index) => [pair.a, pair.b][index % 2]!.acquire('contended', lease)),
    );
    const held = replies.filter(({ status }) => status === 200);
    expect(held).toHaveLength(1);
    expect(replies.filter(({ status }) => status === 409)).toHaveLength(9);
    const { holders, waiterCount } = await pair.b.showLock('contended');
    expect((holders as { leaseId: string }[]).map(({ leaseId }) => leaseId)).toEqual(
      held.map(({ body }) => body.leaseId as string),
    );
    expect(waiterCount).toBe(0);
  });

  it('is held without a wait although a wait was allowed', async () => {
    await using replica = await startReplica();
    const lease = await replica.createLease({ ttlMs: 10_000 });
    const { status, body } = await replica.acquire('free', lease, { waitMs: 55_000 });
    expect(status).toBe(200);
    expect(body.waitedMs).toBeLessThan(timing.eventuallyMs);
  });
});

describe('a held lock', () => {
  it('is refused at once without waitMs, and the problem names the holder', async () => {
    await using pair = await startPair();
    const holder = await pair.a.createLease({ ttlMs: 10_000, label: 'nightly backup' });
    const other = await pair.b.createLease({ ttlMs: 10_000 });
    const { fencingToken } = await pair.a.hold('held', holder);
    const { status, body, headers } = await pair.b.acquire('held', other);
    expect(status).toBe(409);
    expect(headers['content-type']).toContain('application/problem+json');
    expect(body).toMatchObject({
      type: '/problems/lock-held',
      status: 409,
      code: 'lock-held',
      retryable: true,
      outcome: 'not-applied',
    });
    expect(body.instance).toBe(headers['trace-id']);
    expect(body.holder).toMatchObject({ leaseId: holder.leaseId, label: 'nightly backup', fencingToken });
    expect(body.holder.since).toBe((await pair.a.showLock('held')).holders[0].since);
    expect(await pair.a.showLock('held')).toMatchObject({ waiters: [], waiterCount: 0 });
  });

  it('is granted to who waits when it is released through the other replica, with a higher fencing token', async () => {
    await using pair = await startPair();
    const [one, two] = await Promise.all([
      pair.a.createLease({ ttlMs: 10_000 }),
      pair.b.createLease({ ttlMs: 10_000 }),
    ]);
    const first = await pair.a.hold('handed', one);
    const waiting = pair.b.acquire('handed', two, { waitMs: 20_000 });
    await pair.a.untilWaiting('handed', 1);
    await throughout('it waits', async () => (await pair.a.showLock('handed')).waiterCount === 1);
    expect((await pair.a.release('handed', one, { holdId: first.holdId })).status).toBe(204);
    const { status, body } = await waiting;
    expect(status).toBe(200);
    expect(body).toMatchObject({ held: true, alreadyHeld: false, leaseId: two.leaseId });
    expect(body.waitedMs).toBeGreaterThanOrEqual(timing.quietMs / 2);
    expect(body.fencingToken).toBeGreaterThan(first.fencingToken);
    expect(body.holdId).not.toBe(first.holdId);
  });

  it('is refused when waitMs has passed, not before, and the place in line is given up', async () => {
    await using pair = await startPair();
    const [one, two] = await Promise.all([
      pair.a.createLease({ ttlMs: 10_000 }),
      pair.a.createLease({ ttlMs: 10_000 }),
    ]);
    await pair.a.hold('in-vain', one);
    const sentAt = performance.now();
    const { status, body } = await pair.b.acquire('in-vain', two, { waitMs: 700 });
    const waited = performance.now() - sentAt;
    expect(status).toBe(409);
    expect(body).toMatchObject({ code: 'lock-held', holder: { leaseId: one.leaseId } });
    expect(waited).toBeGreaterThanOrEqual(600);
    expect(waited).toBeLessThan(700 + scaled(2_000));
    await eventually('nobody is in line', async () => (await pair.a.showLock('in-vain')).waiterCount === 0);
    expect((await pair.b.showLease(two)).body.holds).toEqual([]);
  });

  it('is free for the next when the lease of its holder runs out', async () => {
    await using pair = await startPair();
    const [one, two] = await Promise.all([
      pair.a.createLease({ ttlMs: scaled(1_500) }),
      pair.b.createLease({ ttlMs: 10_000 }),
    ]);
    const first = await pair.a.hold('expires', one);
    const { status, body } = await pair.b.acquire('expires', two, { waitMs: 20_000 });
    expect(status).toBe(200);
    expect(body.fencingToken).toBeGreaterThan(first.fencingToken);
    expect((await pair.a.heartbeat(one)).status).toBe(410);
  });
});

describe('acquiring again', () => {
  it('with the same lease and requestId answers the same hold, through either replica', async () => {
    await using pair = await startPair();
    const lease = await pair.a.createLease({ ttlMs: 10_000 });
    const first = await pair.a.hold('again', lease, { requestId: 'job' });
    for (const [replica, waitMs] of [
      [pair.a, 0],
      [pair.b, 0],
      [pair.b, 5_000],
    ] as const) {
      const again = await replica.hold('again', lease, { requestId: 'job', waitMs });
      expect(again).toMatchObject({
        holdId: first.holdId,
        fencingToken: first.fencingToken,
        requestId: 'job',
        alreadyHeld: true,
      });
    }
    expect(await pair.a.showLock('again')).toMatchObject({ holders: [{ holdId: first.holdId }], waiterCount: 0 });
  });

  it('many times at once through both replicas makes one hold', async () => {
    await using pair = await startPair();
    const lease = await pair.a.createLease({ ttlMs: 10_000 });
    const replies = await Promise.all(
      Array.from({ length: 12 }, (_, index) =>
        [pair.a, pair.b][index % 2]!.acquire('at-once', lease, { waitMs: 5_000, requestId: 'r' }),
      ),
    );
    expect(replies.map(({ status }) => status)).toEqual(Array(12).fill(200));
    expect(new Set(replies.map(({ body }) => body.holdId as string)).size).toBe(1);
    expect(await pair.b.showLock('at-once')).toMatchObject({ waiterCount: 0 });
    expect((await pair.b.release('at-once', lease, { requestId: 'r' })).status).toBe(204);
    expect(await pair.a.showLock('at-once')).toMatchObject({ holders: [], waiterCount: 0 });
  });

  it('may name its request in the header Idempotency-Key as well', async () => {
    await using pair = await startPair();
    const lease = await pair.a.createLease({ ttlMs: 10_000 });
    const first = await pair.a.acquire('by-header', lease, {}, { headers: { 'idempotency-key': 'key-1' } });
    expect(first.body).toMatchObject({ held: true, requestId: 'key-1', alreadyHeld: false });
    const again = await pair.b.hold('by-header', lease, { requestId: 'key-1' });
    expect(again).toMatchObject({ holdId: first.body.holdId, alreadyHeld: true });
    // Two names for one request say two things.
    const both = await pair.b.acquire(
      'by-header',
      lease,
      { requestId: 'key-1' },
      { headers: { 'idempotency-key': 'key-2' } },
    );
    expect(both.body).toMatchObject({ status: 422, field: 'Idempotency-Key' });
  });

  it('under another requestId stands in line behind oneself', async () => {
    await using pair = await startPair();
    const lease = await pair.a.createLease({ ttlMs: 10_000 });
    const one = await pair.a.hold('threads', lease, { requestId: 'thread-1' });
    expect((await pair.b.acquire('threads', lease, { requestId: 'thread-2' })).body).toMatchObject({
      code: 'lock-held',
      holder: { leaseId: lease.leaseId, fencingToken: one.fencingToken },
    });
    const waiting = pair.b.acquire('threads', lease, { requestId: 'thread-2', waitMs: 20_000 });
    const alsoWaiting = pair.a.acquire('threads', lease, { requestId: 'thread-3', waitMs: 20_000 });
    await pair.a.untilWaiting('threads', 2);
    expect((await pair.a.release('threads', lease, { requestId: 'thread-1' })).status).toBe(204);
    const winner = await Promise.race([waiting, alsoWaiting]);
    expect(winner.status).toBe(200);
    expect(winner.body.fencingToken).toBeGreaterThan(one.fencingToken);
    expect((await pair.b.release('threads', lease, { requestId: winner.body.requestId })).status).toBe(204);
    const [two, three] = await Promise.all([waiting, alsoWaiting]);
    expect([two.body.requestId, three.body.requestId]).toEqual(['thread-2', 'thread-3']);
    expect(new Set([one.holdId, two.body.holdId, three.body.holdId]).size).toBe(3);
  });

  it('after a release is a new hold with a new holdId and a higher fencing token', async () => {
    await using pair = await startPair();
    const lease = await pair.a.createLease({ ttlMs: 10_000 });
    let last = 0;
    const holdIds = new Set<string>();
    for (let round = 0; round < 6; round++) {
      const replica = [pair.a, pair.b][round % 2]!;
      const { holdId, fencingToken, alreadyHeld } = await replica.hold('renewed', lease);
      expect(alreadyHeld).toBe(false);
      expect(fencingToken).toBeGreaterThan(last);
      last = fencingToken;
      holdIds.add(holdId);
      expect((await pair.a.release('renewed', lease)).status).toBe(204);
    }
    expect(holdIds.size).toBe(6);
  });
});

describe('locks of different namespaces', () => {
  it('have nothing to do with each other', async () => {
    await using pair = await startPair();
    const here = await pair.a.createLease({ ttlMs: 10_000 });
    const there = (await pair.b.expect(201, 'POST', '/v1/leases', {
      body: { ttlMs: 10_000 },
      headers: { namespace: 'there' },
    })) as { leaseToken: string; leaseId: string };
    await pair.a.hold('same-name', here);
    await pair.a.hold('same-name', there);
    expect(await pair.b.showLock('same-name')).toMatchObject({ holders: [{ leaseId: here.leaseId }] });
    expect(await pair.a.expect(200, 'GET', '/v1/locks/same-name', { headers: { namespace: 'there' } })).toMatchObject({
      holders: [{ leaseId: there.leaseId }],
    });
  });
});
