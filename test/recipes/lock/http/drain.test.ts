/** A replica that shuts down in good order hands its waiters over: 202 or 503 `draining`, and no place is lost. */
import { describe, expect, it } from 'vitest';
import type { LeaseHandle } from '../../../support/http/client.js';
import { eventually } from '../../../support/eventually.js';
import { startPair, type Pair } from '../../../support/start-gateway.js';

async function lineOf(pair: Pair, name: string): Promise<string[]> {
  return ((await pair.b.showLock(name)).waiters as { leaseId: string }[]).map(({ leaseId }) => leaseId);
}

function leases(pair: Pair, count: number): Promise<LeaseHandle[]> {
  return Promise.all(Array.from({ length: count }, () => pair.b.createLease({ ttlMs: 20_000 })));
}

describe('a draining replica', () => {
  it('answers who waits at once, keeps the places, and the other replica goes on with them in their order', async () => {
    await using pair = await startPair();
    const [holder, one, two, three] = (await leases(pair, 4)) as [LeaseHandle, LeaseHandle, LeaseHandle, LeaseHandle];
    await pair.b.hold('handed-over', holder);
    const keeping = pair.a.acquire('handed-over', one, { waitMs: 30_000, keepPlace: true });
    await pair.b.untilWaiting('handed-over', 1);
    const waiting = pair.a.acquire('handed-over', two, { waitMs: 30_000 });
    await pair.b.untilWaiting('handed-over', 2);
    const elsewhere = pair.b.acquire('handed-over', three, { waitMs: 30_000 });
    await pair.b.untilWaiting('handed-over', 3);

    const stopped = pair.a.gateway.stop();
    const kept = await keeping;
    expect(kept.status).toBe(202);
    expect(kept.body).toMatchObject({ held: false, position: 1 });
    const refused = await waiting;
    expect(refused.status).toBe(503);
    expect(refused.body).toMatchObject({ code: 'draining', retryable: true, type: '/problems/draining' });
    expect(refused.body).toMatchObject({ placeKept: true, outcome: 'unknown' });
    expect(Number(refused.headers['retry-after'])).toBeGreaterThanOrEqual(0);
    await stopped;
    expect(await lineOf(pair, 'handed-over')).toEqual([one, two, three].map(({ leaseId }) => leaseId));

    const again = [
      pair.b.acquire('handed-over', two, { waitMs: 20_000 }),
      pair.b.acquire('handed-over', one, { waitMs: 20_000, keepPlace: true }),
    ];
    await eventually(
      'all of them wait at the other replica',
      async () => (await pair.b.metric('postern_waiters', { kind: 'lock' })) === 3,
    );
    expect(await lineOf(pair, 'handed-over')).toEqual([one, two, three].map(({ leaseId }) => leaseId));
    await pair.b.release('handed-over', holder);
    const first = await again[1]!;
    expect(first.body).toMatchObject({ held: true, leaseId: one.leaseId });
    await pair.b.release('handed-over', one);
    const second = await again[0]!;
    expect(second.body).toMatchObject({ held: true, leaseId: two.leaseId });
    expect(second.body.fencingToken).toBeGreaterThan(first.body.fencingToken as number);
    await pair.b.release('handed-over', two);
    expect((await elsewhere).body).toMatchObject({ held: true, leaseId: three.leaseId });
  });

  it('hands over a one-call acquire too: the same request finds lease and place at the other replica', async () => {
    await using pair = await startPair();
    const [holder] = (await leases(pair, 1)) as [LeaseHandle];
    await pair.b.hold('one-call', holder);
    const request = { lease: { ttlMs: 20_000 }, requestId: 'r-00000000000000000000', waitMs: 20_000 };
    const keeping = pair.a.acquire('one-call', undefined, { ...request, keepPlace: true });
    await pair.b.untilWaiting('one-call', 1);
    const waiting = pair.a.acquire('one-call', undefined, { ...request, requestId: 's-00000000000000000000' });
    await pair.b.untilWaiting('one-call', 2);
    const line = await lineOf(pair, 'one-call');
    const stopped = pair.a.gateway.stop();
    expect((await keeping).body).toMatchObject({ held: false, position: 1, leaseId: line[0] });
    expect((await waiting).body).toMatchObject({ status: 503, code: 'draining' });
    await stopped;
    const second = pair.b.acquire('one-call', undefined, { ...request, requestId: 's-00000000000000000000' });
    const first = pair.b.acquire('one-call', undefined, { ...request, keepPlace: true });
    await eventually(
      'both wait at the other replica',
      async () => (await pair.b.metric('postern_waiters', { kind: 'lock' })) === 2,
    );
    expect(await lineOf(pair, 'one-call')).toEqual(line);
    await pair.b.release('one-call', holder);
    const granted = (await first).body as LeaseHandle;
    expect(granted).toMatchObject({ held: true, leaseId: line[0], leaseToken: (await keeping).body.leaseToken });
    await pair.b.endLease(granted);
    expect((await second).body).toMatchObject({ held: true, leaseId: line[1] });
  });

  it('tells a long poll to repeat itself, and leaves leases and holds alone', async () => {
    await using pair = await startPair();
    const [holder] = (await leases(pair, 1)) as [LeaseHandle];
    const { holdId, fencingToken } = await pair.a.hold('untouched', holder);
    const etag = String((await pair.a.call('GET', '/v1/locks/untouched')).headers['etag']);
    const polling = pair.a.call('GET', '/v1/locks/untouched?waitMs=30000', { headers: { 'if-none-match': etag } });
    await eventually('it waits', () => pair.a.gateway.recipes.line.observers.size === 1);
    await pair.a.gateway.stop();
    expect((await polling).body).toMatchObject({ status: 503, code: 'draining' });
    expect((await pair.b.heartbeat(holder)).status).toBe(200);
    expect(await pair.b.showLock('untouched')).toMatchObject({ holders: [{ holdId, fencingToken }] });
    expect((await pair.b.release('untouched', holder, { holdId })).status).toBe(204);
  });
});
