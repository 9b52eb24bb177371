/** Several ensembles behind one gateway: each namespace on its own, and one away leaves the others (ADR 41). */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openApi } from '../../src/http/contract/openapi.js';
import { WITHOUT_LEASE } from '../../src/http/routes/choice.js';
import { maxConnectionsOf } from '../../src/http/server/max-connections.js';
import { eventually } from '../support/eventually.js';
import type { Replica } from '../support/start-gateway.js';
import { scaled, timing } from '../support/timing.js';
import { startTcpProxy } from '../support/zookeeper/tcp-proxy.js';
import { inNamespace, reasonsOf, startTwo, untilInForce, untilRefused, type Two } from './two.js';

let two: Two;
let replica: Replica;

beforeAll(async () => {
  two = await startTwo();
  replica = await two.start(two.file(1, { orders: 'west' }));
  await untilInForce(replica, 1);
}, scaled(60_000));

afterAll(async () => {
  await replica[Symbol.asyncDispose]();
  await two[Symbol.asyncDispose]();
}, scaled(60_000));

/** Names of the children of a path below the root of one of the ensembles; none if it is not there. */
async function childrenAt(ensemble: 'default' | 'west', path: string): Promise<string[]> {
  const [first, second] = replica.gateway.ensembles;
  const { control, layout } = (ensemble === 'default' ? first : second)!.foundation.context;
  const listed = control.getNames(layout.root + path, performance.now() + timing.eventuallyMs);
  return [...(await listed).sorted];
}

type Named = readonly { readonly name: string }[];

async function createLease(namespace: string): Promise<{ leaseToken: string; leaseId: string }> {
  return replica.expect(201, 'POST', '/v1/leases', { body: { ttlMs: 20_000 }, ...inNamespace(namespace) });
}

test('a namespace lies on its own ensemble, and only there: leases, locks, queues, keys', async () => {
  for (const [namespace, here, there] of [
    ['orders', 'west', 'default'],
    ['billing', 'default', 'west'],
  ] as const) {
    const { leaseToken } = await createLease(namespace);
    const lock = `backup-${namespace}`;
    // The token says in which namespace.
    await replica.expect(200, 'POST', `/v1/locks/${lock}/acquire`, { body: { requestId: 'a' }, leaseToken });
    await replica.expect(201, 'POST', '/v1/queues/jobs/messages', {
      body: { messages: [{ body: namespace }] },
      ...inNamespace(namespace),
    });
    await replica.expect(201, 'PUT', '/v1/config/app', { body: { of: namespace }, ...inNamespace(namespace) });
    expect(await childrenAt(here, `/ns/${namespace}/locks`)).toEqual([lock]);
    expect(await childrenAt(here, `/ns/${namespace}/queues`)).toEqual(['jobs']);
    expect(await childrenAt(here, `/ns/${namespace}/config`)).toEqual(['app']);
    expect(await childrenAt(here, `/ns/${namespace}/leases`)).toHaveLength(1);
    expect(await childrenAt(there, '/ns')).not.toContain(namespace);
    const { items } = await replica.expect(200, 'GET', '/v1/locks', inNamespace(namespace));
    expect((items as Named).map(({ name }) => name)).toEqual([lock]);
    await replica.expect(204, 'DELETE', '/v1/leases/self', { leaseToken });
  }
});

test('a lease of a namespace on another ensemble is refused by name, and nothing spans two', async () => {
  const { leaseToken } = await createLease('orders');
  const { code, detail } = await replica.expect(403, 'POST', '/v1/locks/l/acquire', {
    body: { requestId: 'a' },
    leaseToken,
    ...inNamespace('billing'),
  });
  expect(code).toBe('invalid-lease-token');
  expect(detail).toBe('The lease token belongs to namespace "orders", not "billing".');
  await replica.expect(204, 'DELETE', '/v1/leases/self', { leaseToken });
});

