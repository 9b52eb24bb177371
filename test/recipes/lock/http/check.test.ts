/** Fencing tokens: they only ever increase, and can be checked at any replica. */
import { describe, expect, it } from 'vitest';
import { startPair, startReplica, type Replica } from '../../../support/start-gateway.js';

function check(replica: Replica, name: string, fencingToken: number): Promise<unknown> {
  return replica.expect(200, 'POST', `/v1/locks/${name}/check`, { body: { fencingToken } });
}

describe('checking a fencing token', () => {
  it('says at every replica whether it is that of the present holder, and which is', async () => {
    await using pair = await startPair();
    const [one, two] = await Promise.all([
      pair.a.createLease({ ttlMs: 20_000 }),
      pair.b.createLease({ ttlMs: 20_000 }),
    ]);
    const { fencingToken } = await pair.a.hold('checked', one);
    for (const replica of [pair.a, pair.b]) {
      expect(await check(replica, 'checked', fencingToken)).toEqual({
        current: true,
        latestFencingToken: fencingToken,
      });
      expect(await check(replica, 'checked', fencingToken + 1)).toEqual({
        current: false,
        latestFencingToken: fencingToken,
      });
      expect(await check(replica, 'checked', 0)).toEqual({ current: false, latestFencingToken: fencingToken });
    }
    const waiting = pair.b.acquire('checked', two, { waitMs: 20_000 });
    await pair.a.untilWaiting('checked', 1);
    expect(await check(pair.b, 'checked', fencingToken)).toMatchObject({ current: true });
    await pair.a.release('checked', one);
    const { body } = await waiting;
    for (const replica of [pair.a, pair.b]) {
      expect(await check(replica, 'checked', fencingToken)).toEqual({
        current: false,
        latestFencingToken: body.fencingToken,
      });
      expect(await check(replica, 'checked', body.fencingToken as number)).toEqual({
        current: true,
        latestFencingToken: body.fencingToken,
      });
    }
  });

  it('says null when nobody holds, also when somebody has kept a place, and for a lock that never was', async () => {
    await using pair = await startPair();
    const [one, two] = await Promise.all([
      pair.a.createLease({ ttlMs: 20_000 }),
      pair.b.createLease({ ttlMs: 20_000 }),
    ]);
    const { fencingToken } = await pair.a.hold('freed', one);
    expect((await pair.b.acquire('freed', two, { keepPlace: true })).status).toBe(202);
    await pair.a.release('freed', one);
    for (const replica of [pair.a, pair.b]) {
      expect(await check(replica, 'freed', fencingToken)).toEqual({ current: false, latestFencingToken: null });
      expect(await check(replica, 'never', 1)).toEqual({ current: false, latestFencingToken: null });
    }
  });

  it('is not fooled by the token of an ended lease', async () => {
    await using pair = await startPair();
    const lease = await pair.a.createLease({ ttlMs: 20_000 });
    const { fencingToken } = await pair.a.hold('of-the-dead', lease);
    await pair.a.endLease(lease);
    expect(await check(pair.b, 'of-the-dead', fencingToken)).toEqual({ current: false, latestFencingToken: null });
  });

  it('needs a token that is a whole number from 0 to 2^53 - 1', async () => {
    await using replica = await startReplica();
    for (const body of [
      {},
      { fencingToken: -1 },
      { fencingToken: 1.5 },
      { fencingToken: '7' },
      { fencingToken: null },
      { fencingToken: 7, holdId: 'x' },
    ]) {
      const reply = await replica.call('POST', '/v1/locks/checked/check', { body });
      expect(reply.status, JSON.stringify(body)).toBe(422);
      expect(reply.body.field).toBe('holdId' in body ? 'holdId' : 'fencingToken');
    }
    const beyond = await replica.call('POST', '/v1/locks/checked/check', { body: { fencingToken: 2 ** 53 } });
    expect(beyond).toMatchObject({ status: 422, body: { field: 'fencingToken' } });
    expect(await check(replica, 'checked', 2 ** 53 - 1)).toMatchObject({ current: false });
  });
});

describe('fencing tokens', () => {
  it('strictly increase over many holders, leases and both replicas', async () => {
    await using pair = await startPair();
    let last = -1;
    for (let round = 0; round < 12; round++) {
      const replica = [pair.a, pair.b][round % 2]!;
      const lease = await replica.createLease({ ttlMs: 20_000 });
      const { fencingToken } = await replica.hold('increasing', lease);
      expect(fencingToken).toBeGreaterThan(last);
      last = fencingToken;
      if (round % 3 === 0) await pair.a.endLease(lease);
      else await pair.b.release('increasing', lease);
    }
  });

  it('strictly increase also after the directory of the lock was removed', async () => {
    await using pair = await startPair();
    const { control, layout } = pair.a.gateway.context;
    const lease = await pair.a.createLease({ ttlMs: 20_000 });
    let last = -1;
    for (let round = 0; round < 3; round++) {
      const { fencingToken } = await pair.b.hold('removed', lease);
      expect(fencingToken).toBeGreaterThan(last);
      last = fencingToken;
      await pair.a.release('removed', lease);
      await control.delete(layout.line('lock', 'default', 'removed'));
    }
  });

  it('strictly increase also after housekeeping has removed the unused lock', async () => {
    await using pair = await startPair({ housekeeping: { everyMs: 50, idleMs: 100, removedAfterMs: 100 } });
    const { control, layout } = pair.a.gateway.context;
    const lease = await pair.a.createLease({ ttlMs: 20_000 });
    const first = await pair.b.hold('unused', lease);
    await pair.b.release('unused', lease);
    await expect
      .poll(() => control.exists(layout.line('lock', 'default', 'unused')), { timeout: 10_000, interval: 20 })
      .toBeUndefined();
    const second = await pair.a.hold('unused', lease);
    expect(second.fencingToken).toBeGreaterThan(first.fencingToken);
    expect(await check(pair.b, 'unused', first.fencingToken)).toEqual({
      current: false,
      latestFencingToken: second.fencingToken,
    });
  });
});
