/** Many heartbeats in one request. */
import { describe, expect, it } from 'vitest';
import { makeApiKeys } from '../../support/http/api-keys.js';
import { throughout } from '../../support/eventually.js';
import type { LeaseHandle, Reply } from '../../support/http/client.js';
import { startPair, startReplica } from '../../support/start-gateway.js';

const BATCH = '/v1/leases/heartbeat';

/** The answer for one lease, or a problem. */
interface Item {
  status: number;
  leaseId?: string;
  expiresAt?: string;
  limit?: string;
}

describe('one heartbeat', () => {
  it('has nothing to say: an empty body or {}, and refuses anything else', async () => {
    await using replica = await startReplica();
    const { leaseToken } = await replica.createLease({ ttlMs: 10_000 });
    const send = (body?: unknown): Promise<Reply> =>
      replica.call('POST', '/v1/leases/self/heartbeat', { leaseToken, ...(body !== undefined && { body }) });
    expect((await send()).status).toBe(200);
    expect((await send({})).status).toBe(200);
    expect((await send({ ttlMs: 20_000 })).body).toMatchObject({ status: 422, code: 'invalid', field: 'ttlMs' });
    expect((await send([])).status).toBe(422);
    expect((await send('{')).body).toMatchObject({ status: 400, code: 'malformed' });
  });
});

