/**
 * What a replica does that stood still, when it goes on: nothing for those who have given it up meanwhile, and all for
 * those who wait.
 */
import { expect, test } from 'vitest';
import { rawConnection } from '../client.js';
import { keysOf } from '../../recipes/config/client.js';
import { eventually, passed } from '../../support/eventually.js';
import { spawnReplica, startReplica, type ReplicaProcess } from '../../support/start-gateway.js';
import { freshRoot } from '../../support/start-zookeeper.js';

/** Longer than what is taken for a pause of the machine. */
const STILL_MS = 1_500;
const REQUESTS = 10;
const BODY = '{"value":1}';

function put(key: string): string {
  return `PUT /v1/config/${key} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: ${BODY.length}\r\n\r\n${BODY}`;
}

test('a replica that stood still does nothing for clients that are gone when it goes on, and answers those that are not', async () => {
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
  await passed(STILL_MS);
  a.resume();
  await eventually('who waits is answered', () => staying.received().startsWith('HTTP/1.1 201'));
  await eventually('the others are given up', async () => (await givenUp(a)) === 2 * REQUESTS);
  expect((await keysOf(b)).filter((key) => !key.startsWith('before'))).toEqual(['stays']);
});

/** Requests that found nobody to answer. */
async function givenUp({ url }: ReplicaProcess): Promise<number> {
  const text = await (await fetch(`${url}/metrics`)).text();
  const counts = [...text.matchAll(/^postern_http_request_duration_seconds_count\{[^}]*status="499"[^}]*\} (\d+)$/gm)];
  return counts.reduce((sum, [, count]) => sum + Number(count), 0);
}
