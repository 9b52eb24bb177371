/** Requests with a lease token, and without the name of a namespace, while some ensembles are away (ADR 41). */
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { eventually } from '../support/eventually.js';
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
