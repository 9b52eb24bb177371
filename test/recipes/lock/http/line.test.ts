/** The line in front of a lock: its order, places that are kept, and clients that go away. */
import { describe, expect, it } from 'vitest';
import type { LeaseHandle, Reply } from '../../../support/http/client.js';
import { eventually, throughout } from '../../../support/eventually.js';
import { startPair, type Pair } from '../../../support/start-gateway.js';
import { scaled } from '../../../support/timing.js';

function leases(pair: Pair, count: number, ttlMs = 20_000): Promise<LeaseHandle[]> {
  return Promise.all(Array.from({ length: count }, (_, index) => [pair.a, pair.b][index % 2]!.createLease({ ttlMs })));
}

async function lineOf(pair: Pair, name: string): Promise<string[]> {
  return ((await pair.b.showLock(name)).waiters as { leaseId: string }[]).map(({ leaseId }) => leaseId);
}

describe('the line', () => {
  it('is served in the order of arrival over both replicas', async () => {
    await using pair = await startPair();
    const [holder, ...others] = await leases(pair, 9);
    await pair.a.hold('fifo', holder!);
    const order: string[] = [];
    const waits: Promise<Reply>[] = [];
    for (const [index, lease] of others.entries()) {
      const replica = [pair.a, pair.b, pair.b][index % 3]!;
      waits.push(
        replica.acquire('fifo', lease, { waitMs: 30_000 }).then(async (reply) => {
          order.push(reply.body.leaseId as string);
          expect(
            (await [pair.b, pair.a][index % 2]!.release('fifo', lease, { holdId: reply.body.holdId })).status,
          ).toBe(204);
          return reply;
        }),
      );
      await pair.a.untilWaiting('fifo', index + 1);
    }
    const expected = others.map(({ leaseId }) => leaseId);
    expect(await lineOf(pair, 'fifo')).toEqual(expected);
    await pair.b.release('fifo', holder!);
    const replies = await Promise.all(waits);
    expect(replies.map(({ status }) => status)).toEqual(Array(8).fill(200));
    expect(order).toEqual(expected);
    const tokens = replies.map(({ body }) => body.fencingToken as number);
    expect(tokens).toEqual([...tokens].sort((one, two) => one - two));
    expect(new Set(tokens).size).toBe(8);
    expect(await pair.a.showLock('fifo')).toMatchObject({ holders: [], waiterCount: 0 });
  });

  it('takes no hold back from who repeats its request where it is not known yet that those before it have gone', async () => {
    await using pair = await startPair();
    const [first, second, third] = await leases(pair, 3);
    await pair.a.hold('moved-up', first!);
    const granted = pair.b.acquire('moved-up', second, { waitMs: 20_000 });
    await pair.a.untilWaiting('moved-up', 1);
    // This one listed the line when all three stood in it, and watches only the one before it.
    const waiting = pair.a.acquire('moved-up', third, { waitMs: 20_000 });
    await pair.a.untilWaiting('moved-up', 2);
    await pair.a.endLease(first!);
    const { status, body } = await granted;
    expect(status).toBe(200);
    const again = await pair.a.acquire('moved-up', second, { waitMs: 0, keepPlace: true });
    expect(again).toMatchObject({ status: 200, body: { alreadyHeld: true, holdId: body.holdId } });
    await pair.a.release('moved-up', second!);
    expect((await waiting).status).toBe(200);
  });

  it('gives the lock to who asks again without waiting, where it is not known yet that those before it have gone', async () => {
    await using pair = await startPair();
    const [first, second, third] = await leases(pair, 3);
    await pair.a.hold('asked-again', first!);
    const body = { waitMs: 0, keepPlace: true };
    expect((await pair.a.acquire('asked-again', second, body)).status).toBe(202);
    // This one listed the line when all three stood in it, and watches only the one before it.
    const waiting = pair.b.acquire('asked-again', third, { waitMs: 20_000 });
    await pair.a.untilWaiting('asked-again', 2);
    await pair.a.endLease(first!);
    expect(await pair.b.acquire('asked-again', second, body)).toMatchObject({
      status: 200,
      body: { alreadyHeld: false },
    });
    await pair.a.release('asked-again', second!);
    expect((await waiting).status).toBe(200);
  });

  it('moves up when somebody in the middle leaves, and when a waiting lease ends', async () => {
    await using pair = await startPair();
    const [holder, two, three] = await leases(pair, 3);
    const one = await pair.b.createLease({ ttlMs: scaled(2_000) }); // an ended lease is noticed within a third of this
    await pair.a.hold('shrinking', holder!);
    const replies: Promise<Reply>[] = [];
    for (const [index, lease] of [one, two!, three!].entries()) {
      replies.push([pair.a, pair.b][index % 2]!.acquire('shrinking', lease, { waitMs: 20_000 }));
      await pair.a.untilWaiting('shrinking', index + 1);
    }
    expect((await pair.b.release('shrinking', two!)).status).toBe(204);
    expect((await replies[1]!).status).toBe(409);
    expect((await pair.a.endLease(one)).status).toBe(204);
    expect((await replies[0]!).body).toMatchObject({ status: 410, code: 'lease-expired' });
    expect(await lineOf(pair, 'shrinking')).toEqual([three!.leaseId]);
    await pair.a.release('shrinking', holder!);
    expect((await replies[2]!).status).toBe(200);
  });

  it('lets a client wait longer than its TTL, without any heartbeat of its own', async () => {
    await using pair = await startPair();
    const [holder] = await leases(pair, 1);
    const patient = await pair.b.createLease({ ttlMs: scaled(1_200) });
    await pair.a.hold('patience', holder!);
    const waiting = pair.b.acquire('patience', patient, { waitMs: 20_000 });
    await pair.a.untilWaiting('patience', 1);
    await throughout('it stays in line', async () => (await lineOf(pair, 'patience')).length === 1, {
      forMs: scaled(3_000),
      everyMs: 50,
    });
    await pair.a.release('patience', holder!);
    const { status, body } = await waiting;
    expect(status).toBe(200);
    expect(body.waitedMs).toBeGreaterThan(scaled(2_500));
    expect(Date.parse(body.expiresAt as string)).toBeGreaterThan(Date.now() - 500);
    expect((await pair.a.heartbeat(patient)).status).toBe(200);
  });
});

