/**
 * What went wrong with the client library that Postern stands on, tried with what Postern makes of it.
 * docs/regressions.md says more about each, docs/zookeeper-client.md lists all of its defects.
 */
import { expect, test } from 'vitest';
import { NoReplyError, ZooKeeperError } from '../../src/zookeeper/errors.js';
import { OPCODE } from '../../src/zookeeper/operations.js';
import { exists, getData } from '../../src/zookeeper/operations/nodes.js';
import { eventually } from '../support/eventually.js';
import { FakeServer, frame } from '../support/zookeeper/fake-server.js';
import { Noise } from '../support/noise.js';
import { freshRoot, sharedZooKeeper } from '../support/start-zookeeper.js';
import { startTcpProxy, type TcpProxy } from '../support/zookeeper/tcp-proxy.js';
import { TestConnection, controlIn, rejection, within } from '../support/zookeeper/sessions.js';

const TIMEOUT_MS = 3_000;

function proxied(): Promise<TcpProxy> {
  return startTcpProxy({ port: Number(sharedZooKeeper().split(':')[1]) });
}

/**
 * What was left of a frame when its connection broke was put before the first bytes of the next one, and read as a
 * number of an error.
 */
test('node-zookeeper-client #70: half a frame of a broken connection is not read as the beginning of the next one', async () => {
  const root = freshRoot();
  await using direct = await controlIn(sharedZooKeeper(), root);
  const content = Buffer.alloc(5_000, 'x');
  await direct.create('/n', content);
  await using proxy = await proxied();
  using connection = await TestConnection.open(proxy.connectString);
  for (let i = 0; i < 5; i += 1) {
    const cut = proxy.cutMidFrame();
    expect(await rejection(connection.submit(getData(`${root}/n`, false), within()))).toBeInstanceOf(NoReplyError);
    await cut;
    await eventually('it is connected again', () => connection.connected);
    expect((await connection.submit(getData(`${root}/n`, false), within())).data).toEqual(content);
  }
  expect(connection.faults).toEqual([]);
});

/**
 * A number that is in no table was thrown as an error out of the socket's handler: the process was gone, and the
 * request's callback too.
 */
test('node-zookeeper-client #23: an error whose number nobody knows fails its request and nothing else', async () => {
  await using server = await FakeServer.start({
    onRequest: (request) => request.path === '/bad' && (request.reply({ error: 935_133_184 }), true),
  });
  using connection = await TestConnection.open(server.connectString);
  const [bad, good] = await Promise.allSettled([
    connection.submit(getData('/bad', false), within()),
    connection.submit(exists('/good'), within()),
  ]);
  expect(bad).toMatchObject({ status: 'rejected', reason: { number: 935_133_184, outcome: 'not-applied' } });
  expect((bad as PromiseRejectedResult).reason).toBeInstanceOf(ZooKeeperError);
  expect(good.status).toBe('fulfilled');
  expect(server.connections).toHaveLength(1);
});

/** The assertion that a record has four bytes at least went up through the socket's handler. */
test('node-zookeeper-client #39: an empty message ends its connection and nothing else', async () => {
  await using server = await FakeServer.start({
    onRequest({ opcode, connection }) {
      if (opcode !== OPCODE.getData || server.connections.length > 1) return false;
      connection.send(frame(Buffer.alloc(0)));
      return true;
    },
  });
  using connection = await TestConnection.open(server.connectString);
  expect(await rejection(connection.submit(getData('/x', false), within()))).toBeInstanceOf(NoReplyError);
  await eventually('it is connected again', () => connection.connected);
  await expect(connection.submit(getData('/x', false), within())).resolves.toBeDefined();
  expect(connection.faults).toHaveLength(1);
});

/**
 * Nothing came any more, and the client went on saying that it was connected, for longer than its session can have
 * lived.
 */
test('node-zookeeper-client #13: a connection through which nothing comes any more is given up before its session can have ended', async () => {
  await using proxy = await proxied();
  const sessionTimeoutMs = 2 * TIMEOUT_MS; // a third is left to connect again
  using connection = await TestConnection.open(proxy.connectString, { sessionTimeoutMs });
  using noise = new Noise();
  const silentAt = performance.now();
  proxy.suspend();
  await eventually('it has noticed', () => !connection.connected);
  expect(performance.now() - silentAt - noise.ms).toBeLessThan(sessionTimeoutMs);
  proxy.heal();
  await eventually('it is connected again', () => connection.connected);
  expect(connection.life).toEqual(['connected', 'disconnected', 'connected']);
});

/**
 * Only a server's answer told of the end, and there was no server to be reached: who waited for the event waits still.
 */
test('node-zookeeper-client #20: a session that no server can be asked about is given up when it must have ended', async () => {
  await using proxy = await proxied();
  using connection = await TestConnection.open(proxy.connectString, { sessionTimeoutMs: TIMEOUT_MS });
  using noise = new Noise();
  const cutAt = performance.now();
  proxy.refuse();
  proxy.cut();
  await eventually('it is given up', () => connection.ended);
  const givenUpAfterMs = performance.now() - cutAt;
  expect(connection.life).toEqual(['connected', 'disconnected', 'expired']);
  // Counted from its last answer, which may be a third of the timeout old.
  expect(givenUpAfterMs).toBeGreaterThan(TIMEOUT_MS / 2);
  expect(givenUpAfterMs - noise.ms).toBeLessThan(2 * TIMEOUT_MS);
});

/** `version || -1`: 0 became "any". */
test('node-zookeeper-client #67: version 0 in a transaction is version 0, and not any', async () => {
  await using control = await controlIn(sharedZooKeeper(), freshRoot());
  await control.create('/n');
  await control.setData('/n', Buffer.from('newer'), 0);
  for (const stale of [
    { type: 'setData', path: '/n', data: Buffer.from('stale'), version: 0 },
    { type: 'check', path: '/n', version: 0 },
    { type: 'delete', path: '/n', version: 0 },
  ] as const)
    expect(await rejection(control.multi([stale]))).toMatchObject({ reason: 'BAD_VERSION' });
  expect((await control.getData('/n')).data.toString()).toBe('newer');
});
