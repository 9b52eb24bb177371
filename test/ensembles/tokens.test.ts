/** Requests with a lease token, and without the name of a namespace, while some ensembles are away (ADR 41). */
import { randomBytes } from 'node:crypto';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Namespaces } from '../../src/http/access/permissions.js';
import { eventually } from '../support/eventually.js';
import { makeApiKeys } from '../support/http/api-keys.js';
import { startReplica, type Replica } from '../support/start-gateway.js';
import { freshRoot, sharedZooKeeper } from '../support/start-zookeeper.js';
import { scaled, timing } from '../support/timing.js';
import { startTcpProxy, type TcpProxy } from '../support/zookeeper/tcp-proxy.js';
import { inNamespace, untilInForce } from './two.js';

/** A request that waits for an ensemble that is away does not end within a test. */
const LONG = { POSTERN_REQUEST_TIMEOUT_MS: '300000' };
const SHORT = { POSTERN_REQUEST_TIMEOUT_MS: String(scaled(2_000)) };

const root = freshRoot();
/** `default`, `north` and `west` are chroots of one server; nobody reaches `west`, and `north` through this proxy. */
let north: TcpProxy;
let path: string;
/** Of the namespace `orders`, which lies on `north`. */
let leaseToken: string;

beforeAll(async () => {
  north = await startTcpProxy({ port: Number(sharedZooKeeper().split(':')[1]) });
  path = join(mkdtempSync(join(tmpdir(), 'postern-tokens-')), 'ensembles.json');
  const ensembles = {
    west: { zookeeper: '127.0.0.1:1' },
    north: { zookeeper: north.connectString + freshRoot() },
  };
  writeFileSync(path, JSON.stringify({ version: 1, ensembles, namespaces: { orders: 'north' } }));
  await using replica = await start(LONG);
  await untilInForce(replica, 1, ['default', 'north']);
  await replica.expect(201, 'PUT', '/v1/config/app', { body: 1, ...inNamespace('orders') });
  const lease = await replica.expect(201, 'POST', '/v1/leases', { body: {}, ...inNamespace('orders') });
  leaseToken = lease.leaseToken as string;
}, scaled(60_000));

afterAll(() => north.stop());

function start(settings: Record<string, string>): Promise<Replica> {
  return startReplica({ root, settings: { ...settings, POSTERN_ENSEMBLES: path } });
}

/** While nobody reaches `north`. */
async function withoutNorth(act: () => Promise<void>): Promise<void> {
  north.refuse();
  north.cut();
  try {
    await act();
  } finally {
    north.accept();
  }
}

test('one that is away holds up no token of another that has just come', { timeout: scaled(90_000) }, async () => {
  let late: Replica | undefined;
  try {
    let asked: Promise<unknown> | undefined;
    await withoutNorth(async () => {
      const replica = (late = await start(LONG));
      asked = replica.expect(200, 'GET', '/v1/config/app', { leaseToken });
      await eventually('it came', async () => (await replica.metric('postern_http_requests_in_flight')) === 1);
    });
    let answer: unknown;
    void asked?.then(
      (body) => (answer = body),
      (error: unknown) => (answer = error),
    );
    await eventually('it is answered', () => answer !== undefined, { withinMs: timing.startMs });
    expect(answer).toBe(1);
  } finally {
    await late?.[Symbol.asyncDispose]();
  }
});

test('nobody knows whose a token is that opens nowhere, as long as one is away', async () => {
  await using replica = await start(SHORT);
  const nowhere = { leaseToken: 'lt1.nonsense' };
  expect(await replica.expect(503, 'GET', '/v1/config/app', nowhere)).toMatchObject({
    code: 'zookeeper-unavailable',
    outcome: 'not-applied',
  });
});

test(
  'who may do nothing in a namespace is not told that its ensemble is away',
  { timeout: scaled(90_000) },
  async () => {
    // Two keys of ann, who has a lease in `orders`; bob has got hold of its token.
    const elsewhere: Namespaces = { default: ['read', 'use'] };
    await using keys = await makeApiKeys({ ann: '*', 'ann-elsewhere': elsewhere, bob: elsewhere }, (id) => {
      return id.split('-')[0] as string;
    });
    const settings = { POSTERN_AUTH_FILE: keys.file, POSTERN_LEASE_KEYS: randomBytes(32).toString('base64') };
    const create = async (): Promise<string> => {
      await using replica = await start({ ...LONG, ...settings });
      await using ann = keys.as('ann', replica.url);
      const created = await ann.expect(201, 'POST', '/v1/leases', { body: {}, ...inNamespace('orders') });
      return created.leaseToken as string;
    };
    const token = await create();
    await withoutNorth(async () => {
      await using late = await start({ ...SHORT, ...settings });
      const write = async (id: string): Promise<unknown> => {
        await using caller = keys.as(id, late.url);
        return (await caller.call('PUT', '/v1/config/app', { body: 2, leaseToken: token })).body;
      };
      const heartbeat = async (id: string): Promise<unknown> => {
        await using caller = keys.as(id, late.url);
        const body = { leaseTokens: [token] };
        return (await caller.expect(200, 'POST', '/v1/leases/heartbeat', { body })).items[0];
      };
      for (const act of [write, heartbeat]) {
        expect(await act('ann')).toMatchObject({ code: 'zookeeper-unavailable' });
        expect(await act('ann-elsewhere')).toMatchObject({ code: 'forbidden', namespace: 'orders' });
        expect(await act('bob')).toMatchObject({
          code: 'invalid-lease-token',
          detail: 'The lease token was issued to another principal.',
        });
      }
    });
  },
);
