/**
 * What a replica does that stood still, when it goes on: nothing for those who have given it up meanwhile, and all for
 * those who wait.
 */
import { expect, test } from 'vitest';
import { rawConnection } from '../client.js';
import { etagOfPut, get, keysOf } from '../../recipes/config/client.js';
import { eventually, passed } from '../../support/eventually.js';
import { spawnReplica, startReplica, type ReplicaProcess } from '../../support/start-gateway.js';
import { freshRoot, sharedZooKeeper } from '../../support/start-zookeeper.js';
import { startTcpProxy } from '../../support/zookeeper/tcp-proxy.js';

/** A pause of the machine, and no more than a busy processor. */
const STILL_MS = [1_500, 60];
const REQUESTS = 10;
const BODY = '{"value":1}';

function put(key: string, body = BODY): string {
  return `PUT /v1/config/${key} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
}

test.each(STILL_MS)(
  'a replica that stood still for %d ms does nothing for clients that are gone when it goes on, and answers those that are not (C35)',
  async (stillMs) => {
    const root = freshRoot();
    await using a = await spawnReplica({ root });
    await using b = await startReplica({ root });
    // Connections that it knows, and connections that it has not accepted yet.
    const known = await Promise.all(Array.from({ length: REQUESTS }, () => rawConnection(a.url)));
    await using staying = await rawConnection(a.url);
    for (const [i, { socket }] of known.entries()) socket.write(put(`before-${i}`));
    for (const one of known) await eventually('it is answered', () => one.received().startsWith('HTTP/1.1 201'));
    a.pause();
    const fresh = await Promise.all(Array.from({ length: REQUESTS }, () => rawConnection(a.url)));
    for (const [i, { socket }] of [...known, ...fresh].entries()) socket.write(put(`gone-${i}`));
    staying.socket.write(put('stays'));
    for (const connection of [...known, ...fresh]) await connection[Symbol.asyncDispose]();
    await passed(stillMs);
    a.resume();
    await eventually('who waits is answered', () => staying.received().startsWith('HTTP/1.1 201'));
    await eventually('the others are given up', async () => (await givenUp(a)) === 2 * REQUESTS);
    expect((await keysOf(b)).filter((key) => !key.startsWith('before'))).toEqual(['stays']);
  },
);

test('a replica that stood still while ZooKeeper read for clients that are gone does not write by what it read (C35)', async () => {
  const root = freshRoot();
  await using proxy = await startTcpProxy({ port: Number(sharedZooKeeper().split(':')[1]) });
  await using a = await spawnReplica({ root, zookeeper: proxy.connectString });
  await using b = await startReplica({ root });
  const keys = Array.from({ length: REQUESTS }, (_, i) => `key-${i}`);
  for (const key of keys) await etagOfPut(b, key, 'first');
  proxy.pause('toZooKeeper');
  const leaving = await Promise.all(keys.map(() => rawConnection(a.url)));
  for (const [i, { socket }] of leaving.entries()) socket.write(put(`key-${i}`, '"old"'));
  await eventually('all have arrived', async () => (await inFlight(a)) === REQUESTS + 1); // with the one that asks
  await eventually('it reads', () => proxy.heldBytes('toZooKeeper') > 0);
  a.pause();
  for (const connection of leaving) await connection[Symbol.asyncDispose]();
  for (const key of keys) await etagOfPut(b, key, 'newer');
  const { fromZooKeeper } = proxy.counters.bytes;
  proxy.resume();
  await eventually('ZooKeeper has answered', () => proxy.counters.bytes.fromZooKeeper > fromZooKeeper);
  a.resume();
  await eventually('all are given up', async () => (await givenUp(a)) === REQUESTS);
  for (const key of keys) expect((await get(b, key)).body).toBe('newer');
});

async function inFlight({ url }: ReplicaProcess): Promise<number> {
  const text = await (await fetch(`${url}/metrics`)).text();
  return Number(/^postern_http_requests_in_flight (\d+)$/m.exec(text)?.[1]);
}

/** Requests that found nobody to answer. */
async function givenUp({ url }: ReplicaProcess): Promise<number> {
  const text = await (await fetch(`${url}/metrics`)).text();
  const counts = [...text.matchAll(/^postern_http_request_duration_seconds_count\{.*status="499".*\} (\d+)$/gm)];
  return counts.reduce((sum, [, count]) => sum + Number(count), 0);
}
