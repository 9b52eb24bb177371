/** What one lease may own: refused beyond it, over all replicas together, with nothing done; and free again at once. */
import { describe, expect, it } from 'vitest';
import type { Client, LeaseHandle, Reply } from '../../support/http/client.js';
import { eventually } from '../../support/eventually.js';
import { startPair, startReplica } from '../../support/start-gateway.js';
import { claim, pushBodies } from '../../recipes/queue/client.js';

const TTL_MS = 20_000;
const LIMIT = 5;
const FEW = { POSTERN_MAX_HOLDS_PER_LEASE: String(LIMIT), POSTERN_MAX_CLAIMS_PER_LEASE: String(LIMIT) };
const TOO_MANY_HOLDS = {
  status: 409,
  body: { code: 'too-many-holds', outcome: 'not-applied', limit: 'maxHoldsPerLease', maxHoldsPerLease: LIMIT },
};

function upTo(count: number): number[] {
  return Array.from({ length: count }, (_, i) => i);
}

async function held(replica: Client, lease: LeaseHandle): Promise<string[]> {
  const { holds } = (await replica.showLease(lease)).body as { holds: { name: string }[] };
  return holds.map(({ name }) => name).sort();
}

async function statuses(replies: Promise<Reply>[]): Promise<number[]> {
  return (await Promise.all(replies)).map(({ status }) => status).sort();
}