describe('a kept place', () => {
  it('is answered 202 with its position, at once without waitMs, and else when waitMs has passed', async () => {
    await using pair = await startPair();
    const [holder, one, two] = await leases(pair, 3);
    await pair.a.hold('kept', holder!);
    const first = await pair.a.acquire('kept', one, { keepPlace: true, requestId: 'r1' });
    expect(first.status).toBe(202);
    expect(first.body).toMatchObject({ name: 'kept', held: false, position: 1, requestId: 'r1' });
    expect(first.body.leaseToken).toBeUndefined();
    const sentAt = performance.now();
    const second = await pair.b.acquire('kept', two, { keepPlace: true, waitMs: 600 });
    expect(second.status).toBe(202);
    expect(second.body).toMatchObject({ held: false, position: 2, requestId: '' });
    expect(performance.now() - sentAt).toBeGreaterThanOrEqual(500);
    expect(await lineOf(pair, 'kept')).toEqual([one!.leaseId, two!.leaseId]);
  });

  it('is taken up again by the same request at the other replica, in its old position', async () => {
    await using pair = await startPair();
    const [holder, one, two] = await leases(pair, 3);
    await pair.a.hold('resumed', holder!);
    expect((await pair.a.acquire('resumed', one, { keepPlace: true })).body.position).toBe(1);
    expect((await pair.a.acquire('resumed', two, { keepPlace: true })).body.position).toBe(2);
    const since = ((await pair.a.showLock('resumed')).waiters as { since: string }[]).map(({ since }) => since);
    for (let turn = 0; turn < 3; turn++) {
      expect(
        (await [pair.b, pair.a][turn % 2]!.acquire('resumed', one, { keepPlace: true, waitMs: 50 })).body.position,
      ).toBe(1);
    }
    expect(await lineOf(pair, 'resumed')).toEqual([one!.leaseId, two!.leaseId]);
    expect(((await pair.a.showLock('resumed')).waiters as { since: string }[]).map(({ since }) => since)).toEqual(
      since,
    );
    const second = pair.a.acquire('resumed', two, { keepPlace: true, waitMs: 20_000 });
    const first = pair.b.acquire('resumed', one, { keepPlace: true, waitMs: 20_000 });
    await pair.b.release('resumed', holder!);
    const granted = await first;
    expect(granted.body).toMatchObject({ held: true, leaseId: one!.leaseId, alreadyHeld: false });
    expect((await pair.a.release('resumed', one!)).status).toBe(204);
    expect((await second).body).toMatchObject({ held: true, leaseId: two!.leaseId });
  });

  it('is held by the same request when the lock became free in between', async () => {
    await using pair = await startPair();
    const [holder, one] = await leases(pair, 2);
    const { fencingToken } = await pair.a.hold('came-free', holder!);
    expect((await pair.a.acquire('came-free', one, { keepPlace: true })).status).toBe(202);
    await pair.a.release('came-free', holder!);
    const { status, body } = await pair.b.acquire('came-free', one, { keepPlace: true });
    expect(status).toBe(200);
    expect(body).toMatchObject({ held: true, alreadyHeld: false });
    expect(body.fencingToken).toBeGreaterThan(fencingToken);
  });

  it('counts its position from the next to be granted, as the lock shows it, also when nobody holds', async () => {
    await using pair = await startPair();
    const [holder, one, two] = await leases(pair, 3);
    await pair.a.hold('positions', holder!);
    expect((await pair.a.acquire('positions', one, { keepPlace: true })).body.position).toBe(1);
    await pair.a.release('positions', holder!);
    const { body } = await pair.b.acquire('positions', two, { keepPlace: true });
    expect(body.position).toBe(2);
    expect((await pair.b.showLock('positions')).waiters).toMatchObject([{ position: 1 }, { position: 2 }]);
  });

  it('is given up by the same request without keepPlace, when that waits in vain', async () => {
    await using pair = await startPair();
    const [holder, one] = await leases(pair, 2);
    await pair.a.hold('no-longer', holder!);
    expect((await pair.a.acquire('no-longer', one, { keepPlace: true })).status).toBe(202);
    expect((await pair.b.acquire('no-longer', one, { waitMs: 100 })).body).toMatchObject({ code: 'lock-held' });
    await eventually('nobody is in line', async () => (await lineOf(pair, 'no-longer')).length === 0);
  });

  it('is gone with the lease', async () => {
    await using pair = await startPair();
    const [holder, one] = await leases(pair, 2);
    await pair.a.hold('place-of-lease', holder!);
    expect((await pair.b.acquire('place-of-lease', one, { keepPlace: true })).status).toBe(202);
    await pair.a.endLease(one!);
    expect(await lineOf(pair, 'place-of-lease')).toEqual([]);
  });
});

