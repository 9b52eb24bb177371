/** Releasing a lock and giving up a place: exactly what was meant, by whom it belongs to, and nothing newer. */
import { describe, expect, it } from 'vitest';
import type { Reply } from '../../../support/http/client.js';
import { eventually } from '../../../support/eventually.js';
import { expireSession, startPair } from '../../../support/start-gateway.js';
import { scaled } from '../../../support/timing.js';

function expectNotHolder({ status, body }: Reply): void {
  expect(status).toBe(409);
  expect(body).toMatchObject({
    code: 'not-holder',
    type: '/problems/not-holder',
    retryable: false,
    outcome: 'not-applied',
  });
}

describe('releasing', () => {
  it('frees the lock for the next at once: by holdId, by requestId, or the hold without one', async () => {
    await using pair = await startPair();
    const [lease, next] = await Promise.all([
      pair.a.createLease({ ttlMs: 20_000 }),
      pair.b.createLease({ ttlMs: 20_000 }),
    ]);
    const { holdId } = await pair.a.hold('freed', lease, { requestId: 'r' });
    for (const [take, body] of [
      [{ requestId: 'r' }, { holdId }],
      [{ requestId: 'r' }, { requestId: 'r' }],
      [{}, {}],
    ] as const) {
      await pair.a.hold('freed', lease, take);
      expect((await pair.b.release('freed', lease, body)).status).toBe(204);
      await pair.a.hold('freed', next); // without any wait
      expect((await pair.a.release('freed', next)).status).toBe(204);
    }
  });

  it('may name the requestId in the header Idempotency-Key', async () => {
    await using pair = await startPair();
    const lease = await pair.a.createLease({ ttlMs: 20_000 });
    await pair.a.hold('by-header', lease, { requestId: 'r' });
    const headers = { 'idempotency-key': 'r' };
    expect(
      (await pair.b.call('POST', '/v1/locks/by-header/release', { leaseToken: lease.leaseToken, headers })).status,
    ).toBe(204);
    expect(await pair.a.showLock('by-header')).toMatchObject({ holders: [] });
  });

  it('twice is 409 not-holder the second time, as is releasing what was never held', async () => {
    await using pair = await startPair();
    const lease = await pair.a.createLease({ ttlMs: 20_000 });
    expectNotHolder(await pair.a.release('never', lease));
    expectNotHolder(await pair.a.release('never', lease, { holdId: 'nonsense' }));
    const { holdId } = await pair.a.hold('twice', lease);
    expectNotHolder(await pair.b.release('twice', lease, { requestId: 'another' }));
    expect((await pair.a.release('twice', lease, { holdId })).status).toBe(204);
    for (const replica of [pair.a, pair.b]) {
      expectNotHolder(await replica.release('twice', lease, { holdId }));
      expectNotHolder(await replica.release('twice', lease));
    }
  });

  it('frees only the hold of that requestId, not the others of the lease', async () => {
    await using pair = await startPair();
    const lease = await pair.a.createLease({ ttlMs: 20_000 });
    const held = await pair.a.hold('several', lease, { requestId: 'one' });
    const waiting = pair.b.acquire('several', lease, { requestId: 'two', waitMs: 20_000 });
    await pair.a.untilWaiting('several', 1);
    expectNotHolder(await pair.a.release('several', lease)); // the empty requestId holds nothing
    expect(await pair.a.showLock('several')).toMatchObject({ holders: [{ holdId: held.holdId }], waiterCount: 1 });
    expect((await pair.a.release('several', lease, { requestId: 'one' })).status).toBe(204);
    expect((await waiting).body).toMatchObject({ held: true, requestId: 'two' });
  });

  it('goes by the holdId when both are given', async () => {
    await using pair = await startPair();
    const lease = await pair.a.createLease({ ttlMs: 20_000 });
    const one = await pair.a.hold('both', lease, { requestId: 'one' });
    expect((await pair.b.acquire('both', lease, { requestId: 'two', keepPlace: true })).status).toBe(202);
    expect((await pair.b.release('both', lease, { holdId: one.holdId, requestId: 'two' })).status).toBe(204);
    const { body } = await pair.b.showLease(lease);
    expect(body.holds).toMatchObject([{ name: 'both', requestId: 'two' }]);
  });

  it('does not reach a hold of the same lease on another lock', async () => {
    await using pair = await startPair();
    const lease = await pair.a.createLease({ ttlMs: 20_000 });
    const { holdId } = await pair.a.hold('this-one', lease);
    await pair.a.hold('that-one', lease);
    expectNotHolder(await pair.b.release('elsewhere', lease, { holdId }));
    expectNotHolder(await pair.a.release('elsewhere', lease, { holdId }));
    expect(await pair.a.showLock('this-one')).toMatchObject({ holders: [{ holdId }] });
    await pair.b.release('that-one', lease, { holdId });
    expect(await pair.a.showLock('this-one')).toMatchObject({ holders: [{ holdId }] });
  });
});