describe('a batch of heartbeats', () => {
  it('answers one item per token in their order, each with its own status', async () => {
    await using pair = await startPair();
    const [one, ended, two] = await Promise.all([
      pair.a.createLease({ ttlMs: 10_000 }),
      pair.a.createLease({ ttlMs: 10_000 }),
      pair.b.createLease({ ttlMs: 20_000 }),
    ]);
    await pair.b.endLease(ended);
    const leaseTokens = [two.leaseToken, 'v1.nonsense', ended.leaseToken, one.leaseToken, two.leaseToken];
    const { items } = (await pair.b.expect(200, 'POST', BATCH, { body: { leaseTokens } })) as { items: Item[] };
    expect(items.map(({ status }) => status)).toEqual([200, 403, 410, 200, 200]);
    expect(items[0]).toMatchObject({ leaseId: two.leaseId, ttlMs: 20_000, revocations: [], lost: [] });
    expect(items[1]).toMatchObject({
      code: 'invalid-lease-token',
      type: '/problems/invalid-lease-token',
      outcome: 'not-applied',
    });
    expect(items[2]).toMatchObject({ code: 'lease-expired', retryable: false });
    expect(items[3]).toMatchObject({ leaseId: one.leaseId, ttlMs: 10_000 });
    expect(Date.parse(String(items[3]?.expiresAt))).toBeGreaterThan(Date.now());
    expect(items[4]).toMatchObject({ leaseId: two.leaseId });
  });

  it('keeps every lease in it alive, sent to either replica', async () => {
    await using pair = await startPair();
    const ttlMs = 3_000;
    const leases = await Promise.all(Array.from({ length: 10 }, () => pair.a.createLease({ ttlMs })));
    const leaseTokens = leases.map(({ leaseToken }) => leaseToken);
    let turn = 0;
    await throughout(
      'all ten live',
      async () => {
        const { items } = (await [pair.a, pair.b][turn++ % 2]!.expect(200, 'POST', BATCH, {
          body: { leaseTokens },
        })) as { items: Item[] };
        return items.length === 10 && items.every(({ status }) => status === 200);
      },
      { forMs: 2 * ttlMs, everyMs: ttlMs / 4 },
    );
  });

  it('takes a thousand tokens and not one more', async () => {
    await using replica = await startReplica();
    const leases: LeaseHandle[] = [];
    for (let round = 0; round < 10; round++)
      leases.push(...(await Promise.all(Array.from({ length: 10 }, () => replica.createLease({ ttlMs: 60_000 })))));
    const leaseTokens = Array.from({ length: 1_000 }, (_, index) => leases[index % 100]!.leaseToken);
    const { items } = (await replica.expect(200, 'POST', BATCH, { body: { leaseTokens } })) as { items: Item[] };
    expect(items.map(({ leaseId }) => leaseId)).toEqual(
      Array.from({ length: 1_000 }, (_, index) => leases[index % 100]!.leaseId),
    );
    const { status, body } = await replica.call('POST', BATCH, {
      body: { leaseTokens: [...leaseTokens, leaseTokens[0]] },
    });
    expect(status).toBe(422);
    expect(body).toMatchObject({ code: 'invalid', field: 'leaseTokens' });
    expect(JSON.stringify(body)).not.toContain(leaseTokens[0]);
  });

  it('counts tokens that do not open as requests, and opens no more of them than the rate limit allows', async () => {
    await using keys = await makeApiKeys({ eager: { default: ['read', 'use'] } });
    await using replica = await startReplica({
      settings: { POSTERN_AUTH_FILE: keys.file, POSTERN_RATE_LIMIT: '1', POSTERN_RATE_BURST: '20' },
    });
    await using eager = keys.as('eager', replica.url);
    const { leaseToken } = await eager.createLease({ ttlMs: 60_000 });
    const garbage = Array.from({ length: 998 }, (_, i) => `v1.nonsense${i}`);
    const { items } = (await eager.expect(200, 'POST', BATCH, {
      body: { leaseTokens: [leaseToken, ...garbage, leaseToken] },
    })) as { items: Item[] };
    const opened = items.filter(({ status }) => status === 403).length;
    expect(opened).toBeGreaterThan(0);
    expect(opened).toBeLessThan(100);
    expect(items.filter(({ status, limit }) => status === 429 && limit === 'rateLimit')).toHaveLength(998 - opened);
    // What the replica has opened before is never refused, and one token is one heartbeat.
    expect([items[0]?.status, items[999]]).toEqual([200, items[0]]);
    // One a second is granted again.
    let granted = 0;
    while ((await eager.call('GET', '/v1/locks/any')).status !== 429) granted += 1;
    expect(granted).toBeLessThan(10);
  });

  it('refuses a list that is none, is empty, or holds something else than tokens, without repeating them', async () => {
    await using replica = await startReplica();
    for (const [body, field] of [
      [{}, 'leaseTokens'],
      [{ leaseTokens: [] }, 'leaseTokens'],
      [{ leaseTokens: 'v1.secret-token' }, 'leaseTokens'],
      [{ leaseTokens: [17] }, 'leaseTokens'],
      [{ leaseTokens: [''] }, 'leaseTokens'],
      [{ leaseTokens: ['x'.repeat(2_049)] }, 'leaseTokens'],
      [{ leaseTokens: ['v1.secret-token'], ttlMs: 5 }, 'ttlMs'],
    ] as const) {
      const reply = await replica.call('POST', BATCH, { body });
      expect(reply.status, JSON.stringify(body)).toBe(422);
      expect(reply.body.field as string).toContain(field);
      expect(JSON.stringify(reply.body)).not.toContain('secret-token');
    }
  });

  it('refuses only the items that are of another principal or another namespace', async () => {
    await using keys = await makeApiKeys({ alice: '*', bob: '*' });
    await using replica = await startReplica({ settings: { POSTERN_AUTH_FILE: keys.file } });
    await using alice = keys.as('alice', replica.url);
    await using bob = keys.as('bob', replica.url);
    const hers = await alice.createLease({ ttlMs: 10_000 });
    const elsewhere = await alice.expect(201, 'POST', '/v1/leases', {
      body: { ttlMs: 10_000 },
      headers: { namespace: 'elsewhere' },
    });
    const his = await bob.createLease({ ttlMs: 10_000 });
    const leaseTokens = [hers.leaseToken, elsewhere.leaseToken as string, his.leaseToken];
    const statuses = async (headers?: Record<string, string>): Promise<number[]> => {
      const { items } = (await alice.expect(200, 'POST', BATCH, {
        body: { leaseTokens },
        ...(headers && { headers }),
      })) as { items: Item[] };
      return items.map(({ status }) => status);
    };
    expect(await statuses()).toEqual([200, 200, 403]);
    expect(await statuses({ namespace: 'default' })).toEqual([200, 403, 403]);
  });
});