describe('the holds of one lease', () => {
  it('are as many as the setting says, whatever they are of, and one that is released makes room at once', async () => {
    await using replica = await startReplica({ settings: FEW });
    const lease = await replica.createLease({ ttlMs: TTL_MS });
    const { leaseToken } = lease;
    await replica.hold('a', lease);
    await replica.expect(200, 'POST', '/v1/rwlocks/a/acquire', { leaseToken, body: { mode: 'read' } });
    await replica.expect(200, 'POST', '/v1/semaphores/a/acquire', { leaseToken, body: { limit: 2 } });
    await replica.expect(200, 'POST', '/v1/elections/a/campaign', { leaseToken, body: {} });
    await replica.expect(201, 'PUT', '/v1/groups/a/members/m', { leaseToken, body: {} });
    expect(await replica.acquire('b', lease)).toMatchObject(TOO_MANY_HOLDS);
    const campaign = await replica.call('POST', '/v1/elections/b/campaign', { leaseToken, body: {} });
    expect(campaign).toMatchObject(TOO_MANY_HOLDS);
    expect(await replica.call('PUT', '/v1/groups/b/members/m', { leaseToken, body: {} })).toMatchObject(TOO_MANY_HOLDS);
    const entering = await replica.call('POST', '/v1/double-barriers/b/enter', {
      leaseToken,
      body: { size: 2, member: 'm' },
    });
    expect(entering).toMatchObject(TOO_MANY_HOLDS);
    expect(await replica.showLock('b')).toMatchObject({ holders: [], waiterCount: 0 });
    await replica.expect(204, 'POST', '/v1/locks/a/release', { leaseToken, body: {} });
    await replica.hold('b', lease);
    expect(await replica.metric('postern_limit_refusals_total', { limit: 'holds' })).toBeGreaterThanOrEqual(4);
  });

  it('are also the members of pools, and places in their lines', async () => {
    await using replica = await startReplica({ settings: FEW });
    const lease = await replica.createLease({ ttlMs: TTL_MS });
    await replica.expect(201, 'PUT', '/v1/pools/p', { body: { of: 9 } });
    const members = (requestId: string): Promise<Reply> =>
      replica.call('POST', '/v1/pools/p/acquire', { ...lease, body: { count: 3, requestId } });
    expect((await members('one')).status).toBe(200);
    expect(await members('two')).toMatchObject(TOO_MANY_HOLDS);
    await eventually('its place is given up', async () => {
      const pool = (await replica.call('GET', '/v1/pools/p')).body as { waiterCount: number };
      return pool.waiterCount === 0;
    });
    await replica.hold('a', lease);
    await replica.hold('b', lease);
    expect(await replica.acquire('c', lease)).toMatchObject(TOO_MANY_HOLDS);
    expect(await members('two')).toMatchObject(TOO_MANY_HOLDS);
    expect((await members('one')).body).toMatchObject({ alreadyHeld: true });
    expect((await replica.call('GET', '/v1/pools/p')).body).toMatchObject({ heldCount: 3, waiterCount: 0 });
  });

  it('do not keep a repeated request from what the first one got', async () => {
    await using pair = await startPair({ settings: FEW });
    const lease = await pair.a.createLease({ ttlMs: TTL_MS });
    const { leaseToken } = lease;
    const first = await pair.a.hold('n0', lease, { requestId: 'r' });
    for (const i of upTo(LIMIT - 2)) await pair.a.hold(`n${i + 1}`, lease);
    await pair.a.expect(201, 'PUT', '/v1/groups/g/members/m', { leaseToken, body: { value: 1 } });
    for (const replica of [pair.a, pair.b]) {
      expect(await replica.hold('n0', lease, { requestId: 'r' })).toMatchObject({
        holdId: first.holdId,
        alreadyHeld: true,
      });
      await replica.expect(200, 'PUT', '/v1/groups/g/members/m', { leaseToken, body: { value: 2 } });
      expect(await replica.acquire('more', lease)).toMatchObject(TOO_MANY_HOLDS);
    }
  });

  it('are counted over all replicas that the lease is used through at once', async () => {
    await using pair = await startPair({ settings: FEW });
    const lease = await pair.a.createLease({ ttlMs: TTL_MS });
    // Two replicas that are used without a pause take the lease's session from each other, and may run out of time.
    const decided = async (i: number): Promise<Reply> => {
      for (;;) {
        const reply = await (i % 2 === 0 ? pair.a : pair.b).acquire(`n${i}`, lease, { requestId: 'decided' });
        if (reply.status !== 503) return reply;
      }
    };
    const all = await statuses(upTo(4 * LIMIT).map(decided));
    const granted = all.filter((status) => status === 200).length;
    expect(all.filter((status) => status === 409)).toHaveLength(4 * LIMIT - granted);
    // Each for itself they would grant twice as many; what a server has read when the session moves may come on top.
    expect(granted).toBeGreaterThanOrEqual(LIMIT);
    expect(granted).toBeLessThan(2 * LIMIT);
    expect(await held(pair.b, lease)).toHaveLength(granted);
    for (const replica of [pair.a, pair.b])
      expect(await replica.acquire('more', lease, { requestId: 'more' })).toMatchObject(TOO_MANY_HOLDS);
  });

  it('count no more when somebody else has taken them away, or a wait was in vain', async () => {
    await using replica = await startReplica({ settings: FEW });
    const [lease, other] = [await replica.createLease({ ttlMs: TTL_MS }), await replica.createLease({ ttlMs: TTL_MS })];
    await replica.hold('taken', other);
    for (const i of upTo(LIMIT)) await replica.hold(`n${i}`, lease);
    expect(await replica.acquire('taken', lease, { waitMs: 1 })).toMatchObject(TOO_MANY_HOLDS);
    await replica.expect(200, 'POST', '/v1/locks/n0/revoke', { body: { graceMs: 0 } });
    for (const _ of upTo(2 * LIMIT))
      expect((await replica.acquire('taken', lease, { waitMs: 1 })).body).toMatchObject({ code: 'lock-held' });
    await replica.hold('n0', lease);
    expect(await held(replica, lease)).toHaveLength(LIMIT);
  });

  it('are all or none of many locks', async () => {
    await using replica = await startReplica({ settings: FEW });
    const lease = await replica.createLease({ ttlMs: TTL_MS });
    await replica.hold('before', lease);
    const names = upTo(LIMIT).map((i) => `n${i}`);
    const many = await replica.call('POST', '/v1/locks/acquire', { leaseToken: lease.leaseToken, body: { names } });
    expect(many).toMatchObject(TOO_MANY_HOLDS);
    expect(await held(replica, lease)).toEqual(['before']);
  });

  it('have paths of as many bytes as the setting says', async () => {
    await using replica = await startReplica({ settings: { POSTERN_MAX_PATH_BYTES_PER_LEASE: '10000' } });
    const lease = await replica.createLease({ ttlMs: TTL_MS });
    const long = (i: number): string => `${'x'.repeat(190)}${i}`;
    const refused = {
      status: 409,
      body: { code: 'too-many-holds', limit: 'maxPathBytesPerLease', maxPathBytesPerLease: 10_000 },
    };
    let count = 0;
    for (; (await replica.acquire(long(count), lease)).status === 200; count += 1) expect(count).toBeLessThan(50);
    expect(await replica.acquire(long(count), lease)).toMatchObject(refused);
    expect(count).toBeGreaterThan(25);
    await replica.expect(204, 'POST', `/v1/locks/${long(0)}/release`, { leaseToken: lease.leaseToken, body: {} });
    await replica.hold(long(count), lease);
  });
});

