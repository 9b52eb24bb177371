/**
 * Scopes that are narrowed to names: whatever a request names is held against them, and lists show no more than may be
 * read.
 */
import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { runLog } from '../../support/run-log.js';
import { openApi, type Operation } from '../../../src/http/contract/openapi.js';
import { makeApiKeys, type ApiKeys, type KeyedClient } from '../../support/http/api-keys.js';
import type { LeaseHandle, Reply } from '../../support/http/client.js';
import { EventReader } from '../../support/http/event-stream.js';
import { eventually } from '../../support/eventually.js';
import { startPair, type Pair } from '../../support/start-gateway.js';

const ALL = ['read', 'use', 'admin'] as ('read' | 'use' | 'admin')[];

let keys: ApiKeys;
let pair: Pair;
/**
 * May do everything with what is called `mine` or begins with `mine.` or `mine/`, through one replica and the other.
 */
let mine: KeyedClient;
let mineB: KeyedClient;
let root: KeyedClient;
let rootB: KeyedClient;
let lease: LeaseHandle;

beforeAll(async () => {
  const names = ['mine', 'mine.*', 'mine/*'];
  keys = await makeApiKeys({
    mine: { default: { '*': { scopes: ALL, names } } },
    mixed: {
      default: {
        lease: ['use'],
        lock: [{ scopes: ['read'] }, { scopes: ['use'], names: ['mine.*'] }],
        config: { scopes: ['use'], names: ['mine/*'] },
        queue: { scopes: ['admin'], names: ['mine.*'] },
      },
    },
    'locks-only': { default: { lock: ALL, rwlock: ALL, semaphore: ALL, lease: ['read'] } },
    'elections-only': { default: { election: ALL, lease: ['read'] } },
    'pools-only': { default: { pool: ALL, lease: ['read'] } },
    'their-pools-hidden': { default: { '*': ALL, pool: { scopes: ALL, names: ['mine.*'] } } },
    root: '*',
  });
  pair = await startPair({ settings: { POSTERN_AUTH_FILE: keys.file } });
  mine = keys.as('mine', pair.a.url);
  mineB = keys.as('mine', pair.b.url);
  root = keys.as('root', pair.a.url);
  rootB = keys.as('root', pair.b.url);
  lease = await mine.createLease({ ttlMs: 300_000 }); // longer than all tests of this file
});

afterAll(async () => {
  await mine.endLease(lease);
  for (const client of [mine, mineB, root, rootB]) await client[Symbol.asyncDispose]();
  await pair[Symbol.asyncDispose]();
  await keys[Symbol.asyncDispose]();
});

/** The example of the contract, without its wait. */
function exampleOf({ source, body }: Operation): unknown {
  if (body !== 'json') return body === 'raw' ? 'some bytes' : undefined;
  const { example, examples } = source.requestBody?.content['application/json'] ?? {};
  const value = (example ?? Object.values(examples ?? {})[0]?.value ?? {}) as Record<string, unknown>;
  return 'waitMs' in value ? { ...value, waitMs: 0 } : value;
}

function callNamed(client: KeyedClient, operation: Operation, name: string): Promise<Reply> {
  const path = operation.template
    .replace(/\{(name|key|leaseId)\}/, name)
    .replace('{member}', 'mine.member')
    .replace('{id}', '0'.repeat(32));
  const query = operation.parameters.some((parameter) => parameter.name === 'maxMs')
    ? '?maxMs=1'
    : operation.parameters.some((parameter) => parameter.name === 'of')
      ? '?of=3'
      : '';
  const body = exampleOf(operation);
  const takesToken = operation.parameters.some((parameter) => parameter.name === 'Lease-Token');
  return client.call(operation.method, path + query, {
    ...(body === undefined ? {} : { body }),
    ...(takesToken ? { leaseToken: lease.leaseToken } : {}),
  });
}

const naming = openApi().operations.filter(({ template }) => /\{(name|key|leaseId)\}/.test(template));

