/**
 * What one principal may have at one replica: requests per second, waits, streams and leases. Others are not affected,
 * nor is the other replica.
 */
import { describe, expect, test } from 'vitest';
import { openApi } from '../../../src/http/contract/openapi.js';
import { PrincipalLimits } from '../../../src/http/access/principal-limits.js';
import { createMetrics } from '../../../src/metrics/metrics.js';
import { makeApiKeys } from '../../support/http/api-keys.js';
import { EventReader } from '../../support/http/event-stream.js';
import { eventually } from '../../support/eventually.js';
import { startPair, type Pair } from '../../support/start-gateway.js';

const everything = { default: ['read', 'use'] as ('read' | 'use')[] };

function refusals(pair: Pair, limit: string): Promise<number> {
  return pair.a.metric('postern_limit_refusals_total', { limit });
}

describe('requests per second', () => {
  test('are those of the limit after a burst, for each principal by itself', () => {
    let now = 0;
    const clock = { now: () => now, monotonic: () => now };
    const metrics = createMetrics({ version: 'test', processMetrics: false });
    const waits = { maxWaiters: 2, maxWaitsPerPrincipal: 1, maxStreamsPerPrincipal: 1 };
    const config = { ...waits, rateLimit: 10, rateBurst: 3 };
    const limits = new PrincipalLimits(config, metrics, clock);
    const admitted = (principal: string, times: number): number => {
      let count = 0;
      for (let i = 0; i < times; i += 1) {
        try {
          limits.admitRequest(principal);
          count += 1;
        } catch (error) {
          expect(error).toMatchObject({
            code: 'rate-limited',
            members: { limit: 'rateLimit', rateLimit: 10, rateBurst: 3 },
          });
        }
      }
      return count;
    };
    expect([admitted('a', 10), admitted('b', 2)]).toEqual([3, 2]);
    now = 100;
    expect([admitted('a', 10), admitted('b', 10)]).toEqual([1, 2]);
    now = 10_000;
    expect(admitted('a', 10)).toBe(3);
    let total = 0;
    for (; now < 20_000; now += 7) total += admitted('a', 1);
    expect(total).toBeGreaterThanOrEqual(99);
    expect(total).toBeLessThanOrEqual(101);
  });

  test('are refused with 429 and Retry-After; what keeps or gives back a hold never is', async () => {
    await using keys = await makeApiKeys({ eager: everything, calm: everything });
    await using pair = await startPair({
      settings: { POSTERN_AUTH_FILE: keys.file, POSTERN_RATE_LIMIT: '1', POSTERN_RATE_BURST: '8' },
    });
    await using eager = keys.as('eager', pair.a.url);
    await using elsewhere = keys.as('eager', pair.b.url);
    await using calm = keys.as('calm', pair.a.url);
    const lease = await eager.createLease();
    const { holdId } = await eager.hold('kept', lease);
    await eager.expect(201, 'POST', '/v1/queues/work/messages', { body: { messages: [{ body: 1 }] } });
    const { items } = (await eager.expect(200, 'POST', '/v1/queues/work/claim', { leaseToken: lease.leaseToken })) as {
      items: { claimId: string }[];
    };
    const refused = await eventually('the bucket is empty', async () => {
      const reply = await eager.call('GET', '/v1/locks/kept');
      return reply.status === 429 && reply;
    });
    expect(refused.body).toMatchObject({
      code: 'rate-limited',
      retryable: true,
      outcome: 'not-applied',
      limit: 'rateLimit',
      rateLimit: 1,
      rateBurst: 8,
    });
    expect(refused.headers['retry-after']).toBe('1');
    expect(await refusals(pair, 'requests')).toBeGreaterThan(0);
    expect((await calm.call('GET', '/v1/locks/kept')).status).toBe(200);
    expect((await elsewhere.call('GET', '/v1/locks/kept')).status).toBe(200);
    for (let i = 0; i < 20; i += 1) expect((await eager.heartbeat(lease)).status).toBe(200);
    const { leaseToken } = lease;
    const ack = await eager.call('POST', '/v1/queues/work/ack', {
      leaseToken,
      body: { claimIds: [items[0]?.claimId] },
    });
    expect(ack.status).toBe(200);
    expect((await eager.release('kept', lease, { holdId })).status).toBe(204);
    expect((await eager.endLease(lease)).status).toBe(204);
    for (const path of ['/healthz', '/readyz', '/metrics']) expect((await eager.call('GET', path)).status).toBe(200);
  });

  test('leave alone exactly what the contract says', () => {
    const exempt = openApi().operations.filter(({ rateLimited, isPublic }) => !rateLimited && !isPublic);
    expect(exempt.map(({ operationId }) => operationId).sort()).toEqual([
      'acknowledgeMessages',
      'endLease',
      'extendClaims',
      'extendReservation',
      'finishRun',
      'heartbeatLease',
      'heartbeatLeases',
      'leaveDoubleBarrier',
      'leaveGroup',
      'releaseLock',
      'releaseMembers',
      'releaseMessages',
      'releaseReadWriteLock',
      'releaseReservation',
      'releaseSemaphore',
      'resign',
      'steadyState',
      'unlockTerraformState',
      'watchLease',
    ]);
  });
});

