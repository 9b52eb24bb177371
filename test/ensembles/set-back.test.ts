/** Ensembles that were set back by a restore while another one is away, which has the newest map (ADR 41). */
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { startReplica, type Replica } from '../support/start-gateway.js';
import { freshRoot, sharedZooKeeper } from '../support/start-zookeeper.js';
import { scaled } from '../support/timing.js';
import { TestControl } from '../support/zookeeper/sessions.js';
import { startTcpProxy } from '../support/zookeeper/tcp-proxy.js';
import { inNamespace, untilInForce } from './two.js';

const ALL = ['default', 'west', 'north'];
const ORDERS = inNamespace('orders');

test(
  'two ensembles that were set back do nothing where a newer file says that it lies on a third one that is away',
  { timeout: scaled(90_000) },
  async () => {
    // All three are chroots of one server; nobody but through the proxy reaches `north`.
    const [root, west] = [freshRoot(), freshRoot()];
    await using control = await TestControl.open(sharedZooKeeper());
    await using north = await startTcpProxy({ port: Number(sharedZooKeeper().split(':')[1]) });
    const path = join(mkdtempSync(join(tmpdir(), 'postern-set-back-')), 'ensembles.json');
    const ensembles = {
      west: { zookeeper: sharedZooKeeper() + west },
      north: { zookeeper: north.connectString + freshRoot() },
    };
    const file = (version: number, orders: string): void =>
      writeFileSync(path, JSON.stringify({ version, ensembles, namespaces: { orders } }));
    const start = (): Promise<Replica> =>
      startReplica({ root, pollMs: 50, settings: { POSTERN_ENSEMBLES: path, POSTERN_REQUEST_TIMEOUT_MS: '5000' } });
    const maps = [root, west + root].map((one) => `${one}/ensembles`);
    const old: Buffer[] = [];

    file(1, 'west');
    {
      await using replica = await start();
      await untilInForce(replica, 1, ALL);
      for (const map of maps) old.push((await control.getData(map)).data);
      file(2, 'north');
      await untilInForce(replica, 2, ALL);
      await replica.expect(201, 'PUT', '/v1/config/app', { body: 1, ...ORDERS });
    }
    north.refuse();
    north.cut();
    for (const [i, map] of maps.entries()) await control.setData(map, old[i] as Buffer);

    await using replica = await start();
    await untilInForce(replica, 1, ['default', 'west']);
    expect(await replica.expect(503, 'PUT', '/v1/config/app', { body: 2, ...ORDERS })).toMatchObject({
      code: 'zookeeper-unavailable',
      outcome: 'not-applied',
    });
    await replica.expect(503, 'GET', '/v1/config/app', ORDERS);
    await replica.expect(201, 'PUT', '/v1/config/app', { body: 1, ...inNamespace('billing') });
    north.accept();
    await untilInForce(replica, 2, ALL);
    expect((await replica.call('GET', '/v1/config/app', ORDERS)).body).toBe(1);
  },
);
