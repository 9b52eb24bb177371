/** Semaphores: how many hold at once, in which order, and what they agree on. */
import { describe, expect, test } from 'vitest';
import type { LeaseHandle, Reply } from '../../../support/http/client.js';
import { eventually, throughout } from '../../../support/eventually.js';
import { expireSession, startPair, type Pair, type Replica } from '../../../support/start-gateway.js';

const TTL_MS = 10_000;

function acquire(replica: Replica, lease: LeaseHandle, body: Record<string, unknown>): Promise<Reply> {
  return replica.call('POST', '/v1/semaphores/pool/acquire', { body, leaseToken: lease.leaseToken });
}

function release(replica: Replica, lease: LeaseHandle, body: Record<string, unknown> = {}): Promise<Reply> {
  return replica.call('POST', '/v1/semaphores/pool/release', { body, leaseToken: lease.leaseToken });
}

interface Shown {
  limit: number | null;
  permitsHeld: number;
  holderCount: number;
  waiterCount: number;
  holders: { leaseId: string; count: number; fencingToken: number }[];
  waiters: { leaseId: string; count: number }[];
}

function show(replica: Replica): Promise<Shown> {
  return replica.expect(200, 'GET', '/v1/semaphores/pool') as Promise<Shown>;
}

function setLimit(replica: Replica, limit: number): Promise<Reply> {
  return replica.call('PUT', '/v1/semaphores/pool', { body: { limit } });
}

async function untilWaiting(replica: Replica, count: number): Promise<void> {
  await eventually(`${count} wait`, async () => (await show(replica)).waiterCount === count);
}

async function leases<N extends number>(pair: Pair, count: N, ttlMs = TTL_MS): Promise<LeaseHandle[]> {
  return Promise.all(Array.from({ length: count }, (_, i) => (i % 2 === 0 ? pair.a : pair.b).createLease({ ttlMs })));
}

function at<T>(list: readonly T[], index: number): T {
  return list[index] as T;
}

interface Held {
  holdId: string;
  fencingToken: number;
}

/** A request that waits, and what has become of it so far. */
function waiting(
  replica: Replica,
  lease: LeaseHandle,
  body: Record<string, unknown>,
): { reply?: Reply; done: Promise<Reply> } {
  const wait: { reply?: Reply; done: Promise<Reply> } = {
    done: acquire(replica, lease, { waitMs: 20_000, ...body }).then((reply) => (wait.reply = reply)),
  };
  return wait;
}