describe('a key that is narrowed to names', () => {
  it.each(naming.map((operation) => [operation.operationId, operation] as const))(
    'is refused by %s of another name, at every replica',
    async (_, operation) => {
      const other = operation.template.includes('{leaseId}') ? lease.leaseId : 'theirs';
      for (const client of [mine, mineB]) {
        const { status, body } = await callNamed(client, operation, other);
        expect(body).toMatchObject({ status: 403, code: 'forbidden', kind: operation.kind, name: other });
        expect(body.scope).toMatch(/^(read|use|admin)$/);
        expect(body.detail).toContain(`the ${operation.kind} "${other}"`);
        expect(status).toBe(403);
      }
    },
  );

  it.each(
    naming
      .filter(({ template }) => !template.includes('{leaseId}'))
      .map((operation) => [operation.operationId, operation] as const),
  )('is not refused by %s of its own name', async (_, operation) => {
    const { status, body } = await callNamed(mine, operation, 'mine.own');
    expect([401, 500]).not.toContain(status);
    if (status === 403) expect(body.name).not.toBe('mine.own'); // the example names another queue as well
  });

  it('means a name without a star exactly, and a prefix with all of it', async () => {
    const statusOf = async (name: string): Promise<number> => (await mine.call('GET', `/v1/locks/${name}`)).status;
    expect(await statusOf('mine')).toBe(200);
    expect(await statusOf('mine.')).toBe(200);
    expect(await statusOf('mine.x')).toBe(200);
    expect(await statusOf('%6Dine.x')).toBe(200);
    expect(await statusOf('miner')).toBe(403);
    expect(await statusOf('Mine.x')).toBe(403);
    expect(await statusOf('min')).toBe(403);
    expect(await statusOf('other.mine.x')).toBe(403);
    expect((await mine.call('GET', '/v1/config/mine/x/y')).status).toBe(404);
    expect((await mine.call('GET', '/v1/config/mine%2Fx')).status).toBe(404);
    expect((await mine.call('GET', '/v1/config/mineral/x')).status).toBe(403);
  });

  it('may have scopes on all names and more on some', async () => {
    await using mixed = keys.as('mixed', pair.b.url);
    const own = await mixed.createLease({ ttlMs: 20_000 });
    expect((await mixed.call('GET', '/v1/locks/theirs')).status).toBe(200);
    expect((await mixed.acquire('theirs', own)).body).toMatchObject({ status: 403, scope: 'use', name: 'theirs' });
    await mixed.hold('mine.one', own);
    expect((await mixed.call('POST', '/v1/locks/mine.one/revoke', { body: {} })).status).toBe(403);
    await mixed.endLease(own);
  });
});

