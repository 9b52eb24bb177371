/** How many names of a kind a namespace may have, and that those that there are can be used all the same. */
import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { CallOptions, LeaseHandle, Reply } from '../support/http/client.js';
import { eventually } from '../support/eventually.js';
import { startSplit } from '../support/scene.js';
import { startPair, startReplica, type Pair } from '../support/start-gateway.js';
import { freshRoot, sharedZooKeeper } from '../support/start-zookeeper.js';
import { scaled } from '../support/timing.js';
import { startTcpProxy } from '../support/zookeeper/tcp-proxy.js';

const MAX = 3;

let pair: Pair;
let lease: LeaseHandle;
beforeAll(async () => {
  pair = await startPair({ settings: { POSTERN_MAX_NAMES: String(MAX) } });
  lease = await pair.a.createLease({ ttlMs: 30_000 });
});
afterAll(async () => {
  await pair.a.endLease(lease);
  await pair[Symbol.asyncDispose]();
});

type Use = (name: string, options?: CallOptions) => Promise<Reply>;

/** A request that makes the name when it is not there, and can be repeated. */
const uses: Record<string, Use> = {
  locks: (name) => acquire('locks', name),
  rwlocks: (name) => acquire('rwlocks', name, { mode: 'read' }),
  semaphores: (name) => acquire('semaphores', name, { limit: 2 }),
  'limits of semaphores': (name) => call('PUT', `/v1/semaphores/${name}`, { limit: 2 }),
  elections: (name) => call('POST', `/v1/elections/${name}/campaign`, {}, true),
  groups: (name) => call('PUT', `/v1/groups/${name}/members/me`, {}, true),
  'double-barriers': (name) => call('POST', `/v1/double-barriers/${name}/enter`, { member: 'me', size: 2 }, true),
  barriers: (name) => call('PUT', `/v1/barriers/${name}`),
  queues: (name) => call('POST', `/v1/queues/${name}/messages`, { messages: [{ body: 1 }] }),
  counters: (name) => call('POST', `/v1/counters/${name}/add`, { by: 1 }),
  configuration: (name) =>
    pair.a.call('PUT', `/v1/config/${name}`, { body: 'x', headers: { 'content-type': 'text/plain' } }),
  transactions: (name) =>
    call('POST', '/v1/transactions', { participants: ['a'], deadlineMs: 60_000, requestId: name }),
};

function call(method: 'POST' | 'PUT', path: string, body?: unknown, withLease = false): Promise<Reply> {
  return pair.a.call(method, path, {
    ...(body === undefined ? {} : { body }),
    ...(withLease ? { leaseToken: lease.leaseToken } : {}),
  });
}

function acquire(kind: string, name: string, more: object = {}): Promise<Reply> {
  return call('POST', `/v1/${kind}/${name}/acquire`, more, true);
}

describe('a namespace', () => {
  test.each(Object.keys(uses).filter((kind) => kind !== 'limits of semaphores'))(
    'has at most so many %s, which can be used when it is full',
    async (kind) => {
      const use = uses[kind] as Use;
      const names = Array.from({ length: MAX }, () => `n${randomBytes(6).toString('hex')}`);
      for (const name of names)
        expect([kind, (await use(name)).status]).toEqual([kind, expect.toBeOneOf([200, 201, 202])]);
      const refused = await use('one-more');
      expect(refused.status).toBe(409);
      expect(refused.body).toMatchObject({
        code: 'too-many-names',
        outcome: 'not-applied',
        limit: 'maxNames',
        maxNames: MAX,
        names: MAX,
      });
      for (const name of names) expect((await use(name)).status).toBeLessThan(300);
    },
  );

  test('is full for a limit of a semaphore as well', async () => {
    expect((await (uses['limits of semaphores'] as Use)('one-more')).body).toMatchObject({ code: 'too-many-names' });
  });

  test('has room again when something was deleted, and another namespace has room of its own', async () => {
    const headers = { namespace: 'elsewhere' };
    const push = (queue: string): Promise<Reply> =>
      pair.a.call('POST', `/v1/queues/${queue}/messages`, { headers, body: { messages: [{ body: 1 }] } });
    for (const queue of ['a', 'b', 'c']) expect((await push(queue)).status).toBe(201);
    expect((await push('d')).status).toBe(409);
    expect((await pair.b.call('DELETE', '/v1/queues/a?force=true', { headers })).status).toBe(204);
    await eventually('there is room', async () => (await push('d')).status === 201);
  });
});