test('a batch of heartbeats is split, and answered in its order', async () => {
  const leases = [];
  for (const namespace of ['orders', 'billing', 'orders', 'default']) leases.push(await createLease(namespace));
  const leaseTokens = [...leases.map(({ leaseToken }) => leaseToken), 'lt1.nonsense'];
  const { items } = await replica.expect(200, 'POST', '/v1/leases/heartbeat', { body: { leaseTokens } });
  expect((items as unknown[]).slice(0, 4)).toMatchObject(leases.map(({ leaseId }) => ({ status: 200, leaseId })));
  expect(items[4]).toMatchObject({ status: 403, code: 'invalid-lease-token' });
  for (const { leaseToken } of leases) await replica.expect(204, 'DELETE', '/v1/leases/self', { leaseToken });
});

test('the metrics of each ensemble have its name, and those of the process have none', async () => {
  const { body } = await replica.call('GET', '/metrics');
  expect(body).toContain('postern_zookeeper_connected{ensemble="default"} 1\n');
  expect(body).toContain('postern_zookeeper_connected{ensemble="west"} 1\n');
  expect(body).toMatch(/^postern_http_requests_in_flight \d+$/m);
  expect(body).toMatch(/^postern_ensemble_file_refused 0$/m);
  expect(body).not.toMatch(/^postern_watches \d/m);
  const [, highest] = /^postern_fencing_token_highest\{ensemble="west"\} (\d+)$/m.exec(body as string) ?? [];
  expect(Number(highest)).toBeGreaterThan(2 ** 40);
});

test('by default the sessions at both ensembles are left out of the connections of clients', async () => {
  const { body } = await replica.call('GET', '/v1/status');
  const { maxAttached, maxConnections } = body.limits as { maxAttached: number; maxConnections?: number };
  // Undefined: any number.
  expect(maxConnections ?? Infinity).toBe(maxConnectionsOf({ maxAttached, maxConnections: undefined }, 2));
});

test('the operations whose namespace no lease decides are those of the contract', () => {
  const alone = openApi()
    .operations.filter(({ operationId, parameters }) => {
      const namespace = parameters.find(({ name }) => name === 'Namespace');
      return namespace !== undefined && !namespace.description?.includes('lease') && operationId !== 'status';
    })
    .map(({ operationId }) => operationId);
  expect(new Set(alone)).toEqual(WITHOUT_LEASE);
});

describe('with one ensemble away', { timeout: scaled(60_000) }, () => {
  test('a start without the answer of `default` says nothing of the others', async () => {
    await using proxy = await startTcpProxy({ port: Number(two.east.connectString.split(':')[1]) });
    proxy.suspend();
    const path = two.file(1, { orders: 'west' });
    await using late = await two.start(path, { zookeeper: proxy.connectString, registers: false });
    await untilRefused(late, /^Ensemble "west": its map of namespaces, or that of "default", has not been read yet/);
  });

  test('the other serves, readiness tells, and its namespaces fail as with ZooKeeper away', async () => {
    const here = await createLease('billing');
    const there = await createLease('orders');
    await two.west.kill();
    await eventually('it is told', async () => (await reasonsOf(replica)).some((reason) => reason.includes('"west"')), {
      withinMs: timing.processMs,
    });
    expect((await replica.call('GET', '/readyz')).status).toBe(200);
    expect((await replica.call('GET', '/metrics')).body).toContain('postern_ensemble_ready{ensemble="west"} 0\n');
    await replica.expect(200, 'POST', '/v1/locks/on/acquire', {
      body: { requestId: 'a' },
      leaseToken: here.leaseToken,
    });
    await replica.expect(201, 'PUT', '/v1/config/on', { body: 1 });
    expect(await replica.expect(503, 'PUT', '/v1/config/on', { body: 1, ...inNamespace('orders') })).toMatchObject({
      code: 'zookeeper-unavailable',
      outcome: 'not-applied',
    });
    const { items } = await replica.expect(200, 'POST', '/v1/leases/heartbeat', {
      body: { leaseTokens: [there.leaseToken, here.leaseToken] },
    });
    expect(items).toMatchObject([{ status: 503 }, { status: 200, leaseId: here.leaseId }]);
    await two.west.restart();
    await untilInForce(replica, 1);
    await replica.expect(201, 'PUT', '/v1/config/on', { body: 1, ...inNamespace('orders') });
  });
});