describe('names in bodies and headers are checked', () => {
  const forbidden = (reply: Reply, kind: string, name: string): void => {
    expect(reply.status).toBe(403);
    expect(reply.body).toMatchObject({ code: 'forbidden', kind, name, outcome: 'not-applied' });
  };

  it('of many locks: each of them, and none is taken', async () => {
    const reply = await mineB.call('POST', '/v1/locks/acquire', {
      body: { names: ['mine.a', 'theirs', 'mine.b'] },
      leaseToken: lease.leaseToken,
    });
    forbidden(reply, 'lock', 'theirs');
    expect(await root.showLock('mine.a')).toMatchObject({ holders: [], waiterCount: 0 });
    await mine.expect(200, 'POST', '/v1/locks/acquire', {
      body: { names: ['mine.a', 'mine.b'] },
      leaseToken: lease.leaseToken,
    });
  });

  it('of a claim from several queues: each of them, and nothing is claimed', async () => {
    const queues = ['mine.jobs', 'theirs'];
    await root.expect(201, 'POST', '/v1/queues/mine.jobs/messages', { body: { messages: [{ body: 1 }] } });
    forbidden(
      await mineB.call('POST', '/v1/queues/claim', { body: { queues }, leaseToken: lease.leaseToken }),
      'queue',
      'theirs',
    );
    expect(await root.expect(200, 'GET', '/v1/queues/mine.jobs')).toMatchObject({ claimed: 0 });
    const body = { queues: ['mine.none', 'mine.jobs'] };
    await mine.expect(200, 'POST', '/v1/queues/claim', { body, leaseToken: lease.leaseToken });
  });

  it('of a lock that is taken together with its lease: no lease is made', async () => {
    const before = ((await root.expect(200, 'GET', '/v1/leases')) as { items: unknown[] }).items.length;
    forbidden(
      await mine.acquire('theirs', undefined, { lease: {}, requestId: 'one-000000000000000000' }),
      'lock',
      'theirs',
    );
    expect(((await rootB.expect(200, 'GET', '/v1/leases')) as { items: unknown[] }).items).toHaveLength(before);
    const { leaseToken } = (
      await mine.acquire('mine.one-call', undefined, { lease: {}, requestId: 'one-000000000000000000' })
    ).body;
    await mineB.endLease({ leaseToken });
  });

  it('of a batch of configuration keys, and nothing is written', async () => {
    for (const operation of [{ put: 'theirs/x', value: 1 }, { delete: 'theirs/x' }, { check: 'theirs/x' }]) {
      const reply = await mine.call('POST', '/v1/config', {
        body: { operations: [{ put: 'mine/batch', value: 1 }, operation] },
      });
      forbidden(reply, 'config', 'theirs/x');
    }
    expect((await root.call('GET', '/v1/config/mine/batch')).status).toBe(404);
    await mineB.expect(200, 'POST', '/v1/config', { body: { operations: [{ put: 'mine/batch', value: 1 }] } });
  });

  it('of the hold that guards a write', async () => {
    const guarded = (client: KeyedClient, guard: string): Promise<Reply> =>
      client.call('PUT', '/v1/config/mine/guarded', { body: 'x', headers: { guard } });
    const { fencingToken } = await mine.hold('mine.guard', lease);
    for (const kind of ['lock', 'rwlock', 'semaphore', 'election'])
      forbidden(await guarded(mineB, `${kind}=theirs;token=1`), kind, 'theirs');
    expect((await guarded(mineB, `lock=mine.guard;token=${fencingToken}`)).status).toBe(201);
    await using mixed = keys.as('mixed', pair.a.url);
    expect((await guarded(mixed, `lock=mine.guard;token=${fencingToken}`)).status).toBe(200);
    expect((await guarded(mixed, `lock=theirs;token=${fencingToken}`)).status).toBe(412); // it may read every lock
    forbidden(await guarded(mixed, `semaphore=mine.guard;token=1`), 'semaphore', 'mine.guard');
  });

  it('of the queues that messages are moved to', async () => {
    const withDeadLetters = (deadLetterQueue: string): Promise<Reply> =>
      mine.call('PUT', '/v1/queues/mine.q', { body: { order: 'fifo', maxDeliveries: 3, deadLetterQueue } });
    forbidden(await withDeadLetters('theirs'), 'queue', 'theirs');
    expect((await withDeadLetters('mine.dead')).status).toBeLessThan(300);
    forbidden(await mineB.call('POST', '/v1/queues/mine.q/redrive', { body: { to: 'theirs' } }), 'queue', 'theirs');
    const audited = runLog.lines().filter(({ audit, status }) => audit === true && status === 403);
    expect(audited.at(-1)).toMatchObject({ operation: 'redriveQueue' });
    expect((await mine.call('PUT', '/v1/queues/mine.dead', { body: { order: 'fifo' } })).status).toBe(201);
    await using mixed = keys.as('mixed', pair.a.url); // with `admin` alone: that is enough to redrive within its names
    expect((await mixed.call('POST', '/v1/queues/mine.q/redrive', { body: { to: 'mine.dead' } })).status).toBe(200);
  });

  it('of the participants of transactions, which are what a transaction is known by', async () => {
    const create = (client: KeyedClient, participants: string[]): Promise<Reply> =>
      client.call('POST', '/v1/transactions', { body: { participants, deadlineMs: 30_000 } });
    forbidden(await create(mine, ['mine.a', 'theirs']), 'transaction', 'theirs');
    const own = (await create(mine, ['mine.a'])).body.transactionId as string;
    const both = (await create(root, ['mine.a', 'theirs'])).body.transactionId as string;
    const foreign = (await create(root, ['theirs'])).body.transactionId as string;

    const at = (id: string, step: string, body: unknown): Promise<Reply> =>
      mineB.call('POST', `/v1/transactions/${id}/${step}`, { body, leaseToken: lease.leaseToken });
    forbidden(await at(both, 'join', { participant: 'theirs' }), 'transaction', 'theirs');
    forbidden(await at(both, 'vote', { participant: 'theirs', vote: 'abort' }), 'transaction', 'theirs');
    expect((await at(both, 'join', { participant: 'mine.a' })).status).toBe(200);

    expect((await mineB.call('GET', `/v1/transactions/${both}`)).status).toBe(200);
    // That of others is as one that there is none of.
    const like = (reply: Reply, id: string): unknown =>
      JSON.parse(JSON.stringify({ ...reply.body, instance: '', status: reply.status }).replaceAll(id, 'ID'));
    const none = '0'.repeat(foreign.length);
    for (const [method, rest] of [
      ['GET', ''],
      ['GET', '?consistency=stale'],
      ['GET', '/events'],
      ['POST', '/abort'],
    ] as const) {
      const ask = async (id: string): Promise<unknown> =>
        like(await mineB.call(method, `/v1/transactions/${id}${rest}`, method === 'POST' ? { body: {} } : {}), id);
      expect(await ask(foreign)).toEqual(await ask(none));
      expect(await ask(foreign)).toMatchObject({ status: 404, code: 'not-found' });
    }
    const { items } = await mine.expect(200, 'GET', '/v1/transactions');
    expect(new Set((items as { transactionId: string }[]).map(({ transactionId }) => transactionId))).toEqual(
      new Set([own, both]),
    );
    forbidden(await at(both, 'abort', {}), 'transaction', 'theirs'); // not its own, and `admin` on one of the two only
    expect((await at(own, 'abort', {})).status).toBe(200);
  });
});

