/**
 * What is open when its credential comes to an end: a key is taken out or may do less, a token expires. Nothing is
 * given to it any more.
 */
import { once } from 'node:events';
import { request, type IncomingMessage } from 'node:http';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { makeApiKeys, type ApiKeys, type KeyedClient } from '../../support/http/api-keys.js';
import { Client, type LeaseHandle, type Reply } from '../../support/http/client.js';
import { EventReader, type StreamedEvent } from '../../support/http/event-stream.js';
import { IdentityProvider } from '../../support/http/identity-provider.js';
import { eventually } from '../../support/eventually.js';
import { startReplica, type Replica } from '../../support/start-gateway.js';
import { scaled } from '../../support/timing.js';
import { untilMembers } from '../../recipes/double-barrier/client.js';

/** Longer than the test: what ends, ends for another reason. */
const WAIT = 50_000;
const NARROWED = { default: { lock: ['read', 'use'], '*': ['use'] } } as Parameters<typeof makeApiKeys>[0][string];

let keys: ApiKeys;
let replica: Replica;
let root: KeyedClient;
let lost: KeyedClient;
let narrowed: KeyedClient;
let lease: LeaseHandle;

beforeAll(async () => {
  keys = await makeApiKeys({ root: '*', lost: '*', narrowed: '*' });
  replica = await startReplica({ settings: { POSTERN_AUTH_FILE: keys.file } });
  [root, lost, narrowed] = ['root', 'lost', 'narrowed'].map((id) => keys.as(id, replica.url)) as [
    KeyedClient,
    KeyedClient,
    KeyedClient,
  ];
  lease = await root.createLease({ ttlMs: 30_000 });
});

afterAll(async () => {
  for (const client of [root, lost, narrowed]) await client[Symbol.asyncDispose]();
  await replica[Symbol.asyncDispose]();
  await keys[Symbol.asyncDispose]();
});

const waiting = (count: number): Promise<unknown> =>
  eventually(`${count} wait`, async () => (await replica.metric('postern_http_requests_in_flight')) === count);

/** Who has arrived is not in line yet. */
async function allInLine(): Promise<void> {
  await root.untilWaiting('plain', 2);
  await root.untilWaiting('kept', 1);
  await untilMembers(root, 'pair', 1);
}

const streamOf = (client: KeyedClient, path: string, leaseToken?: string): Promise<EventReader> =>
  EventReader.open(replica.url, path, {
    headers: { authorization: `Bearer ${client.key}` },
    ...(leaseToken === undefined ? {} : { leaseToken }),
  });

async function waitersOf(name: string): Promise<string[]> {
  const { waiters } = (await root.showLock(name)) as { waiters: { leaseId: string }[] };
  return waiters.map(({ leaseId }) => leaseId);
}

async function lastOf(stream: EventReader): Promise<StreamedEvent | undefined> {
  await eventually('the stream has ended', () => stream.ended);
  return stream.seen.at(-1);
}

const LONG_WAIT = { waitMs: Math.min(scaled(20_000), 55_000) };