describe('waits and streams', () => {
  test('of one principal are bounded each by itself, and others go on', async () => {
    await using keys = await makeApiKeys({ eager: everything, calm: everything });
    await using pair = await startPair({
      settings: {
        POSTERN_AUTH_FILE: keys.file,
        POSTERN_MAX_WAITS_PER_PRINCIPAL: '1',
        POSTERN_MAX_STREAMS_PER_PRINCIPAL: '1',
      },
    });
    await using eager = keys.as('eager', pair.a.url);
    await using elsewhere = keys.as('eager', pair.b.url);
    await using calm = keys.as('calm', pair.a.url);
    const [holder, waiter] = [await eager.createLease(), await eager.createLease()];
    await eager.hold('busy', holder);
    const waiting = eager.acquire('busy', waiter, { waitMs: 20_000 });
    await eager.untilWaiting('busy', 1);
    const poll = (client: typeof eager): Promise<number> =>
      client.call('GET', '/v1/barriers/b?waitMs=1').then(({ status }) => status);
    const refused = await eager.call('GET', '/v1/barriers/b?waitMs=1');
    expect(refused.body).toMatchObject({
      status: 429,
      code: 'rate-limited',
      limit: 'maxWaitsPerPrincipal',
      maxWaitsPerPrincipal: 1,
    });
    expect(refused.headers['retry-after']).toBe('1');
    expect([await poll(calm), await poll(elsewhere)]).toEqual([200, 200]);
    const headers = { authorization: `Bearer ${eager.key}` };
    {
      await using events = await EventReader.open(pair.a.url, '/v1/locks/busy/events', { headers });
      await events.next();
      const second = await eager.call('GET', '/v1/locks/busy/events');
      expect(second.body).toMatchObject({
        code: 'rate-limited',
        limit: 'maxStreamsPerPrincipal',
        maxStreamsPerPrincipal: 1,
      });
    }
    await eventually('the stream is forgotten', async () => {
      await using events = await EventReader.open(pair.a.url, '/v1/locks/busy/events', { headers });
      return events;
    });
    expect([await refusals(pair, 'waits'), await refusals(pair, 'streams')]).toEqual([1, expect.any(Number)]);
    await eager.release('busy', holder);
    expect((await waiting).status).toBe(200);
    expect(await poll(eager)).toBe(200);
  });
});