describe('lists', () => {
  const LISTS: Record<string, (client: KeyedClient, name: string, leaseToken: string) => Promise<Reply>> = {
    locks: (client, name, leaseToken) => client.acquire(name, { leaseToken }),
    rwlocks: (client, name, leaseToken) =>
      client.call('POST', `/v1/rwlocks/${name}/acquire`, { body: { mode: 'read' }, leaseToken }),
    semaphores: (client, name, leaseToken) =>
      client.call('POST', `/v1/semaphores/${name}/acquire`, { body: { limit: 2 }, leaseToken }),
    elections: (client, name, leaseToken) =>
      client.call('POST', `/v1/elections/${name}/campaign`, { body: {}, leaseToken }),
    groups: (client, name, leaseToken) => client.call('PUT', `/v1/groups/${name}/members/m`, { body: {}, leaseToken }),
    'double-barriers': (client, name, leaseToken) =>
      client.call('POST', `/v1/double-barriers/${name}/enter`, { body: { size: 2 }, leaseToken }),
    barriers: (client, name) => client.call('PUT', `/v1/barriers/${name}`),
    queues: (client, name) => client.call('POST', `/v1/queues/${name}/messages`, { body: { messages: [{ body: 1 }] } }),
    counters: (client, name) => client.call('POST', `/v1/counters/${name}/add`, { body: { by: 1 } }),
    config: (client, name) => client.call('PUT', `/v1/config/${name.replace('.', '/')}`, { body: 'x' }),
  };

  it.each(Object.entries(LISTS))('of %s show only what may be read, also page by page', async (kind, make) => {
    const holder = await root.createLease({ ttlMs: 20_000 });
    const wanted = ['mine.list1', 'mine.list2', 'mine.list3'];
    for (const name of ['a.list', 'mind.list', ...wanted, 'miner.list', 'z.list'])
      expect((await make(root, name, holder.leaseToken)).status).toBeLessThan(300);
    const named = ({ items }: { items: { name?: string; key?: string }[] }): string[] =>
      items.map(({ name, key }) => (name ?? key ?? '').replace('/', '.'));
    const prefix = kind === 'config' ? 'mine/list' : 'mine.list';
    expect(named(await mineB.expect(200, 'GET', `/v1/${kind}?prefix=${prefix}`))).toEqual(wanted);
    const all: string[] = [];
    let token = '';
    let pages = 0;
    do {
      const page = await mineB.expect(200, 'GET', `/v1/${kind}?limit=2${token}`);
      expect(page.items.length).toBeGreaterThan(0); // no page tells by being empty that something was passed over
      all.push(...named(page));
      token = page.nextPageToken === undefined ? '' : `&pageToken=${page.nextPageToken}`;
      pages += 1;
    } while (token !== '' && pages < 50);
    expect(all.filter((name) => name.includes('list'))).toEqual(wanted);
    expect(all.filter((name) => !/^mine(\.|$)/.test(name))).toEqual([]);
    expect(named(await rootB.expect(200, 'GET', `/v1/${kind}?limit=1000`))).toContain('a.list');
    await rootB.endLease(holder);
  });

  it('of leases show a narrowed administrator none: ending one frees what it may not touch', async () => {
    expect(((await mine.expect(200, 'GET', '/v1/leases')) as { items: unknown[] }).items).toEqual([]);
    expect((await mine.call('DELETE', `/v1/leases/${lease.leaseId}`)).status).toBe(403);
    expect(((await root.expect(200, 'GET', '/v1/leases')) as { items: unknown[] }).items.length).toBeGreaterThan(0);
  });

  it('as streams show only what may be read, at the begin and later', async () => {
    const put = (key: string): Promise<Reply> => root.call('PUT', `/v1/config/${key}`, { body: 'x' });
    await put('theirs/stream/1');
    await put('mine/stream/1');
    await using stream = await EventReader.open(pair.b.url, '/v1/config?prefix=', {
      headers: { authorization: `Bearer ${mine.key}` },
    });
    await eventually('the first state', () => stream.seen.length > 0);
    await put('theirs/stream/2');
    await put('mine/stream/2');
    await eventually('the change', () => JSON.stringify(stream.seen).includes('mine/stream/2'));
    expect(JSON.stringify(stream.seen)).toContain('mine/stream/1');
    expect(JSON.stringify(stream.seen)).not.toMatch(/theirs/);
  });

  it('of contention show only what may be read, whatever its kind', async () => {
    const holder = await root.createLease({ ttlMs: 20_000 });
    const ended: Promise<Reply>[] = [];
    for (const name of ['mine.busy', 'theirs.busy']) {
      await root.hold(name, holder);
      const waiter = await root.createLease({ ttlMs: 20_000 });
      ended.push(root.acquire(name, waiter, { waitMs: 20_000 }).then(() => root.endLease(waiter)));
      await root.untilWaiting(name, 1);
    }
    const shown = async (client: KeyedClient, query = ''): Promise<string[]> =>
      ((await client.expect(200, 'GET', `/v1/contention${query}`)) as { items: { name: string }[] }).items.map(
        ({ name }) => name,
      );
    await root.expect(201, 'PUT', '/v1/pools/theirs.pool', { body: { of: 1 } });
    const member = (client: LeaseHandle, waitMs: number): Promise<Reply> =>
      root.call('POST', '/v1/pools/theirs.pool/acquire', { body: { waitMs }, leaseToken: client.leaseToken });
    expect((await member(holder, 0)).status).toBe(200);
    const next = await root.createLease({ ttlMs: 20_000 });
    ended.push(member(next, 20_000).then(() => root.endLease(next)));
    await using others = keys.as('their-pools-hidden', pair.a.url);
    await eventually('the pool is shown', async () => (await shown(root)).includes('theirs.pool'));
    const theirs = (await shown(others)).filter((name) => name.startsWith('theirs'));
    expect(theirs.filter((name) => name !== 'theirs.busy')).toEqual([]);
    // A place in line is there a moment before its request counts as one that waits.
    await eventually('both are shown', async () => {
      const names = await shown(root);
      return names.includes('mine.busy') && names.includes('theirs.busy');
    });
    expect(await shown(mine)).toContain('mine.busy');
    expect((await shown(mine)).filter((name) => !name.startsWith('mine'))).toEqual([]);
    const shownOfAll = (client: KeyedClient): Promise<string[]> => shown(client, '?scope=all');
    await eventually('the other replica shows it', async () => (await shownOfAll(rootB)).includes('theirs.busy'));
    expect((await shownOfAll(mineB)).filter((name) => name.endsWith('busy'))).toEqual(['mine.busy']);
    await root.endLease(holder);
    await Promise.all(ended);
  });
});