describe('a semaphore', () => {
  test('is held by as many as the limit says at both replicas, and by nobody more', async () => {
    await using pair = await startPair();
    const [one, two, three] = (await leases(pair, 3)) as [LeaseHandle, LeaseHandle, LeaseHandle];
    expect((await acquire(pair.a, one, { limit: 2 })).body).toMatchObject({ held: true, count: 1, alreadyHeld: false });
    expect((await acquire(pair.b, two, { limit: 2 })).status).toBe(200);
    const refused = await acquire(pair.a, three, { limit: 2 });
    expect(refused.status).toBe(409);
    expect(refused.body).toMatchObject({ code: 'lock-held', holder: { leaseId: one.leaseId } });
    expect(await show(pair.b)).toMatchObject({ limit: 2, permitsHeld: 2, holderCount: 2, waiterCount: 0 });
  });

  test('wakes one waiter per release, in the order of arrival, over two replicas', async () => {
    await using pair = await startPair();
    const all = await leases(pair, 8);
    const held: Held[] = [];
    for (const [i, lease] of all.slice(0, 2).entries())
      held.push((await acquire(i === 0 ? pair.a : pair.b, lease, { limit: 2 })).body as Held);
    const waits = [];
    for (const [i, lease] of all.slice(2).entries()) {
      waits.push(waiting(i % 2 === 0 ? pair.a : pair.b, lease, { limit: 2 }));
      await untilWaiting(pair.a, i + 1);
    }
    let last = held.map(({ fencingToken }) => fencingToken).at(-1) ?? 0;
    const releasers = all.map((lease, i) => ({ lease, replica: i % 2 === 0 ? pair.b : pair.a }));
    for (const [i, wait] of waits.entries()) {
      const { lease, replica } = at(releasers, i);
      expect((await release(replica, lease)).status).toBe(204);
      const granted = await wait.done;
      expect(granted.status).toBe(200);
      expect((granted.body as Held).fencingToken).toBeGreaterThan(last);
      last = (granted.body as Held).fencingToken;
      expect(waits.slice(i + 1).every(({ reply }) => reply === undefined)).toBe(true);
      expect((await show(pair.a)).permitsHeld).toBe(2);
    }
    const sum = async (name: string): Promise<number> =>
      (await pair.a.metric(name, { kind: 'semaphore' })) + (await pair.b.metric(name, { kind: 'semaphore' }));
    expect(await sum('postern_handoffs_total')).toBe(6);
    expect(await sum('postern_wakeups_total')).toBe(6);
    expect(await sum('postern_spurious_wakeups_total')).toBe(0);
  });

  test('does not let those who want few overtake one who wants many', async () => {
    await using pair = await startPair();
    const [first, second, big, small] = (await leases(pair, 4)) as [LeaseHandle, LeaseHandle, LeaseHandle, LeaseHandle];
    await acquire(pair.a, first, { limit: 4, count: 2 });
    await acquire(pair.b, second, { limit: 4 });
    const many = waiting(pair.a, big, { limit: 4, count: 3 });
    await untilWaiting(pair.b, 1);
    expect((await acquire(pair.b, small, { limit: 4 })).status).toBe(409);
    const few = waiting(pair.b, small, { limit: 4 });
    await untilWaiting(pair.a, 2);
    await throughout('nobody takes the one free permit', () => many.reply === undefined && few.reply === undefined);
    await release(pair.b, first);
    expect((await many.done).status).toBe(200);
    expect(few.reply).toBeUndefined();
    expect(await show(pair.a)).toMatchObject({ permitsHeld: 4, waiterCount: 1 });
    await release(pair.a, second);
    expect((await few.done).status).toBe(200);
  });

  test('lets in those who fit when one before them that wanted many gives up', async () => {
    await using pair = await startPair();
    const [holder, big, small] = (await leases(pair, 3)) as [LeaseHandle, LeaseHandle, LeaseHandle];
    await acquire(pair.a, holder, { limit: 3, count: 2 });
    const many = waiting(pair.a, big, { limit: 3, count: 2 });
    await untilWaiting(pair.a, 1);
    const few = waiting(pair.b, small, { limit: 3 });
    await untilWaiting(pair.a, 2);
    expect((await release(pair.b, big)).status).toBe(204);
    expect((await few.done).status).toBe(200);
    expect((await many.done).status).toBe(409);
  });

  test('is held several times by one lease under several requestIds, each released by itself', async () => {
    await using pair = await startPair();
    const lease = await pair.a.createLease({ ttlMs: TTL_MS });
    const first = (await acquire(pair.a, lease, { limit: 3, requestId: 'one' })).body as Held;
    expect((await acquire(pair.b, lease, { limit: 3, requestId: 'two', count: 2 })).status).toBe(200);
    expect((await acquire(pair.b, lease, { limit: 3, requestId: 'one' })).body).toMatchObject({
      holdId: first.holdId,
      fencingToken: first.fencingToken,
      alreadyHeld: true,
    });
    const other = await acquire(pair.b, lease, { limit: 3, requestId: 'one', count: 2 });
    expect(other.status).toBe(409);
    expect(other.body).toMatchObject({ code: 'conflict' });
    expect((await pair.b.showLease(lease)).body.holds).toMatchObject([
      { kind: 'semaphore', name: 'pool', held: true, requestId: 'one' },
      { kind: 'semaphore', name: 'pool', held: true, requestId: 'two' },
    ]);
    expect((await release(pair.b, lease, { holdId: first.holdId })).status).toBe(204);
    expect((await release(pair.a, lease, { holdId: first.holdId })).status).toBe(409);
    expect(await show(pair.a)).toMatchObject({ permitsHeld: 2, holderCount: 1 });
    expect((await release(pair.a, lease, { requestId: 'two' })).status).toBe(204);
    expect(await show(pair.a)).toMatchObject({ permitsHeld: 0, holderCount: 0, limit: 3 });
  });

  test('refuses another limit than the one agreed on, and says which that is', async () => {
    await using pair = await startPair();
    const [one, two] = (await leases(pair, 2)) as [LeaseHandle, LeaseHandle];
    await acquire(pair.a, one, { limit: 2 });
    const refused = await acquire(pair.b, two, { limit: 3, waitMs: 20_000 });
    expect(refused.status).toBe(409);
    expect(refused.body).toMatchObject({ code: 'conflict', limit: 2 });
    const oneCall = await pair.a.call('POST', '/v1/semaphores/pool/acquire', {
      body: { limit: 1, requestId: 'job-000000000000000000', lease: { ttlMs: TTL_MS, label: 'refused' } },
    });
    expect(oneCall.body).toMatchObject({ code: 'conflict', limit: 2 });
    expect(await show(pair.a)).toMatchObject({ limit: 2, permitsHeld: 1, waiterCount: 0 });
    const { items } = (await pair.a.expect(200, 'GET', '/v1/leases')) as { items: { label: string }[] };
    expect(items.map(({ label }) => label)).not.toContain('refused');
  });

  test('agrees on one limit when two replicas are the first at the same time', async () => {
    await using pair = await startPair();
    const [one, two] = (await leases(pair, 2)) as [LeaseHandle, LeaseHandle];
    const replies = await Promise.all([acquire(pair.a, one, { limit: 2 }), acquire(pair.b, two, { limit: 3 })]);
    expect(replies.map(({ status }) => status).sort()).toEqual([200, 409]);
    const { limit } = await show(pair.a);
    expect(replies.find(({ status }) => status === 409)?.body).toMatchObject({ code: 'conflict', limit });
  });

  test('grants those who wait and fit as soon as the limit is raised, and knows a repeated request that names the old one', async () => {
    await using pair = await startPair();
    const all = await leases(pair, 4);
    const first = (await acquire(pair.a, at(all, 0), { limit: 1 })).body as Held;
    const waits: ReturnType<typeof waiting>[] = [];
    for (const [i, lease] of all.slice(1).entries()) {
      waits.push(waiting(i % 2 === 0 ? pair.a : pair.b, lease, { limit: 1 }));
      await untilWaiting(pair.a, i + 1);
    }
    const raised = await setLimit(pair.b, 3);
    expect(raised.status).toBe(200);
    expect(raised.body).toMatchObject({ limit: 3 });
    expect((await at(waits, 0).done).status).toBe(200);
    expect((await at(waits, 1).done).status).toBe(200);
    await throughout('the third waits', () => at(waits, 2).reply === undefined);
    expect((await acquire(pair.b, at(all, 0), { limit: 1 })).body).toMatchObject({
      holdId: first.holdId,
      alreadyHeld: true,
    });
    await release(pair.a, at(all, 1));
    expect((await at(waits, 2).done).status).toBe(200);
  });

  test('takes nothing away when the limit is lowered, and grants nobody until there is room under the new one', async () => {
    await using pair = await startPair();
    const all = await leases(pair, 5);
    for (const lease of all.slice(0, 3)) await acquire(pair.a, lease, { limit: 3 });
    expect((await setLimit(pair.a, 1)).body).toMatchObject({ limit: 1, permitsHeld: 3, holderCount: 3 });
    expect((await acquire(pair.b, at(all, 3), { limit: 3 })).body).toMatchObject({ code: 'conflict', limit: 1 });
    const wait = waiting(pair.b, at(all, 3), { limit: 1 });
    await untilWaiting(pair.a, 1);
    await release(pair.b, at(all, 0));
    await release(pair.a, at(all, 2));
    await throughout('one holds, as many as may', () => wait.reply === undefined);
    expect(await show(pair.b)).toMatchObject({ permitsHeld: 1, waiterCount: 1 });
    await release(pair.a, at(all, 1));
    expect((await wait.done).status).toBe(200);
  });

  test('counts those behind who were granted before the limit was lowered', async () => {
    await using pair = await startPair();
    const [first, kept, third, fourth, late] = (await leases(pair, 5)) as [
      LeaseHandle,
      LeaseHandle,
      LeaseHandle,
      LeaseHandle,
      LeaseHandle,
    ];
    await acquire(pair.a, first, { limit: 1 });
    // A place whose turn comes while nobody asks for it.
    expect((await acquire(pair.a, kept, { limit: 1, keepPlace: true })).status).toBe(202);
    await setLimit(pair.b, 4);
    expect((await acquire(pair.a, third, { limit: 4 })).status).toBe(200);
    expect((await acquire(pair.b, fourth, { limit: 4 })).status).toBe(200);
    await setLimit(pair.a, 2);
    await release(pair.b, first);
    const wait = waiting(pair.b, kept, { limit: 2 });
    const behind = waiting(pair.a, late, { limit: 2 });
    await untilWaiting(pair.a, 2);
    await throughout('two hold behind it', () => wait.reply === undefined);
    expect((await show(pair.a)).holders.map(({ leaseId }) => leaseId)).toEqual([third.leaseId, fourth.leaseId]);
    await release(pair.a, third);
    expect((await wait.done).status).toBe(200);
    expect(await show(pair.b)).toMatchObject({ permitsHeld: 2, waiterCount: 1 });
    expect(behind.reply).toBeUndefined();
    await release(pair.b, kept);
    expect((await behind.done).status).toBe(200);
  });

  test('frees the permits of a lease that ends, and wakes who fits', async () => {
    await using pair = await startPair();
    const [lost, holder, one, two] = (await leases(pair, 4)) as [LeaseHandle, LeaseHandle, LeaseHandle, LeaseHandle];
    await acquire(pair.a, lost, { limit: 3, count: 2 });
    await acquire(pair.b, holder, { limit: 3 });
    const waits = [waiting(pair.b, one, { limit: 3 }), waiting(pair.a, two, { limit: 3 })];
    await untilWaiting(pair.a, 2);
    await expireSession(pair.a, lost.leaseId);
    for (const { done } of waits) expect((await done).status).toBe(200);
    expect((await show(pair.a)).permitsHeld).toBe(3);
  });

  test('lets a request go on at the other replica with the place that it kept', async () => {
    await using pair = await startPair();
    const [holder, kept, later] = (await leases(pair, 3)) as [LeaseHandle, LeaseHandle, LeaseHandle];
    await acquire(pair.a, holder, { limit: 1 });
    const place = await acquire(pair.a, kept, { limit: 1, waitMs: 100, keepPlace: true });
    expect(place.status).toBe(202);
    expect(place.body).toMatchObject({ held: false, position: 1 });
    const behind = waiting(pair.a, later, { limit: 1 });
    await untilWaiting(pair.a, 2);
    const wait = waiting(pair.b, kept, { limit: 1 });
    await release(pair.a, holder);
    expect((await wait.done).status).toBe(200);
    expect(behind.reply).toBeUndefined();
    await release(pair.b, kept);
    expect((await behind.done).status).toBe(200);
  });

  test('takes a lease and permits in one call, and repeats the same answer', async () => {
    await using pair = await startPair();
    const body = { limit: 2, count: 2, requestId: 'job-1-0000000000000000', lease: { ttlMs: TTL_MS } };
    const first = await pair.a.call('POST', '/v1/semaphores/pool/acquire', { body });
    expect(first.status).toBe(200);
    const again = await pair.b.call('POST', '/v1/semaphores/pool/acquire', { body });
    expect(again.body).toMatchObject({
      holdId: first.body.holdId,
      leaseToken: first.body.leaseToken,
      count: 2,
      alreadyHeld: true,
    });
  });

  test('breaks one hold that is asked back, and gives its permits to who waits', async () => {
    await using pair = await startPair();
    const [one, two, three] = (await leases(pair, 3)) as [LeaseHandle, LeaseHandle, LeaseHandle];
    const asked = (await acquire(pair.a, one, { limit: 3, count: 2 })).body as Held;
    await acquire(pair.b, two, { limit: 3 });
    const wait = waiting(pair.b, three, { limit: 3, count: 2 });
    await untilWaiting(pair.a, 1);
    const revoked = await pair.b.call('POST', '/v1/semaphores/pool/revoke', {
      body: { holdId: asked.holdId, graceMs: 0 },
    });
    expect(revoked.status).toBe(200);
    expect((await wait.done).status).toBe(200);
    expect((await pair.a.heartbeat(one)).body).toMatchObject({
      lost: [{ kind: 'semaphore', name: 'pool', holdId: asked.holdId, reason: 'broken' }],
    });
    expect((await show(pair.a)).holders.map(({ leaseId }) => leaseId)).toEqual([two.leaseId, three.leaseId]);
  });

  test('says of every holder whether its fencing token is current', async () => {
    await using pair = await startPair();
    const [one, two] = (await leases(pair, 2)) as [LeaseHandle, LeaseHandle];
    const first = (await acquire(pair.a, one, { limit: 2 })).body as Held;
    const second = (await acquire(pair.b, two, { limit: 2 })).body as Held;
    const check = (fencingToken: number): Promise<unknown> =>
      pair.b.expect(200, 'POST', '/v1/semaphores/pool/check', { body: { fencingToken } });
    expect(await check(first.fencingToken)).toEqual({ current: true, latestFencingToken: second.fencingToken });
    await release(pair.a, one);
    expect(await check(first.fencingToken)).toEqual({ current: false, latestFencingToken: second.fencingToken });
  });

  test('tells a long poll of a new holder and of a new limit', async () => {
    await using pair = await startPair();
    const [one, two] = (await leases(pair, 2)) as [LeaseHandle, LeaseHandle];
    await acquire(pair.a, one, { limit: 3 });
    const poll = async (): Promise<Reply> => {
      const { headers } = await pair.b.call('GET', '/v1/semaphores/pool');
      const reply = pair.b.call('GET', '/v1/semaphores/pool?waitMs=20000', {
        headers: { 'if-none-match': String(headers['etag']) },
      });
      await eventually('the poll waits', () => pair.b.gateway.recipes.line.observers.size === 1);
      return reply;
    };
    let changed: Reply | undefined;
    const holder = poll().then((reply) => (changed = reply));
    await throughout('nothing changes', () => changed === undefined);
    await acquire(pair.a, two, { limit: 3 });
    expect((await holder).body).toMatchObject({ holderCount: 2, permitsHeld: 2 });
    await eventually('the poll has ended', () => pair.b.gateway.recipes.line.observers.size === 0);
    changed = undefined;
    const limit = poll().then((reply) => (changed = reply));
    await throughout('nothing changes', () => changed === undefined);
    await setLimit(pair.a, 5);
    expect((await limit).body).toMatchObject({ limit: 5 });
  });

  test('is listed with its limit, its holders and how many wait', async () => {
    await using pair = await startPair();
    const [one, two] = (await leases(pair, 2)) as [LeaseHandle, LeaseHandle];
    await acquire(pair.a, one, { limit: 4, count: 3 });
    await acquire(pair.a, two, { limit: 4, count: 2, waitMs: 50, keepPlace: true });
    const { items } = (await pair.b.expect(200, 'GET', '/v1/semaphores')) as { items: Shown[] };
    expect(items).toMatchObject([
      {
        name: 'pool',
        limit: 4,
        permitsHeld: 3,
        holderCount: 1,
        waiterCount: 1,
        holders: [{ leaseId: one.leaseId, count: 3 }],
      },
    ]);
    const waiters = (await pair.b.expect(200, 'GET', '/v1/semaphores/pool/waiters')) as { items: unknown[] };
    expect(waiters.items).toMatchObject([{ leaseId: two.leaseId, count: 2, position: 1 }]);
  });

  test('needs a limit, and no more permits than that', async () => {
    await using pair = await startPair();
    const lease = await pair.a.createLease({ ttlMs: TTL_MS });
    for (const [body, field] of [
      [{}, 'limit'],
      [{ limit: 0 }, 'limit'],
      [{ limit: 10_001 }, 'limit'],
      [{ limit: 2, count: 3 }, 'count'],
      [{ limit: 2, count: 0 }, 'count'],
      [{ limit: 2, mode: 'read' }, 'mode'],
    ] as const) {
      const refused = await acquire(pair.a, lease, body);
      expect(refused.status).toBe(422);
      expect(refused.body).toMatchObject({ code: 'invalid', field });
    }
    expect(await show(pair.b)).toMatchObject({ limit: null, permitsHeld: 0, holderCount: 0, waiterCount: 0 });
    expect((await setLimit(pair.a, 0)).status).toBe(422);
    expect((await setLimit(pair.a, 7)).body).toMatchObject({ limit: 7, permitsHeld: 0 });
    expect((await acquire(pair.b, lease, { limit: 7 })).status).toBe(200);
  });
});
