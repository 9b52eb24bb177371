/** Data that another release has written by other rules: not touched, and refused by name. */
import { expect, test } from 'vitest';
import { loadConfig } from '../../src/config.js';
import { startGateway } from '../../src/gateway.js';
import { createLog } from '../../src/log.js';
import { HOUSEKEEPING_TIMING } from '../../src/recipes/housekeeping/housekeeping.js';
import { eventually } from '../support/eventually.js';
import { Client } from '../support/http/client.js';
import { runLog } from '../support/run-log.js';
import { startReplica } from '../support/start-gateway.js';
import { freshRoot, sharedZooKeeper } from '../support/start-zookeeper.js';
import { timing } from '../support/timing.js';
import { TestControl } from '../support/zookeeper/sessions.js';
import { startTcpProxy } from '../support/zookeeper/tcp-proxy.js';

const TTL_MS = 10_000;

/** A gateway that need not become ready, with housekeeping that comes at once. */
async function startUnready(zookeeper: string, root: string): Promise<Client> {
  const { config } = loadConfig({
    POSTERN_ZOOKEEPER: zookeeper,
    POSTERN_ROOT: root,
    POSTERN_PORT: '0',
    POSTERN_OVERLOAD_DELAY_MS: '0',
    POSTERN_REQUEST_TIMEOUT_MS: String(timing.eventuallyMs),
  });
  const { logger } = createLog(config, runLog.stream);
  const housekeeping = { ...HOUSEKEEPING_TIMING, everyMs: 1 };
  const gateway = await startGateway({ config, logger, processMetrics: false, housekeeping });
  return new (class extends Client {
    override async [Symbol.asyncDispose](): Promise<void> {
      await super[Symbol.asyncDispose]();
      await gateway.stop(0);
    }
  })(gateway.url);
}

test('the first replica of a root writes down the format of its data (C47)', async () => {
  const root = freshRoot();
  await using control = await TestControl.open(sharedZooKeeper());
  await using _ = await startReplica({ root });
  expect((await control.getData(`${root}/format`)).data.toString()).toBe('1');
});

test('data of another format are left alone, and each request is told, until they are of this one again (C47)', async () => {
  const root = freshRoot();
  await using control = await TestControl.open(sharedZooKeeper());
  await control.create(root);
  await control.create(`${root}/format`, Buffer.from('2'));
  await using replica = await startUnready(sharedZooKeeper(), root);
  const detail = `The data under ${root} have the format "2", and this release knows format 1 only: nothing was done. Ask a replica of the release that wrote them.`;
  const lease = (): ReturnType<Client['call']> => replica.call('POST', '/v1/leases', { body: { ttlMs: TTL_MS } });
  expect((await lease()).body).toMatchObject({ code: 'zookeeper-unavailable', outcome: 'not-applied', detail });
  const written = { body: { value: 1 }, headers: { 'If-None-Match': '*' } };
  expect((await replica.call('PUT', '/v1/config/key', written)).body).toMatchObject({ detail });
  expect((await replica.call('GET', '/v1/locks')).body).toMatchObject({ detail });
  expect((await replica.call('GET', '/readyz')).body).toMatchObject({ detail: expect.stringContaining(detail) });
  expect((await replica.call('GET', '/v1/status')).body).toMatchObject({ ready: false, reasons: [detail] });
  expect((await control.getChildren(root)).children).toEqual(['format']);

  await control.setData(`${root}/format`, Buffer.from('1'));
  await replica.untilReady();
  expect((await lease()).status).toBe(201);
});

test('a request waits until the format has been read (C47)', async () => {
  const root = freshRoot();
  await using control = await TestControl.open(sharedZooKeeper());
  await control.create(root);
  await control.create(`${root}/format`, Buffer.from('2'));
  await using proxy = await startTcpProxy({ port: Number(sharedZooKeeper().split(':')[1]) });
  proxy.suspend();
  await using replica = await startUnready(proxy.connectString, root);
  const asked = replica.call('PUT', '/v1/config/early', { body: { value: 1 } });
  await eventually('the replica connects', () => proxy.openConnections > 0);
  proxy.heal();
  expect((await asked).body).toMatchObject({ code: 'zookeeper-unavailable', outcome: 'not-applied' });
  expect((await control.getChildren(root)).children).toEqual(['format']);
});
