/** What an operator is told when ZooKeeper is not there, is something else, or takes no further connection. */
import { createServer, type Server } from 'node:http';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { expect, it } from 'vitest';
import { loadConfig } from '../../src/config.js';
import { startGateway, type Gateway } from '../../src/gateway.js';
import { createLog } from '../../src/log.js';
import { createSeldom } from '../../src/seldom.js';
import { Unreachable } from '../../src/zookeeper/unreachable.js';
import { Client } from '../support/http/client.js';
import { eventually, throughout } from '../support/eventually.js';
import { freePort } from '../support/free-port.js';
import { freshRoot, startZooKeeper } from '../support/start-zookeeper.js';
import { scaled } from '../support/timing.js';

interface Line {
  level: string;
  msg: string;
  failures?: string[];
  connections?: number;
}

/** A gateway that need not become ready, and what it writes at `warn` and above. */
async function start(
  zookeeper: string,
): Promise<{ gateway: Gateway; client: Client; lines: Line[] } & AsyncDisposable> {
  const { config } = loadConfig({
    POSTERN_ZOOKEEPER: zookeeper,
    POSTERN_PORT: '0',
    POSTERN_ROOT: freshRoot(),
    POSTERN_LOG_LEVEL: 'warn',
    POSTERN_OVERLOAD_DELAY_MS: '0',
  });
  const lines: Line[] = [];
  const { logger } = createLog(config, { write: (line) => void lines.push(JSON.parse(line) as Line) });
  const gateway = await startGateway({ config, logger, processMetrics: false });
  const client = new Client(gateway.url);
  return {
    gateway,
    client,
    lines,
    async [Symbol.asyncDispose]() {
      await client[Symbol.asyncDispose]();
      await gateway.stop(0);
    },
  };
}

it('is said when each server was tried in vain, and again every 30 s until one is reached', () => {
  const told: (readonly string[])[] = [];
  const unreachable = new Unreachable(2, (failures) => told.push(failures));
  unreachable.failed('a:1', 'refused', 0);
  unreachable.failed('a:1', 'silent', 10);
  expect(told).toEqual([]);
  unreachable.failed('b:1', 'unknown', 20);
  expect(told).toEqual([['a:1: silent', 'b:1: unknown']]);
  unreachable.failed('a:1', 'refused', 30_019);
  expect(told).toHaveLength(1);
  unreachable.failed('b:1', 'refused', 30_020);
  expect(told[1]).toEqual(['a:1: refused', 'b:1: refused']);
  unreachable.reached();
  expect(unreachable.failures).toEqual([]);
});

it('the same text is said once in a while, and others between', () => {
  const seldom = createSeldom(1_000);
  expect([seldom('a', 0), seldom('a', 999), seldom('b', 999), seldom('a', 1_000), seldom('a', 1_001)]).toEqual([
    true,
    false,
    true,
    true,
    false,
  ]);
});

it('a replica without ZooKeeper warns once with addresses and causes, and its readiness names them', async () => {
  const address = `127.0.0.1:${await freePort()}`;
  await using replica = await start(address);
  const line = await eventually('it warns', () => replica.lines.find(({ failures }) => failures !== undefined));
  expect(line).toMatchObject({
    level: 'warn',
    msg: 'no ZooKeeper server reachable; retrying',
    failures: [`${address}: connect ECONNREFUSED ${address}`],
  });
  const { status, body } = await replica.client.call('GET', '/readyz');
  expect(status).toBe(503);
  expect(body.detail).toContain(`${address}: connect ECONNREFUSED`);
  await throughout('it does not repeat that', () => replica.lines.length === 1, { forMs: scaled(2_000) });
});

it("a port that is not ZooKeeper's is named once, without a stack for each attempt", async () => {
  const server: Server = createServer();
  server.on('clientError', (_error, socket) => socket.end('HTTP/1.1 400 Bad Request\r\n\r\n'));
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const address = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  {
    await using replica = await start(address);
    const line = await eventually('it warns', () => replica.lines.find(({ failures }) => failures !== undefined));
    expect(line.failures?.[0]).toMatch(
      new RegExp(`^${address}: this is not ZooKeeper's protocol: a frame of \\d+ bytes`),
    );
    expect((await replica.client.call('GET', '/readyz')).body.detail).toContain("not ZooKeeper's protocol");
    await throughout('nothing else is written', () => replica.lines.length === 1, { forMs: scaled(2_000) });
  }
  server.close();
});

it('a server that demands credentials is named once, with what is missing, and is not asked without a pause', async () => {
  const jvmFlags = ['-Dzookeeper.enforce.auth.enabled=true', '-Dzookeeper.enforce.auth.schemes=digest'];
  await using zookeeper = await startZooKeeper({ jvmFlags });
  await using replica = await start(zookeeper.connectString);
  const line = await eventually('it warns', () => replica.lines.find(({ failures }) => failures !== undefined));
  expect(line.failures).toEqual([expect.stringMatching(`^${zookeeper.connectString}: .*POSTERN_ZOOKEEPER_AUTH$`)]);
  const { status, body } = await replica.client.call('GET', '/readyz');
  expect(status).toBe(503);
  expect(body.detail).toContain('POSTERN_ZOOKEEPER_AUTH');
  const metric = async (name: string): Promise<number | undefined> =>
    (await replica.gateway.metrics.registry.getSingleMetric(name)?.get())?.values[0]?.value;
  const attempts = async (): Promise<number> => (await metric('postern_zookeeper_reconnects_total')) ?? NaN;
  const before = await attempts();
  await throughout('nothing else is written', () => replica.lines.length === 1, { forMs: scaled(3_000) });
  expect(await attempts()).toBeGreaterThan(before);
  expect((await attempts()) - before).toBeLessThan(30);
  expect(await metric('postern_zookeeper_connected')).toBe(0);
});

it('the first connection that ZooKeeper refuses is told of, once, with how many there were', async () => {
  await using zookeeper = await startZooKeeper({ config: { maxClientCnxns: '8' } });
  await using replica = await start(zookeeper.connectString);
  await replica.client.untilReady();
  const count = 20;
  const leases = await Promise.all(Array.from({ length: count }, () => replica.client.createLease({ ttlMs: 30_000 })));
  await Promise.all(leases.map((lease) => replica.client.heartbeat(lease)));
  const told = replica.lines.filter(({ connections }) => connections !== undefined);
  expect(told).toHaveLength(1);
  expect(told[0]?.connections).toBeGreaterThan(0);
  // Some of them may just have been given up for others: the replica hears of a closed one later than the server.
  expect(told[0]?.connections).toBeLessThan(count);
  expect(told[0]?.msg).toContain('maxClientCnxns');
  await Promise.all(leases.map((lease) => replica.client.endLease(lease)));
});