describe('the claims of one lease', () => {
  const tooMany = {
    status: 409,
    body: { code: 'too-many-holds', limit: 'maxClaimsPerLease', maxClaimsPerLease: LIMIT },
  };

  it('are as many as the setting says; one that asks for more gets what there is room for', async () => {
    await using pair = await startPair({ settings: FEW });
    const lease = await pair.a.createLease({ ttlMs: TTL_MS });
    const { leaseToken } = lease;
    await pushBodies(pair.a, 'q', upTo(4 * LIMIT));
    const first = await claim(pair.a, 'q', lease, { max: 2, requestId: 'r' });
    expect(await claim(pair.b, 'q', lease, { max: 100 })).toHaveLength(LIMIT - 2);
    for (const replica of [pair.a, pair.b]) {
      expect(await replica.call('POST', '/v1/queues/q/claim', { leaseToken, body: {} })).toMatchObject(tooMany);
      const again = await claim(replica, 'q', lease, { max: 2, requestId: 'r' });
      expect(again.map(({ claimId }) => claimId)).toEqual(first.map(({ claimId }) => claimId));
    }
    const other = await pair.b.createLease({ ttlMs: TTL_MS });
    expect((await claim(pair.b, 'q', other, { max: 1 })).map(({ body }) => body as number)).toEqual([LIMIT]);
    const claimIds = first.map(({ claimId }) => claimId);
    await pair.a.expect(200, 'POST', '/v1/queues/q/nack', { leaseToken, body: { claimIds } });
    expect((await claim(pair.a, 'q', lease, { max: 2 })).map(({ body }) => body as number)).toEqual([0, 1]);
  });

  it('are claimed for nobody when several requests reach the limit at once, and go to others', async () => {
    await using pair = await startPair({ settings: FEW });
    const lease = await pair.a.createLease({ ttlMs: TTL_MS });
    await pushBodies(pair.a, 'q', upTo(4 * LIMIT));
    const claims = upTo(4 * LIMIT).map((i) =>
      (i % 2 === 0 ? pair.a : pair.b).call('POST', '/v1/queues/q/claim', {
        leaseToken: lease.leaseToken,
        body: { max: 1 },
      }),
    );
    expect((await statuses(claims)).filter((status) => status === 200)).toHaveLength(LIMIT);
    const other = await pair.b.createLease({ ttlMs: TTL_MS });
    const rest: unknown[] = [];
    await eventually('the other one has got what it may', async () => {
      const reply = await pair.b.call('POST', '/v1/queues/q/claim', {
        leaseToken: other.leaseToken,
        body: { max: 100 },
      });
      if (reply.status === 200)
        rest.push(...(reply.body as { items: { body: unknown }[] }).items.map(({ body }) => body));
      return rest.length === LIMIT;
    });
    expect(rest).toEqual(upTo(LIMIT).map((i) => LIMIT + i));
  });
});