describe('a client that goes away while it waits', () => {
  it('leaves no place in line, and its lease lives', async () => {
    await using pair = await startPair();
    const [holder, one] = await leases(pair, 2);
    await pair.a.hold('left', holder!);
    const gone = new AbortController();
    const waiting = pair.b.acquire('left', one, { waitMs: 30_000 }, { signal: gone.signal });
    await pair.a.untilWaiting('left', 1);
    gone.abort();
    await expect(waiting).rejects.toThrow();
    await eventually('nobody is in line', async () => (await lineOf(pair, 'left')).length === 0);
    expect((await pair.a.heartbeat(one!)).status).toBe(200);
  });

  it('keeps its place with keepPlace, and goes on at the other replica', async () => {
    await using pair = await startPair();
    const [holder, one, two] = await leases(pair, 3);
    await pair.a.hold('comes-back', holder!);
    const gone = new AbortController();
    const waiting = pair.b.acquire('comes-back', one, { waitMs: 30_000, keepPlace: true }, { signal: gone.signal });
    await pair.a.untilWaiting('comes-back', 1);
    expect((await pair.a.acquire('comes-back', two, { keepPlace: true })).body.position).toBe(2);
    gone.abort();
    await expect(waiting).rejects.toThrow();
    await throughout('its place stays', async () => (await lineOf(pair, 'comes-back'))[0] === one!.leaseId);
    const again = pair.a.acquire('comes-back', one, { waitMs: 20_000, keepPlace: true });
    await pair.b.release('comes-back', holder!);
    expect((await again).body).toMatchObject({ held: true, leaseId: one!.leaseId });
  });

  it('does not give up the place that it already waits for again elsewhere', async () => {
    await using pair = await startPair();
    const [holder, one, two] = await leases(pair, 3);
    await pair.a.hold('overtaken', holder!);
    const gone = new AbortController();
    const first = pair.a.acquire('overtaken', one, { waitMs: 30_000 }, { signal: gone.signal });
    await pair.a.untilWaiting('overtaken', 1);
    const other = pair.b.acquire('overtaken', two, { waitMs: 20_000 });
    await pair.a.untilWaiting('overtaken', 2);
    const second = pair.b.acquire('overtaken', one, { waitMs: 20_000 });
    await eventually(
      'the second try waits',
      async () => (await pair.b.metric('postern_waiters', { kind: 'lock' })) === 2,
    );
    gone.abort();
    await expect(first).rejects.toThrow();
    await throughout('the place stays', async () => (await lineOf(pair, 'overtaken'))[0] === one!.leaseId);
    await pair.a.release('overtaken', holder!);
    expect((await second).body).toMatchObject({ held: true, leaseId: one!.leaseId });
    await pair.a.release('overtaken', one!);
    expect((await other).status).toBe(200);
  });
});
