/** Pools: each caller is told which members it got, and nobody else has them. */
import { describe, expect, test } from 'vitest';
import { EventReader } from '../../../support/http/event-stream.js';
import { throughout } from '../../../support/eventually.js';
import { expireSession, startPair, startReplica } from '../../../support/start-gateway.js';
import { acquire, acquireOne, call, idsOf, leaseFor, NAME, put, release, show, untilWaiting } from '../client.js';

describe('the members of a pool', () => {
  test('are given out once each, also to many who ask at once at different replicas', async () => {
    await using pair = await startPair();
    expect((await put(pair.a, { of: 5 })).status).toBe(201);
    const leases = await Promise.all(Array.from({ length: 8 }, (_, i) => leaseFor(i % 2 === 0 ? pair.a : pair.b)));
    const at = (i: number) => (i % 2 === 0 ? pair.b : pair.a);
    const replies = await Promise.all(leases.map((lease, i) => call(at(i), 'acquire', lease)));
    const got = replies.flatMap(({ status, body }) => (status === 200 ? idsOf(body) : []));
    expect(got.sort()).toEqual(['0', '1', '2', '3', '4']);
    for (const { status, body } of replies) if (status !== 200) expect(body).toMatchObject({ code: 'lock-held' });
    expect(await show(pair.a)).toMatchObject({ total: 5, free: 0, heldCount: 5, waiterCount: 0 });
  });

  test('are free again when they are released, and fencing tokens grow', async () => {
    await using pair = await startPair();
    await put(pair.a, { of: 1 });
    const [first, second] = [await leaseFor(pair.a), await leaseFor(pair.b)];
    const one = await acquire(pair.a, first);
    expect(idsOf(one)).toEqual(['0']);
    await release(pair.b, first, { holdId: one.holdId });
    const two = await acquire(pair.b, second);
    expect(two.fencingToken).toBeGreaterThan(one.fencingToken);
    expect((await call(pair.a, 'release', first, { holdId: one.holdId })).body).toMatchObject({ code: 'not-holder' });
    expect((await call(pair.a, 'release', first, { holdId: two.holdId })).body).toMatchObject({ code: 'not-holder' });
    expect((await show(pair.a)).held).toMatchObject([{ id: '0', leaseId: second.leaseId }]);
  });

  test('are the same for the same lease and requestId, and others for another requestId', async () => {
    await using pair = await startPair();
    await put(pair.a, { of: 3 });
    const lease = await leaseFor(pair.a);
    const first = await acquire(pair.a, lease, { requestId: 'r1', count: 2 });
    expect(await acquire(pair.b, lease, { requestId: 'r1', count: 2 })).toEqual({
      ...first,
      alreadyHeld: true,
      ...same,
    });
    expect(await acquireOne(pair.b, lease, { requestId: 'r2' })).toBe('2');
    await release(pair.a, lease, { requestId: 'r1' });
    expect((await show(pair.b)).held).toMatchObject([{ id: '2' }]);
  });

  test('are the same for a repeated request also when the pool has become too small for it', async () => {
    await using pair = await startPair();
    await put(pair.a, { of: 12 });
    const [lease, other] = [await leaseFor(pair.a), await leaseFor(pair.a)];
    const first = await acquire(pair.a, lease, { count: 12 });
    await put(pair.b, { members: [{ id: '0', drain: true }] });
    expect(await acquire(pair.b, lease, { count: 12 })).toEqual({ ...first, alreadyHeld: true, ...same });
    expect((await call(pair.b, 'acquire', other)).body).toMatchObject({ code: 'invalid', limit: 0 });
  });

  test('are told in the order of the pool, the first time and again, whichever of them was preferred', async () => {
    await using pair = await startPair();
    await put(pair.a, { of: 3 });
    const lease = await leaseFor(pair.a);
    await acquire(pair.a, lease, { requestId: 'others', count: 2 });
    expect(await acquireOne(pair.a, lease, { requestId: 'mine', prefer: 'same', owner: 'x' })).toBe('2');
    for (const requestId of ['others', 'mine']) await release(pair.a, lease, { requestId });
    const asked = { requestId: 'both', count: 2, prefer: 'same', owner: 'x' };
    const first = await acquire(pair.a, lease, asked);
    expect(idsOf(first)).toEqual(['0', '2']);
    expect(await acquire(pair.b, lease, asked)).toEqual({ ...first, alreadyHeld: true, ...same });
  });

  test('with labels go to those who ask for them, with their data', async () => {
    await using pair = await startPair();
    const members = [
      { id: 'iphone-3', labels: ['ios'], data: { address: '10.0.0.3' } },
      { id: 'pixel-8', labels: ['android', 'tablet'] },
      { id: 'old', labels: ['ios'], drain: true },
    ];
    await put(pair.a, { members });
    const lease = await leaseFor(pair.a);
    expect(await acquireOne(pair.b, lease, { labels: ['android', 'tablet'], requestId: 'a' })).toBe('pixel-8');
    expect((await acquire(pair.b, lease, { labels: ['ios'], requestId: 'b' })).members).toEqual([
      { id: 'iphone-3', data: { address: '10.0.0.3' } },
    ]);
    expect((await call(pair.a, 'acquire', lease, { labels: ['ios'], count: 2, requestId: 'c' })).body).toMatchObject({
      code: 'invalid',
      limit: 1,
    });
  });

  test('go back to their owner if they are free, and to others only when nothing else is', async () => {
    await using pair = await startPair();
    await put(pair.a, { of: 3 });
    const got = new Map<string, string>();
    for (const label of ['x', 'y']) {
      const lease = await leaseFor(pair.a, { label });
      got.set(label, await acquireOne(pair.a, lease, { prefer: 'same' }));
      await (label === 'x' ? release(pair.b, lease) : pair.b.endLease(lease));
    }
    expect([...got.values()]).toEqual(['0', '1']);
    const [y, stranger, x] = [await leaseFor(pair.b, { label: 'y' }), await leaseFor(pair.b), await leaseFor(pair.b)];
    expect(await acquireOne(pair.b, y, { prefer: 'same' })).toBe('1');
    expect(await acquireOne(pair.b, stranger)).toBe('2');
    expect(await acquireOne(pair.a, x, { prefer: 'same', owner: 'x' })).toBe('0');
    await release(pair.a, x);
    expect(await acquireOne(pair.b, stranger, { requestId: 'more' })).toBe('0');
  });

  test('that were lost with their lease rest, and those of a lease that was ended do not', async () => {
    await using pair = await startPair();
    await put(pair.a, { of: 2, quarantineMs: 3_600_000 });
    const [lost, ended, next] = [await leaseFor(pair.a), await leaseFor(pair.a), await leaseFor(pair.b)];
    expect(await acquireOne(pair.a, lost)).toBe('0');
    expect(await acquireOne(pair.a, ended)).toBe('1');
    await expireSession(pair.a, lost.leaseId);
    await pair.b.endLease(ended);
    expect(await acquireOne(pair.b, next)).toBe('1');
    expect((await call(pair.b, 'acquire', next, { requestId: 'more' })).body).toMatchObject({ code: 'lock-held' });
    expect(await show(pair.a)).toMatchObject({ free: 0, restingCount: 1, resting: [{ id: '0' }] });
    const counted = async (outcome: string): Promise<number> =>
      (await pair.a.metric('postern_pool_members_total', { outcome })) +
      (await pair.b.metric('postern_pool_members_total', { outcome }));
    expect(await Promise.all(['assigned', 'released', 'lost'].map(counted))).toEqual([3, 1, 1]);
    await put(pair.b, { of: 2, quarantineMs: 0 });
    expect(await acquireOne(pair.b, next, { requestId: 'more' })).toBe('0');
  });
});