describe('the hold of somebody else', () => {
  it('is not released by who read its holdId in the public listing', async () => {
    await using pair = await startPair();
    const [holder, thief] = await Promise.all([
      pair.a.createLease({ ttlMs: 20_000 }),
      pair.b.createLease({ ttlMs: 20_000 }),
    ]);
    await pair.a.hold('guarded', holder);
    const [{ holdId, fencingToken }] = (await pair.b.showLock('guarded')).holders;
    for (const replica of [pair.a, pair.b]) {
      expectNotHolder(await replica.release('guarded', thief, { holdId }));
      expectNotHolder(await replica.release('guarded', thief));
    }
    expect((await pair.b.acquire('guarded', thief, { keepPlace: true })).status).toBe(202);
    expectNotHolder(await pair.b.release('guarded', thief, { holdId }));
    expect(await pair.b.showLock('guarded')).toMatchObject({
      holders: [{ holdId, fencingToken, leaseId: holder.leaseId }],
      waiterCount: 1,
    });
    expect((await pair.b.release('guarded', holder, { holdId })).status).toBe(204);
  });

  it('is never freed by a late release of an old hold, not even of the same lease', async () => {
    await using pair = await startPair();
    const [one, two] = await Promise.all([
      pair.a.createLease({ ttlMs: 20_000 }),
      pair.b.createLease({ ttlMs: 20_000 }),
    ]);
    const old = await pair.a.hold('late', one, { requestId: 'r' });
    expect((await pair.a.release('late', one, { holdId: old.holdId })).status).toBe(204);
    const newer = await pair.b.hold('late', two, { requestId: 'r' });
    for (const replica of [pair.a, pair.b]) expectNotHolder(await replica.release('late', one, { holdId: old.holdId }));
    expect(await pair.a.showLock('late')).toMatchObject({ holders: [{ holdId: newer.holdId }] });

    expect((await pair.b.release('late', two, { holdId: newer.holdId })).status).toBe(204);
    const again = await pair.b.hold('late', one, { requestId: 'r' });
    for (const replica of [pair.a, pair.b]) expectNotHolder(await replica.release('late', one, { holdId: old.holdId }));
    expect(await pair.a.showLock('late')).toMatchObject({ holders: [{ holdId: again.holdId }] });
  });

  it('is not freed by a late release either when the lock was removed and made anew in between', async () => {
    await using pair = await startPair();
    const lease = await pair.a.createLease({ ttlMs: 20_000 });
    const old = await pair.a.hold('made-anew', lease);
    expect((await pair.a.release('made-anew', lease, { holdId: old.holdId })).status).toBe(204);
    await pair.a.gateway.context.control.delete(pair.a.gateway.context.layout.line('lock', 'default', 'made-anew'));
    const newer = await pair.b.hold('made-anew', lease);
    expect(newer.fencingToken).toBeGreaterThan(old.fencingToken);
    expect(newer.holdId).not.toBe(old.holdId);
    for (const replica of [pair.b, pair.a])
      expectNotHolder(await replica.release('made-anew', lease, { holdId: old.holdId }));
    expect(await pair.a.showLock('made-anew')).toMatchObject({ holders: [{ holdId: newer.holdId }] });
  });
});

describe('a waiting place', () => {
  it('is given up by a release through the other replica, and its open request is told', async () => {
    await using pair = await startPair();
    const [holder, waiter] = await Promise.all([
      pair.a.createLease({ ttlMs: 20_000 }),
      pair.b.createLease({ ttlMs: scaled(2_000) }),
    ]);
    await pair.a.hold('given-up', holder);
    const waiting = pair.b.acquire('given-up', waiter, { waitMs: 30_000, requestId: 'w' });
    await pair.a.untilWaiting('given-up', 1);
    expect((await pair.a.release('given-up', waiter, { requestId: 'w' })).status).toBe(204);
    expect(await pair.a.showLock('given-up')).toMatchObject({ waiterCount: 0 });
    const { status, body } = await waiting;
    expect(status).toBe(409);
    expect(body.code).toBe('conflict');
    expect((await pair.b.heartbeat(waiter)).status).toBe(200);
    expectNotHolder(await pair.b.release('given-up', waiter, { requestId: 'w' }));
  });

  it('that is kept is given up without waking or freeing anybody', async () => {
    await using pair = await startPair();
    const [holder, one, two] = await Promise.all([1, 2, 3].map(() => pair.a.createLease({ ttlMs: 20_000 })));
    const { holdId } = await pair.a.hold('kept', holder!);
    expect((await pair.a.acquire('kept', one, { keepPlace: true })).status).toBe(202);
    expect((await pair.b.acquire('kept', two, { keepPlace: true })).body.position).toBe(2);
    expect((await pair.b.release('kept', one!)).status).toBe(204);
    expect(await pair.b.showLock('kept')).toMatchObject({
      holders: [{ holdId }],
      waiters: [{ leaseId: two!.leaseId, position: 1 }],
      waiterCount: 1,
    });
  });
});

describe('a lease that has ended', () => {
  it('answers its release with 410, and the lock is free', async () => {
    await using pair = await startPair();
    const lease = await pair.a.createLease({ ttlMs: 20_000 });
    const { holdId } = await pair.a.hold('of-the-ended', lease);
    await expireSession(pair.b, lease.leaseId);
    await eventually('it is free', async () => (await pair.b.showLock('of-the-ended')).holders.length === 0);
    for (const replica of [pair.a, pair.b]) {
      expect((await replica.release('of-the-ended', lease, { holdId })).body).toMatchObject({
        status: 410,
        code: 'lease-expired',
      });
    }
  });
});
