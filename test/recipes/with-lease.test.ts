/** Lease and claim, membership, entry or attempt in one request: also when the answer is lost, or refused (C14). */
import { describe, expect, test } from 'vitest';
import { eventually } from '../support/eventually.js';
import type { Client, LeaseHandle, Reply } from '../support/http/client.js';
import { spawnReplica, startPair, startReplica } from '../support/start-gateway.js';
import { freshRoot, startZooKeeper } from '../support/start-zookeeper.js';
import { scaled } from '../support/timing.js';

const TTL_MS = 60_000;
const requestId = 'boot-00000000000000000000';

type Body = Record<string, unknown>;

interface Case {
  readonly method: 'POST' | 'PUT';
  readonly path: string;
  readonly body: Body;
  /** Makes the request succeed. */
  readonly prepare?: (replica: Client) => Promise<unknown>;
  /** Makes the request be in vain. */
  readonly block: (replica: Client) => Promise<unknown>;
  /** Of an answer in vain. */
  readonly inVain: { readonly status: number; readonly body?: Body };
  /** How many there are, as others see it. */
  readonly count: (replica: Client) => Promise<number>;
  /** What a repetition finds again. */
  readonly same: readonly string[];
}

const claim: Case = {
  method: 'POST',
  path: '/v1/queues/q/claim',
  body: { max: 1 },
  prepare: (replica) => replica.expect(201, 'POST', '/v1/queues/q/messages', { body: { messages: [{ body: 1 }] } }),
  block: () => Promise.resolve(),
  inVain: { status: 204 },
  count: async (replica) => ((await replica.expect(200, 'GET', '/v1/queues/q')) as { claimed: number }).claimed,
  same: ['items'],
};

const join: Case = {
  method: 'PUT',
  path: '/v1/groups/g/members/m',
  body: { value: 1 },
  block: async (replica) => {
    const { leaseToken } = await replica.createLease({ ttlMs: TTL_MS, label: 'other' });
    await replica.expect(201, 'PUT', '/v1/groups/g/members/m', { leaseToken, body: {} });
  },
  inVain: { status: 409, body: { code: 'conflict' } },
  count: async (replica) => ((await replica.expect(200, 'GET', '/v1/groups/g')) as { memberCount: number }).memberCount,
  same: ['memberId', 'fencingToken'],
};

const enter: Case = {
  method: 'POST',
  path: '/v1/double-barriers/d/enter',
  body: { size: 1 },
  block: async (replica) => {
    const { leaseToken } = await replica.createLease({ ttlMs: TTL_MS, label: 'other' });
    await replica.expect(202, 'POST', '/v1/double-barriers/d/enter', { leaseToken, body: { size: 2 } });
  },
  inVain: { status: 409, body: { code: 'conflict', size: 2 } },
  count: async (replica) =>
    ((await replica.expect(200, 'GET', '/v1/double-barriers/d')) as { memberCount: number }).memberCount,
  same: ['member', 'memberId', 'fencingToken'],
};

const start: Case = {
  method: 'POST',
  path: '/v1/runs/r/start',
  body: { occurrence: 'o' },
  block: async (replica) => {
    const { leaseToken } = await replica.createLease({ ttlMs: TTL_MS, label: 'other' });
    await replica.expect(200, 'POST', '/v1/runs/r/start', { leaseToken, body: { occurrence: 'o' } });
  },
  inVain: { status: 200, body: { started: false, state: 'running' } },
  count: async (replica) => {
    const { occurrences } = (await replica.expect(200, 'GET', '/v1/runs/r')) as { occurrences: { state: string }[] };
    return occurrences.filter(({ state }) => state === 'running').length;
  },
  same: ['attempt', 'fencingToken'],
};

const cases = { claim, join, enter, start };

function send(replica: Client, { method, path, body }: Case, more: Body = {}, signal?: AbortSignal): Promise<Reply> {
  const whole = { lease: { ttlMs: TTL_MS, label: 'boot' }, requestId, ...body, ...more };
  return replica.call(method, path, { body: whole, ...(signal && { signal }) });
}

async function leaseIds(replica: Client): Promise<string[]> {
  const { items } = (await replica.expect(200, 'GET', '/v1/leases')) as { items: { leaseId: string }[] };
  return items.map(({ leaseId }) => leaseId).sort();
}

function untilLeases(replica: Client, ids: readonly string[]): Promise<unknown> {
  return eventually(`the leases are ${ids.join()}`, async () => (await leaseIds(replica)).join() === ids.join());
}

