/** What the answer of a write tells: to whoever may write and not read, nothing that reading would have told. */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { makeApiKeys, type ApiKeys, type KeyedClient } from '../../support/http/api-keys.js';
import type { LeaseHandle } from '../../support/http/client.js';
import { startReplica, type Replica } from '../../support/start-gateway.js';

let keys: ApiKeys;
let replica: Replica;
let root: KeyedClient;
let writer: KeyedClient;
let mine: KeyedClient;
let lease: LeaseHandle;

beforeAll(async () => {
  keys = await makeApiKeys({
    root: '*',
    writer: { default: ['use'] },
    mine: { default: { lease: ['use'], transaction: { scopes: ['use'], names: ['mine.*'] } } },
  });
  replica = await startReplica({ settings: { POSTERN_AUTH_FILE: keys.file } });
  [root, writer, mine] = ['root', 'writer', 'mine'].map((id) => keys.as(id, replica.url)) as [
    KeyedClient,
    KeyedClient,
    KeyedClient,
  ];
  lease = await root.createLease({ ttlMs: 30_000 });
});

afterAll(async () => {
  await root.endLease(lease);
  for (const client of [root, writer, mine]) await client[Symbol.asyncDispose]();
  await replica[Symbol.asyncDispose]();
  await keys[Symbol.asyncDispose]();
});

it('a semaphore whose limit is set shows its holders and waiters to readers only', async () => {
  const path = '/v1/semaphores/pool';
  await root.expect(200, 'POST', `${path}/acquire`, { body: { limit: 1 }, leaseToken: lease.leaseToken });
  expect((await writer.call('GET', path)).status).toBe(403);
  expect(await writer.expect(200, 'PUT', path, { body: { limit: 2 } })).toEqual({ name: 'pool', limit: 2 });
  expect(await root.expect(200, 'PUT', path, { body: { limit: 2 } })).toMatchObject({ limit: 2, holderCount: 1 });
});

it('a queue that is configured shows its messages and consumers to readers only', async () => {
  const path = '/v1/queues/jobs';
  const made = { name: 'jobs', config: { order: 'fifo', maxDepth: 7 } };
  const first = (await writer.expect(201, 'PUT', path, { body: made.config })) as object;
  expect([first, Object.keys(first)]).toMatchObject([made, ['name', 'config']]);
  await root.expect(201, 'POST', `${path}/messages`, { body: { messages: [{ body: 1 }] } });
  expect(await writer.expect(200, 'PUT', path, { body: made.config })).toEqual(first);
  expect(await root.expect(200, 'PUT', path, { body: made.config })).toMatchObject({ ...first, depth: 1 });
});

it('a barrier that was raised already shows by whom to readers only', async () => {
  await root.expect(201, 'PUT', '/v1/barriers/gate');
  expect(await writer.expect(200, 'PUT', '/v1/barriers/gate')).toEqual({ name: 'gate', raised: true });
  expect(await root.expect(200, 'PUT', '/v1/barriers/gate')).toMatchObject({ raised: true, principal: 'root' });
});

it('a transaction that is aborted shows its votes and data to readers only', async () => {
  const begun = { body: { participants: ['mine.a'], deadlineMs: 60_000, data: { order: 7 } } };
  const begin = async (client: KeyedClient): Promise<string> =>
    ((await client.expect(201, 'POST', '/v1/transactions', begun)) as { transactionId: string }).transactionId;
  const abort = async (client: KeyedClient, id: string): Promise<object> =>
    (await client.expect(200, 'POST', `/v1/transactions/${id}/abort`, { body: {} })) as object;
  const own = await abort(writer, await begin(writer));
  expect(own).toMatchObject({ state: 'aborted', participantCount: 1 });
  for (const hidden of ['votes', 'data']) expect(own).not.toHaveProperty(hidden);
  expect(await abort(root, await begin(root))).toMatchObject({
    state: 'aborted',
    votes: [{ participant: 'mine.a' }],
    data: { order: 7 },
  });
});

it('a transaction of strangers is none to whoever joins it, or votes in it, as a participant of his own', async () => {
  const own = await mine.createLease({ ttlMs: 30_000 });
  const begin = (...participants: string[]): Promise<{ transactionId: string }> =>
    root.expect(201, 'POST', '/v1/transactions', { body: { participants, deadlineMs: 60_000 } }) as Promise<{
      transactionId: string;
    }>;
  const open = (await begin('theirs.a', 'theirs.b')).transactionId;
  const decided = (await begin('theirs.a')).transactionId;
  await root.expect(200, 'POST', `/v1/transactions/${decided}/abort`, { body: {} });
  const ask = async (client: KeyedClient, id: string, verb: string): Promise<unknown> => {
    const body = { participant: 'mine.x', ...(verb === 'vote' && { vote: 'commit' }) };
    const { leaseToken } = client === mine ? own : lease;
    const reply = await client.call('POST', `/v1/transactions/${id}/${verb}`, { body, leaseToken });
    const { instance: _, detail, ...told } = reply.body as { instance: string; detail: string };
    return { ...told, detail: detail.replace(id, 'ID') };
  };
  for (const verb of ['join', 'vote']) {
    const none = await ask(mine, '0'.repeat(32), verb);
    expect(none).toMatchObject({ status: 404 });
    for (const id of [open, decided]) {
      expect(await ask(mine, id, verb)).toEqual(none);
      expect(await ask(root, id, verb)).toMatchObject({ status: 422, field: 'participant' });
    }
  }
  // Who may know one of the others is told which name is wrong.
  const shared = (await begin('theirs.a', 'mine.y')).transactionId;
  expect(await ask(mine, shared, 'join')).toMatchObject({ status: 422, field: 'participant' });
  await mine.endLease(own);
});