test('of one principal waits and streams are half of all together', async () => {
  await using keys = await makeApiKeys({ eager: everything, calm: everything });
  await using pair = await startPair({
    settings: {
      POSTERN_AUTH_FILE: keys.file,
      POSTERN_MAX_WAITERS: '2',
      POSTERN_MAX_WAITS_PER_PRINCIPAL: '1',
      POSTERN_MAX_STREAMS_PER_PRINCIPAL: '1',
    },
  });
  await using eager = keys.as('eager', pair.a.url);
  await using calm = keys.as('calm', pair.a.url);
  const headers = { authorization: `Bearer ${eager.key}` };
  await using events = await EventReader.open(pair.a.url, '/v1/locks/busy/events', { headers });
  await events.next();
  const refused = await eager.call('GET', '/v1/barriers/b?waitMs=1');
  expect(refused.body).toMatchObject({ status: 429, code: 'rate-limited', limit: 'maxWaiters', maxWaiters: 2 });
  expect((await calm.call('GET', '/v1/barriers/b?waitMs=1')).status).toBe(200);
});

describe('leases', () => {
  test('of one principal at one replica are bounded, also when they are asked for at once, and come back', async () => {
    await using keys = await makeApiKeys({ eager: everything, calm: everything });
    await using pair = await startPair({
      settings: { POSTERN_AUTH_FILE: keys.file, POSTERN_MAX_LEASES_PER_PRINCIPAL: '3' },
    });
    await using eager = keys.as('eager', pair.a.url);
    await using elsewhere = keys.as('eager', pair.b.url);
    await using calm = keys.as('calm', pair.a.url);
    const replies = await Promise.all(
      Array.from({ length: 8 }, (_, i) =>
        eager.call('POST', '/v1/leases', { body: { requestId: `${i}`.padStart(22, 'r') } }),
      ),
    );
    expect(replies.map(({ status }) => status).sort()).toEqual([201, 201, 201, 429, 429, 429, 429, 429]);
    const [refused, granted] = [429, 201].map((status) => replies.find((reply) => reply.status === status));
    expect(refused?.body).toMatchObject({ code: 'too-many-leases', retryable: true, maxLeasesPerPrincipal: 3 });
    expect(refused?.headers['retry-after']).toBe('1');
    expect(await refusals(pair, 'leases')).toBe(5);
    const oneCall = await eager.acquire('x', undefined, { lease: {}, requestId: 'r-00000000000000000000' });
    expect(oneCall.body).toMatchObject({ status: 429, code: 'too-many-leases' });
    const members = { body: { lease: {}, requestId: 'p-00000000000000000000' } };
    expect((await eager.call('POST', '/v1/pools/x/acquire', members)).body).toMatchObject({ code: 'too-many-leases' });
    // A repeated request finds the lease of the first, and those that there are can be used.
    const index = replies.indexOf(granted as (typeof replies)[number]);
    const repeated = await eager.call('POST', '/v1/leases', { body: { requestId: `${index}`.padStart(22, 'r') } });
    expect(repeated.body).toMatchObject({ leaseId: (granted?.body as { leaseId: string }).leaseId });
    await calm.createLease();
    await elsewhere.createLease();
    // One that goes to the other replica counts there.
    await elsewhere.heartbeat(granted?.body as { leaseToken: string });
    const fourth = await eventually('there is room again', async () => {
      const reply = await eager.call('POST', '/v1/leases', { body: {} });
      return reply.status === 201 && (reply.body as { leaseToken: string });
    });
    expect((await eager.call('POST', '/v1/leases', { body: {} })).status).toBe(429);
    await eager.endLease(fourth);
    await eager.createLease();
  });
});

test('every limit is in /v1/status', async () => {
  await using pair = await startPair({ settings: { POSTERN_RATE_LIMIT: '7000' } });
  const { limits } = (await pair.a.expect(200, 'GET', '/v1/status')) as { limits: Record<string, number> };
  expect(limits).toMatchObject({
    maxWaiters: 20_000,
    maxWaitsPerPrincipal: 10_000,
    maxStreamsPerPrincipal: 10_000,
    maxLeasesPerPrincipal: 10_000,
    maxHoldsPerLease: 10_000,
    maxClaimsPerLease: 10_000,
    maxPathBytesPerLease: 700_000,
    maxMessageBytes: 262_144,
    rateLimit: 7_000,
    rateBurst: 0,
    overloadDelayMs: 0,
    drainPauseMs: 0,
  });
});