/** Of an answer that is given again. */
const same = { waitedMs: expect.any(Number) as number, expiresAt: expect.any(String) as string };

describe('who waits for members', () => {
  test('is served in order of arrival: who wants all of them under a stream of those who want one', async () => {
    await using pair = await startPair();
    await put(pair.a, { of: 3 });
    const [holder, many, ...few] = await Promise.all(Array.from({ length: 6 }, () => leaseFor(pair.a)));
    for (const requestId of ['1', '2', '3']) await acquireOne(pair.a, holder!, { requestId });
    const order: string[] = [];
    const all = acquire(pair.b, many!, { count: 3, waitMs: 30_000 }).then(async (acquired) => {
      order.push('all');
      expect(idsOf(acquired)).toEqual(['0', '1', '2']);
      await release(pair.a, many!);
    });
    await untilWaiting(pair.a, 1);
    const ones = few.map(async (lease, i) => {
      await acquireOne(i % 2 === 0 ? pair.a : pair.b, lease, { waitMs: 30_000 });
      order.push('one');
      await release(pair.a, lease);
    });
    await untilWaiting(pair.a, 1 + few.length);
    for (const requestId of ['1', '2', '3']) await release(pair.a, holder!, { requestId });
    await Promise.all([all, ...ones]);
    expect(order).toEqual(['all', 'one', 'one', 'one', 'one']);
    expect(await show(pair.b)).toMatchObject({ free: 3, heldCount: 0, waiterCount: 0 });
  });

  test('gets a member that is added, one whose rest ends, and 404 when the pool is deleted', async () => {
    await using pair = await startPair();
    await put(pair.a, { of: 1, quarantineMs: 1_500 });
    const [holder, waiter] = [await leaseFor(pair.a), await leaseFor(pair.b)];
    await acquireOne(pair.a, holder);
    const added = acquireOne(pair.b, waiter, { waitMs: 30_000, requestId: 'added' });
    await untilWaiting(pair.a, 1);
    await put(pair.a, { of: 2, quarantineMs: 1_500 });
    expect(await added).toBe('1');
    await expireSession(pair.a, holder.leaseId);
    const rested = await call(pair.b, 'acquire', waiter, { waitMs: 30_000, requestId: 'rested' });
    expect(rested.body).toMatchObject({ members: [{ id: '0' }] });
    expect((rested.body as { waitedMs: number }).waitedMs).toBeGreaterThan(1_000);
    expect((await pair.a.call('DELETE', `/v1/pools/${NAME}`)).body).toMatchObject({ code: 'conflict' });
    await release(pair.a, waiter, { requestId: 'added' });
    await release(pair.a, waiter, { requestId: 'rested' });
    await put(pair.a, { members: [{ id: 'a' }, { id: 'b', drain: true }] });
    await put(pair.a, { members: [{ id: 'a' }] });
    await acquireOne(pair.a, waiter, { requestId: 'a' });
    const inVain = call(pair.b, 'acquire', waiter, { waitMs: 30_000, requestId: 'in vain' });
    expect((await inVain).status).toBe(422);
    const gone = call(pair.b, 'acquire', waiter, { waitMs: 30_000, requestId: 'gone' });
    await untilWaiting(pair.a, 1);
    await put(pair.a, { members: [{ id: 'a', drain: true }] });
    await release(pair.a, waiter, { requestId: 'a' });
    expect((await pair.a.call('DELETE', `/v1/pools/${NAME}`)).status).toBe(204);
    expect((await gone).body).toMatchObject({ status: 404, code: 'not-found' });
    expect((await pair.b.call('GET', `/v1/pools/${NAME}`)).status).toBe(404);
    expect((await pair.b.call('DELETE', `/v1/pools/${NAME}`)).status).toBe(204);
  });

  test('gives its place up when the client goes, when the wait ends, and by a release', async () => {
    await using pair = await startPair();
    await put(pair.a, { of: 1 });
    const [holder, waiter] = [await leaseFor(pair.a), await leaseFor(pair.b)];
    await acquireOne(pair.a, holder);
    const leaving = new AbortController();
    const left = call(pair.b, 'acquire', waiter, { waitMs: 30_000 }, leaving.signal).catch(() => 'left');
    await untilWaiting(pair.a, 1);
    leaving.abort();
    expect(await left).toBe('left');
    await untilWaiting(pair.a, 0);
    expect((await call(pair.b, 'acquire', waiter, { waitMs: 100 })).body).toMatchObject({ code: 'lock-held' });
    await untilWaiting(pair.a, 0);
    const released = call(pair.b, 'acquire', waiter, { waitMs: 30_000 });
    await untilWaiting(pair.a, 1);
    await release(pair.a, waiter);
    expect((await released).body).toMatchObject({ status: 409, code: 'conflict' });
    expect((await call(pair.a, 'release', waiter)).body).toMatchObject({ code: 'not-holder' });
  });
});