it('a key that is taken out, or may do less, is given nothing any more by what it has open; another one goes on', async () => {
  const own = await lost.createLease({ ttlMs: 30_000 });
  const other = await narrowed.createLease({ ttlMs: 30_000 });
  for (const name of ['plain', 'kept']) await root.hold(name, lease);
  await root.expect(201, 'PUT', '/v1/barriers/gate');
  const pop = (client: KeyedClient, name: string): Promise<Reply> =>
    client.call('POST', `/v1/queues/${name}/pop`, { body: { waitMs: WAIT } });
  const double = { leaseToken: own.leaseToken, body: { size: 2, member: 'm', waitMs: WAIT } };
  const ended = {
    popped: pop(lost, 'jobs'),
    acquired: lost.acquire('plain', own, { waitMs: WAIT }),
    kept: lost.acquire('kept', own, { waitMs: WAIT, keepPlace: true }),
    lifted: lost.call('GET', `/v1/barriers/gate?waitMs=${WAIT}`),
    entered: lost.call('POST', '/v1/double-barriers/pair/enter', double),
    narrowed: narrowed.call('GET', `/v1/barriers/gate?waitMs=${WAIT}`),
  };
  const stays = { lock: narrowed.acquire('plain', other, { waitMs: WAIT }), pop: pop(narrowed, 'others') };
  await using streams = {
    config: await streamOf(lost, '/v1/config/app/events'),
    lease: await streamOf(lost, '/v1/leases/self/events', own.leaseToken),
    narrowed: await streamOf(narrowed, '/v1/config/app/events'),
    root: await streamOf(root, '/v1/config/app/events'),
    async [Symbol.asyncDispose]() {
      for (const stream of [this.config, this.lease, this.narrowed, this.root]) await stream[Symbol.asyncDispose]();
    },
  };
  await waiting(12);
  await allInLine();
  await keys.leave({ root: '*', narrowed: NARROWED });

  const gone = { status: 401, code: 'unauthenticated', retryable: false };
  expect((await ended.popped).body).toMatchObject({ ...gone, outcome: 'not-applied' });
  expect((await ended.acquired).body).toMatchObject({ ...gone, outcome: 'not-applied' });
  // They left something behind, for as long as the lease lives, and say so.
  expect((await ended.kept).body).toMatchObject({ ...gone, outcome: 'unknown' });
  expect((await ended.entered).body).toMatchObject({ ...gone, outcome: 'unknown' });
  expect((await ended.lifted).body).toMatchObject({ ...gone, outcome: 'not-applied' });
  const forbidden = { status: 403, code: 'forbidden', outcome: 'not-applied' };
  expect((await ended.narrowed).body).toMatchObject({ ...forbidden, scope: 'read', kind: 'barrier' });
  for (const stream of [streams.config, streams.lease])
    expect(await lastOf(stream)).toMatchObject({ event: 'problem', data: gone });
  expect(await lastOf(streams.narrowed)).toMatchObject({ event: 'problem', data: { ...forbidden, kind: 'config' } });

  expect([await waitersOf('plain'), await waitersOf('kept')]).toEqual([[other.leaseId], [own.leaseId]]);
  await root.expect(201, 'POST', '/v1/queues/jobs/messages', { body: { messages: [{ body: 'for others' }] } });
  expect(await root.expect(200, 'POST', '/v1/queues/jobs/pop', { body: {} })).toMatchObject({
    items: [{ body: 'for others' }],
  });

  // The wait of the place that was kept is over, and so nobody waits for it.
  await root.release('kept', lease);
  expect((await narrowed.acquire('kept', other, LONG_WAIT)).body).toMatchObject({ held: true });

  await root.release('plain', lease);
  expect((await stays.lock).body).toMatchObject({ held: true, leaseId: other.leaseId });
  await root.expect(201, 'POST', '/v1/queues/others/messages', { body: { messages: [{ body: 1 }] } });
  expect((await stays.pop).body).toMatchObject({ items: [{ body: 1 }] });
  expect(streams.root.ended).toBe(false);
});

it('a key that is taken out while it sends a body has nothing done', async () => {
  await using own = await makeApiKeys({ root: '*', sender: '*' });
  await using replica = await startReplica({ settings: { POSTERN_AUTH_FILE: own.file } });
  await using root = own.as('root', replica.url);
  await using sender = own.as('sender', replica.url);
  const authorization = `Bearer ${sender.key}`;
  const { hostname, port } = new URL(replica.url);
  const target = { hostname, port, path: '/v1/config/sent', method: 'PUT', agent: false };
  const sending = request({ ...target, headers: { authorization, 'content-length': '8' } });
  const answered = once(sending, 'response') as Promise<[IncomingMessage]>;
  sending.write('half');
  await eventually('it came', async () => (await replica.metric('postern_http_requests_in_flight')) === 1);
  await own.leave({ root: '*' });
  await eventually('it is out', async () => (await sender.call('GET', '/v1/config/sent')).status === 401);
  sending.end('half');
  const [response] = await answered;
  response.resume();
  expect(response.statusCode).toBe(401);
  await root.expect(404, 'GET', '/v1/config/sent');
});

it('a wait and a stream end with the token that asked for them', async () => {
  await using provider = await IdentityProvider.start();
  await using replica = await startReplica({
    settings: { POSTERN_OIDC_ISSUER: provider.issuer, POSTERN_OIDC_AUDIENCE: provider.audience },
  });
  // Good for four seconds more, as far as clocks may be apart.
  const exp = Math.floor(Date.now() / 1000) - 30 + scaled(4);
  const token = await provider.sign({ postern: '*' }, { exp });
  const headers = { authorization: `Bearer ${token}` };
  await using client = new Client(replica.url);
  const popped = client.call('POST', '/v1/queues/jobs/pop', { body: { waitMs: WAIT }, headers });
  await using stream = await EventReader.open(replica.url, '/v1/config/app/events', { headers });
  const gone = { status: 401, code: 'unauthenticated', outcome: 'not-applied' };
  expect((await popped).body).toMatchObject(gone);
  expect(await lastOf(stream)).toMatchObject({ event: 'problem', data: gone });
  expect(Date.now()).toBeGreaterThanOrEqual((exp + 30) * 1000);
});