describe.each(['groups', 'double-barriers'])('one of %s', (kind) => {
  test('has at most so many members, who can come again when it is full, and room when one has gone', async () => {
    await using few = await startPair({ settings: { POSTERN_MAX_NAMES: String(MAX) } });
    const { leaseToken } = await few.a.createLease({ ttlMs: 30_000 });
    const join = (member: string): Promise<Reply> =>
      kind === 'groups'
        ? few.a.call('PUT', `/v1/groups/team/members/${member}`, { body: { value: 1 }, leaseToken })
        : few.a.call('POST', '/v1/double-barriers/team/enter', { body: { member, size: MAX + 2 }, leaseToken });
    for (const member of ['a', 'b', 'c']) expect((await join(member)).status).toBeLessThan(300);
    const refused = await join('d');
    expect(refused.status).toBe(409);
    expect(refused.body).toMatchObject({ code: 'too-many-names', limit: 'maxNames', maxNames: MAX, names: MAX });
    for (const member of ['a', 'b', 'c']) expect((await join(member)).status).toBeLessThan(300);
    const leave =
      kind === 'groups'
        ? await few.b.call('DELETE', '/v1/groups/team/members/b', { leaseToken })
        : await few.b.call('POST', '/v1/double-barriers/team/leave', { body: { member: 'b' }, leaseToken });
    expect(leave.status).toBeLessThan(300);
    await eventually('there is room', async () => (await join('d')).status < 300);
  });
});

describe('namespaces', () => {
  test.each(['locks', 'semaphores', 'barriers', 'queues', 'counters', 'configuration', 'leases', 'transactions'])(
    'are at most so many, also where one would be made by %s, and those that there are can be used',
    async (kind) => {
      await using few = await startPair({ settings: { POSTERN_MAX_NAMESPACES: '1' } });
      const first = await few.a.createLease({ ttlMs: 30_000 });
      const headers = { namespace: `n${randomBytes(6).toString('hex')}` };
      const use = makes[kind] as (client: Pair['a'], headers: Record<string, string>) => Promise<Reply>;
      const refused = await use(few.a, headers);
      expect(refused.status).toBe(409);
      expect(refused.body).toMatchObject({
        code: 'too-many-names',
        outcome: 'not-applied',
        limit: 'maxNamespaces',
        maxNamespaces: 1,
        names: 1,
      });
      expect((await use(few.b, { namespace: 'default' })).status).toBeLessThan(300);
      await few.a.endLease(first);
    },
  );
});

/** Each with a lease of its own, where it takes one. */
const makes: Record<string, (client: Pair['a'], headers: Record<string, string>) => Promise<Reply>> = {
  locks: (client, headers) =>
    client.call('POST', '/v1/locks/n/acquire', {
      headers,
      body: { lease: { ttlMs: 30_000 }, requestId: randomBytes(16).toString('hex') },
    }),
  semaphores: (client, headers) => client.call('PUT', '/v1/semaphores/n', { headers, body: { limit: 2 } }),
  barriers: (client, headers) => client.call('PUT', '/v1/barriers/n', { headers }),
  queues: (client, headers) =>
    client.call('POST', '/v1/queues/n/messages', { headers, body: { messages: [{ body: 1 }] } }),
  counters: (client, headers) => client.call('POST', '/v1/counters/n/add', { headers, body: { by: 1 } }),
  configuration: (client, headers) =>
    client.call('PUT', '/v1/config/n', { body: 'x', headers: { ...headers, 'content-type': 'text/plain' } }),
  leases: (client, headers) => client.call('POST', '/v1/leases', { headers, body: { ttlMs: 30_000 } }),
  transactions: (client, headers) =>
    client.call('POST', '/v1/transactions', { headers, body: { participants: ['a'], deadlineMs: 60_000 } }),
};

test('who makes a name does not wait for another one who has more time, where both need to know how many there are', async () => {
  const port = Number(sharedZooKeeper().split(':')[1]);
  await using control = await startTcpProxy({ port });
  await using leases = await startTcpProxy({ port });
  const requestMs = scaled(1_000);
  const settings = { POSTERN_REQUEST_TIMEOUT_MS: String(requestMs) };
  const options = { root: freshRoot(), settings, controlSessionTimeoutMs: 40_000 };
  await using replica = await startSplit(options, control, leases);
  const { leaseToken } = await replica.createLease({ ttlMs: 30_000 });
  control.suspend();
  const waitMs = Math.min(20 * requestMs, 50_000);
  const patient = replica.call('POST', '/v1/locks/one/acquire', { leaseToken, body: { waitMs } });
  await eventually('it asks how many there are', () => control.heldBytes('toZooKeeper') > 0);
  const begunAt = performance.now();
  const { status } = await replica.call('POST', '/v1/locks/two/acquire', { leaseToken, body: {} });
  expect(status).toBe(503);
  expect(performance.now() - begunAt).toBeLessThan(waitMs / 4);
  control.heal();
  expect((await patient).status).toBe(200);
});

test('a one-call acquire of a name too many leaves no lease', async () => {
  await using replica = await startReplica({ settings: { POSTERN_MAX_NAMES: '1' } });
  await replica.hold('one', await replica.createLease({ ttlMs: 30_000 }));
  const body = { requestId: randomBytes(16).toString('hex'), lease: { ttlMs: 30_000 } };
  expect((await replica.call('POST', '/v1/locks/two/acquire', { body })).body).toMatchObject({
    code: 'too-many-names',
    outcome: 'not-applied',
  });
  expect((await replica.expect(200, 'GET', '/v1/leases')).items).toHaveLength(1);
});