it('a lock and its lease in one request need the scope for leases too, and nothing is done without it', async () => {
  await using client = keys.as('locks-only', pair.a.url);
  for (const kind of ['lock', 'rwlock', 'semaphore']) {
    const body = { lease: { ttlMs: 10_000 }, requestId: randomBytes(16).toString('hex'), ...MORE[kind] };
    const refused = await client.call('POST', `/v1/${kind}s/mine.one-call/acquire`, { body });
    expect(refused.status).toBe(403);
    expect(refused.body).toMatchObject({ code: 'forbidden', scope: 'use', kind: 'lease', outcome: 'not-applied' });
    const { holders } = (await root.expect(200, 'GET', `/v1/${kind}s/mine.one-call`)) as { holders: unknown[] };
    expect(holders).toEqual([]);
  }
});

it('a candidacy and its lease in one request need the scope for leases too', async () => {
  await using client = keys.as('elections-only', pair.a.url);
  const body = { lease: { ttlMs: 10_000 }, requestId: randomBytes(16).toString('hex') };
  const refused = await client.call('POST', '/v1/elections/mine.one-call/campaign', { body });
  expect([refused.status, refused.body]).toMatchObject([403, { scope: 'use', kind: 'lease', outcome: 'not-applied' }]);
  const { leader } = (await root.expect(200, 'GET', '/v1/elections/mine.one-call')) as { leader: unknown };
  expect(leader).toBeNull();
});

it('members of a pool and their lease in one request need the scope for leases too', async () => {
  await root.call('PUT', '/v1/pools/mine.one-call', { body: { of: 1 } });
  await using client = keys.as('pools-only', pair.a.url);
  const body = { lease: { ttlMs: 10_000 }, requestId: randomBytes(16).toString('hex') };
  const refused = await client.call('POST', '/v1/pools/mine.one-call/acquire', { body });
  expect([refused.status, refused.body]).toMatchObject([403, { scope: 'use', kind: 'lease', outcome: 'not-applied' }]);
  const { heldCount } = (await root.expect(200, 'GET', '/v1/pools/mine.one-call')) as { heldCount: number };
  expect(heldCount).toBe(0);
});

/** What an acquire needs beside its name. */
const MORE: Record<string, object> = { rwlock: { mode: 'write' }, semaphore: { limit: 1 } };