describe.each(Object.entries(cases))('%s', (_, which) => {
  test('answers with the token of its lease, and a repetition elsewhere with the same (C14)', async () => {
    await using pair = await startPair();
    const { a, b } = pair;
    await which.prepare?.(a);
    const got = await send(a, which);
    expect([200, 201]).toContain(got.status);
    expect(got.body).toMatchObject({ ttlMs: TTL_MS, leaseToken: expect.any(String), expiresAt: expect.any(String) });
    const { leaseId, leaseToken, ...rest } = got.body as unknown as LeaseHandle & Body;
    const same = Object.fromEntries(which.same.map((field) => [field, rest[field]]));
    const again = await send(b, which);
    expect([again.status, again.body]).toMatchObject([200, { leaseId, leaseToken, ...same }]);
    expect(await which.count(b)).toBe(1);
    expect((await send(b, which, { lease: { label: 'other' } })).body).toMatchObject({ status: 409, code: 'conflict' });
    // The token is as good as any: the lease ends with it, and the same request makes another one.
    await b.expect(204, 'DELETE', '/v1/leases/self', { leaseToken });
    const next = (await send(b, which)).body as unknown as LeaseHandle;
    expect(next.leaseId).not.toBe(leaseId);
    await untilLeases(a, [next.leaseId]);
  });

  test('sent many times at once, it has one lease (C14)', async () => {
    await using pair = await startPair();
    const { a, b } = pair;
    await which.prepare?.(a);
    const replies = await Promise.all([a, b, a, b].map((replica) => send(replica, which)));
    const { leaseId, leaseToken } = (await send(b, which)).body as unknown as LeaseHandle;
    for (const { status, body } of replies) {
      if (status === 200 || status === 201) expect(body).toMatchObject({ leaseId, leaseToken });
      else expect([204, 409]).toContain(status);
    }
    await untilLeases(a, [leaseId]);
    expect(await which.count(a)).toBe(1);
  });

  test('in vain, it ends the lease that it made, and no other (C14)', async () => {
    await using replica = await startReplica();
    await which.block(replica);
    const before = await leaseIds(replica);
    const refused = await send(replica, which);
    expect(refused.status).toBe(which.inVain.status);
    if (which.inVain.body !== undefined) expect(refused.body).toMatchObject(which.inVain.body);
    expect((refused.body as Body | undefined)?.['leaseToken']).toBeUndefined();
    await untilLeases(replica, before);
  });

  test('is refused with what is wrong: two leases, no requestId of its own, or one that can be guessed', async () => {
    await using replica = await startReplica();
    const { leaseToken, leaseId } = await replica.createLease({ ttlMs: TTL_MS });
    const { method, path, body } = which;
    const twice = await replica.call(method, path, { leaseToken, body: { ...body, lease: {}, requestId } });
    const wrong = [
      [twice, 'lease'],
      [await send(replica, which, { requestId: undefined }), 'requestId'],
      [await send(replica, which, { requestId: 'short' }), 'requestId'],
      [await send(replica, which, { lease: { ttlMs: 1 } }), 'ttlMs'],
    ] as const;
    for (const [reply, field] of wrong) expect([reply.status, reply.body]).toMatchObject([422, { field }]);
    const none = await replica.call(method, path, { body });
    expect([none.status, none.body]).toMatchObject([400, { code: 'lease-token-required' }]);
    expect(await leaseIds(replica)).toEqual([leaseId]);
  });
});

/** Those that may wait, and what they wait with. */
const waiting: Record<string, { which: Case; more: Body }> = {
  claim: { which: claim, more: { waitMs: 50_000 } },
};

describe.each(Object.entries(waiting))('a waiting %s', (_, { which, more }) => {
  test('ends its lease when its client goes away, and a killed replica leaves it to the repetition (C14)', async () => {
    const root = freshRoot();
    await using doomed = await spawnReplica({ root });
    await using other = await startReplica({ root });
    await other.expect(201, 'PUT', '/v1/queues/q', { body: { order: 'fifo' } }); // only in one that there is a wait is counted
    const gone = new AbortController();
    const left = send(other, which, more, gone.signal).catch(() => 'gone');
    await eventually('it has a lease', async () => (await leaseIds(other)).length === 1);
    gone.abort();
    expect(await left).toBe('gone');
    await untilLeases(other, []);
    const lost = send(doomed, which, more).catch(() => 'lost');
    await eventually('it has a lease', async () => (await leaseIds(other)).length === 1);
    const before = await leaseIds(other);
    await doomed.kill();
    expect(await lost).toBe('lost');
    const found = new AbortController();
    const repeated = send(other, which, more, found.signal).catch(() => 'gone');
    await eventually('it waits', async () => (await other.metric('postern_waiters')) === 1);
    expect(await leaseIds(other)).toEqual(before);
    // It found the lease, which may be its client's by now.
    found.abort();
    expect(await repeated).toBe('gone');
    await eventually('it waits no more', async () => (await other.metric('postern_waiters')) === 0);
    expect(await leaseIds(other)).toEqual(before);
  });
});

test('a start that waits for an attempt in vain ends its lease, and one that gets the next attempt keeps it', async () => {
  await using pair = await startPair();
  const { a, b } = pair;
  const first = await a.createLease({ ttlMs: TTL_MS });
  await a.expect(200, 'POST', '/v1/runs/r/start', { leaseToken: first.leaseToken, body: start.body });
  expect((await send(a, start, { waitMs: 50 })).body).toMatchObject({ started: false, state: 'running' });
  await untilLeases(b, [first.leaseId]);
  const waits = send(b, start, { waitMs: 50_000 });
  await eventually('it has a lease', async () => (await leaseIds(a)).length === 2);
  await a.endLease(first);
  const { leaseId, ...started } = (await waits).body as unknown as LeaseHandle & Body;
  expect(started).toMatchObject({ started: true, attempt: 2, leaseToken: expect.any(String) });
  expect(await leaseIds(a)).toEqual([leaseId]);
});

test('no refusal waits for the end of the lease that it made, while ZooKeeper is silent', async () => {
  await using zookeeper = await startZooKeeper({ proxied: true });
  const root = freshRoot();
  const settings = { POSTERN_REQUEST_TIMEOUT_MS: String(scaled(2_000)) };
  await using replica = await startReplica({ root, zookeeper: zookeeper.proxy.connectString, settings });
  await replica.expect(201, 'PUT', '/v1/queues/q', { body: { order: 'fifo' } });
  const begun = performance.now();
  const waits = send(replica, claim, { waitMs: scaled(1_000) });
  await eventually('it waits', async () => (await replica.metric('postern_waiters')) === 1);
  zookeeper.proxy.suspend();
  const { status } = await waits;
  const tookMs = performance.now() - begun;
  zookeeper.proxy.resume();
  expect([204, 503]).toContain(status);
  expect(tookMs).toBeLessThan(scaled(3_500));
});
