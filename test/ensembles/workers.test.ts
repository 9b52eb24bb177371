/** Several workers, each with sessions of its own at each ensemble, and one map of namespaces (ADR 41). */
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { eventually } from '../support/eventually.js';
import { Client } from '../support/http/client.js';
import { spawnReplica } from '../support/start-gateway.js';
import { freshRoot, sharedZooKeeper } from '../support/start-zookeeper.js';
import { scaled } from '../support/timing.js';
import { controlIn } from '../support/zookeeper/sessions.js';
import { inNamespace, untilInForce, type Namespaces } from './two.js';

const WORKERS = 2;

test('workers go by one map, and each serves all ensembles', { timeout: scaled(120_000) }, async () => {
  const [root, west] = [freshRoot(), freshRoot()];
  const path = join(mkdtempSync(join(tmpdir(), 'postern-workers-')), 'ensembles.json');
  const file = (version: number, namespaces: Namespaces): void => {
    const ensembles = { west: { zookeeper: sharedZooKeeper() + west } };
    writeFileSync(path, JSON.stringify({ version, ensembles, namespaces }));
  };
  file(1, { orders: 'west' });
  const settings = { POSTERN_ENSEMBLES: path, POSTERN_WORKERS: String(WORKERS) };
  await using replica = await spawnReplica({ root, settings });
  await eventually('all workers are there', () => replica.output.includes('all workers listening'));
  await untilInForce(replica, 1);

  // So many connections that both workers have some.
  const clients = Array.from({ length: 4 * WORKERS }, () => new Client(replica.url));
  try {
    const tokens = await Promise.all(
      clients.map(async (client, i) => {
        const there = inNamespace(i % 2 === 0 ? 'orders' : 'billing');
        await client.expect(201, 'PUT', `/v1/config/k${i}`, { body: i, ...there });
        const { leaseToken } = await client.expect(201, 'POST', '/v1/leases', { body: { ttlMs: 20_000 }, ...there });
        return leaseToken as string;
      }),
    );
    await eventually('the leases at each ensemble are told of together', async () => {
      const text = (await replica.call('GET', '/metrics')).body as string;
      const counted = `} ${clients.length / 2}\n`;
      return ['default', 'west'].every((name) => text.includes(`postern_leases_attached{ensemble="${name}"${counted}`));
    });
    for (const client of clients) {
      const { items } = await client.expect(200, 'POST', '/v1/leases/heartbeat', { body: { leaseTokens: tokens } });
      expect(items).toMatchObject(tokens.map(() => ({ status: 200 })));
    }
    await using control = await controlIn(sharedZooKeeper(), west);
    const { children } = await control.getChildren(`${root}/ns`);
    expect(children).toEqual(['orders']);

    file(2, { orders: { ensemble: 'west', closed: true } });
    await eventually('no worker writes there', async () => {
      const written = clients.map((client) =>
        client.call('PUT', '/v1/config/k', { body: 1, ...inNamespace('orders') }),
      );
      return (await Promise.all(written)).every(({ status }) => status === 503);
    });
    await untilInForce(replica, 2);
    await clients[0]?.expect(201, 'PUT', '/v1/config/k', { body: 1, ...inNamespace('billing') });
  } finally {
    await Promise.all(clients.map((client) => client[Symbol.asyncDispose]()));
  }
});
