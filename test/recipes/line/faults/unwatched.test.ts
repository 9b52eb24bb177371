/**
 * Waiting requests that watch nobody: the request before them is in the same replica, and tells them. Whatever happens
 * to that one, and wherever, they get the lock as soon as it is theirs.
 */
import { describe, expect, it } from 'vitest';
import type { Held, LeaseHandle, Reply } from '../../../support/http/client.js';
import { eventually } from '../../../support/eventually.js';
import { expireSession, STANDING_WATCHES, startPair, type Pair, type Replica } from '../../../support/start-gateway.js';
import { scaled } from '../../../support/timing.js';

const NAME = 'unwatched';
const WAIT_MS = 50_000;
/** Nobody who waits looks by itself within this time: it would at the next heartbeat. */
const TTL_MS = 60_000;
const SOON_MS = scaled(3_000);

interface Scene {
  holder: LeaseHandle;
  held: Held;
  leases: LeaseHandle[];
  waits: Promise<Reply>[];
}

/** So many wait at `pair.a`, one behind the other, for a lock that is held through `at`. */
async function crowd({ a }: Pair, count: number, at: Replica): Promise<Scene> {
  const holder = await at.createLease({ ttlMs: TTL_MS });
  const held = await at.hold(NAME, holder);
  const leases: LeaseHandle[] = [];
  const waits: Promise<Reply>[] = [];
  for (let i = 0; i < count; i += 1) {
    const lease = await a.createLease({ ttlMs: TTL_MS });
    waits.push(a.acquire(NAME, lease, { waitMs: WAIT_MS }));
    leases.push(lease);
    await a.untilWaiting(NAME, i + 1);
  }
  await eventually('all wait', async () => (await a.metric('postern_waiters', { kind: 'lock' })) === count);
  return { holder, held, leases, waits };
}

async function heldSoon(wait: Promise<Reply> | undefined, begunAt: number): Promise<Held> {
  const { status, body } = (await wait) as Reply;
  expect(status).toBe(200);
  expect(performance.now() - begunAt).toBeLessThan(SOON_MS);
  return body as Held;
}

describe('waiting requests that watch nobody', () => {
  it('are a whole crowd but one, and each gets the lock in its turn', async () => {
    await using pair = await startPair();
    const { a, b } = pair;
    const { holder, held, leases, waits } = await crowd(pair, 20, b);
    const watches = await a.metric('postern_watches');
    expect(watches).toBeLessThanOrEqual(STANDING_WATCHES + 1);
    const begunAt = performance.now();
    expect((await b.release(NAME, holder, { holdId: held.holdId })).status).toBe(204);
    let token = held.fencingToken;
    for (const [i, wait] of waits.entries()) {
      const { holdId, fencingToken } = await heldSoon(wait, begunAt);
      expect(fencingToken).toBeGreaterThan(token);
      token = fencingToken;
      expect((await a.release(NAME, leases[i] as LeaseHandle, { holdId })).status).toBe(204);
    }
  });

  it('get the lock when the hold before them is released through another replica, at once or later', async () => {
    await using pair = await startPair();
    const { a, b } = pair;
    const { holder, held, leases, waits } = await crowd(pair, 6, a);
    await a.release(NAME, holder, { holdId: held.holdId });
    for (const [i, wait] of waits.entries()) {
      const begunAt = performance.now();
      const { holdId } = await heldSoon(wait, begunAt);
      // Of two holds one stands until it is watched.
      if (i % 2 === 1)
        await eventually(
          'it is watched',
          async () => (await a.metric('postern_watches')) > STANDING_WATCHES || i === 5,
        );
      expect((await b.release(NAME, leases[i] as LeaseHandle, { holdId })).status).toBe(204);
    }
  });

  it('get the lock when the place before them was given up through another replica, unknown to its request', async () => {
    await using pair = await startPair();
    const { a, b } = pair;
    const { holder, held, leases, waits } = await crowd(pair, 4, a);
    for (const lease of leases.slice(0, 3)) expect((await b.release(NAME, lease)).status).toBe(204);
    const begunAt = performance.now();
    await a.release(NAME, holder, { holdId: held.holdId });
    await heldSoon(waits[3], begunAt);
    expect((await Promise.all(waits.slice(0, 3))).map(({ status }) => status)).toEqual([409, 409, 409]);
  });

  it('get the lock when the lease before them ends while it waits, and when it ends while it holds', async () => {
    await using pair = await startPair();
    const { a } = pair;
    const { holder, held, leases, waits } = await crowd(pair, 3, a);
    const [waiting, next] = leases as [LeaseHandle, LeaseHandle, LeaseHandle];
    await expireSession(a, waiting.leaseId);
    expect((await waits[0])?.status).toBe(410);
    const begunAt = performance.now();
    await a.release(NAME, holder, { holdId: held.holdId });
    await heldSoon(waits[1], begunAt);
    await expireSession(a, next.leaseId);
    await heldSoon(waits[2], begunAt);
  });

  it('get the lock when the request before them has waited in vain, or its client has hung up', async () => {
    await using pair = await startPair();
    const { a, b } = pair;
    const holder = await b.createLease({ ttlMs: TTL_MS });
    const held = await b.hold(NAME, holder);
    const leases = await Promise.all([0, 1, 2].map(() => a.createLease({ ttlMs: TTL_MS })));
    const [early, gone, last] = leases as [LeaseHandle, LeaseHandle, LeaseHandle];
    const vain = a.acquire(NAME, early, { waitMs: scaled(500) });
    await a.untilWaiting(NAME, 1);
    const leaving = new AbortController();
    const cut = fetch(`${a.url}/v1/locks/${NAME}/acquire`, {
      method: 'POST',
      headers: { 'lease-token': gone.leaseToken, 'content-type': 'application/json' },
      body: JSON.stringify({ waitMs: WAIT_MS }),
      signal: leaving.signal,
    }).catch(() => undefined);
    await a.untilWaiting(NAME, 2);
    const wait = a.acquire(NAME, last, { waitMs: WAIT_MS });
    await a.untilWaiting(NAME, 3);
    expect((await vain).status).toBe(409);
    leaving.abort();
    await cut;
    await a.untilWaiting(NAME, 1);
    const begunAt = performance.now();
    await b.release(NAME, holder, { holdId: held.holdId });
    await heldSoon(wait, begunAt);
  });
});