describe('a pool', () => {
  test('is listed and watched, and its lease shows what it has', async () => {
    await using replica = await startReplica();
    await put(replica, { of: 2 });
    await put(replica, { of: 4, quarantineMs: 10 }, 'another');
    const { items } = (await replica.expect(200, 'GET', '/v1/pools')) as { items: unknown[] };
    expect(items).toEqual([
      { name: 'another', total: 4, quarantineMs: 10 },
      { name: NAME, total: 2, quarantineMs: 0 },
    ]);
    await using events = await EventReader.open(replica.url, `/v1/pools/${NAME}/events`);
    expect(await events.next()).toMatchObject({ event: 'state', data: { heldCount: 0, free: 2 } });
    const lease = await leaseFor(replica);
    const { holdId } = await acquire(replica, lease);
    expect(await events.next()).toMatchObject({ event: 'state', data: { heldCount: 1, free: 1 } });
    expect((await replica.showLease(lease)).body).toMatchObject({
      holds: [{ kind: 'pool', name: NAME, member: '0', holdId, held: true }],
    });
  });

  test('is watched without its members, which are read in turn with whatever else is large', async () => {
    await using replica = await startReplica();
    const members = [{ id: 'iphone', labels: ['ios'] }, { id: 'pixel' }];
    await put(replica, { members });
    const { largeReads } = replica.gateway.context.control;
    let release = (): void => undefined;
    const others = new Promise<void>((resolve) => (release = resolve));
    const reading = largeReads.spend(Infinity, performance.now() + 60_000, () => others);
    await using events = await EventReader.open(replica.url, `/v1/pools/${NAME}/events`);
    await throughout('it waits for the others', () => events.pending.length === 0);
    release();
    await reading;
    const { data } = await events.next();
    expect(data).toMatchObject({ name: NAME, total: 2, free: 2 });
    expect(data).not.toHaveProperty('members');
    expect(await replica.expect(200, 'GET', `/v1/pools/${NAME}`)).toMatchObject({ members });
  });

  test('has members of up to 768 KiB together', async () => {
    await using replica = await startReplica();
    const membersOf = (count: number): unknown[] =>
      Array.from({ length: count }, (_, i) => ({ id: `m-${i}`, labels: ['ios'], data: 'x'.repeat(700) }));
    expect((await put(replica, { members: membersOf(1_000) })).status).toBe(201);
    const lease = await leaseFor(replica);
    expect((await acquire(replica, lease, { labels: ['ios'] })).members).toMatchObject([{ id: 'm-0' }]);
    expect(await show(replica)).toMatchObject({ total: 1_000, free: 999 });
    const refused = await put(replica, { members: membersOf(1_100) });
    expect(refused.body).toMatchObject({ status: 413, code: 'too-large', maxBytes: 768 * 1024 });
    expect(await show(replica)).toMatchObject({ total: 1_000 });
  });

  test('refuses what is no pool, and names field, value and limit', async () => {
    await using replica = await startReplica({ settings: { POSTERN_MAX_POOLS: '1', POSTERN_MAX_POOL_MEMBERS: '3' } });
    const refused = async (body: Record<string, unknown>): Promise<unknown> => (await put(replica, body)).body;
    expect(await refused({})).toMatchObject({ code: 'invalid', errors: [{ field: 'of' }] });
    expect(await refused({ of: 1, members: [{ id: 'a' }] })).toMatchObject({
      code: 'invalid',
      errors: [{ field: 'of' }],
    });
    expect(await refused({ of: 4 })).toMatchObject({ code: 'invalid', maxPoolMembers: 3, errors: [{ field: 'of' }] });
    expect(await refused({ members: [{ id: 'a' }, { id: 'a' }] })).toMatchObject({
      errors: [{ field: 'members.1.id' }],
    });
    expect(await refused({ members: [{ id: '..' }] })).toMatchObject({ code: 'invalid' });
    expect((await put(replica, { of: 3 })).status).toBe(201);
    expect((await put(replica, { of: 3 })).status).toBe(200);
    expect((await put(replica, { of: 1 }, 'more')).body).toMatchObject({ code: 'too-many-names', limit: 'maxPools' });
    const lease = await leaseFor(replica);
    const acquired = async (body: Record<string, unknown>): Promise<unknown> =>
      (await call(replica, 'acquire', lease, body)).body;
    expect(await acquired({ count: 4 })).toMatchObject({ code: 'invalid', errors: [{ field: 'count' }], limit: 3 });
    expect(await acquired({ prefer: 'same' })).toMatchObject({ code: 'invalid', errors: [{ field: 'owner' }] });
    expect(await acquired({ owner: 'me' })).toMatchObject({ code: 'invalid', errors: [{ field: 'owner' }] });
    const none = await replica.call('POST', '/v1/pools/none/acquire', { leaseToken: lease.leaseToken, body: {} });
    expect(none).toMatchObject({ status: 404, body: { code: 'not-found' } });
  });
});
