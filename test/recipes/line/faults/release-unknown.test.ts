/** A place that is released while its own request waits in it, when ZooKeeper cannot be told. */
import { expect, test } from 'vitest';
import { eventually, throughout } from '../../../support/eventually.js';
import { startReplica } from '../../../support/start-gateway.js';
import { freshRoot } from '../../../support/start-zookeeper.js';
import { startCuttable } from '../../../support/scene.js';
import { scaled } from '../../../support/timing.js';

const DELETE = 2;

test('a request that waits is not told that its place is gone before it is: the release could not be done, and it is granted', async () => {
  const root = freshRoot();
  await using cuttable = await startCuttable({ root, settings: { POSTERN_REQUEST_TIMEOUT_MS: String(scaled(1_000)) } });
  await using b = await startReplica({ root });
  const { replica: a, proxy } = cuttable;
  const [holder, me] = [await b.createLease({ ttlMs: 60_000 }), await a.createLease({ ttlMs: 60_000 })];
  await b.hold('door', holder);
  let told = false;
  const waiting = a.acquire('door', me, { waitMs: 30_000 }).finally(() => (told = true));
  await b.untilWaiting('door', 1);
  const cut = proxy.loseRequest(DELETE);
  const releasing = a.release('door', me);
  await cut;
  proxy.refuse();
  expect((await releasing).body).toMatchObject({ status: 503 });
  await throughout('it is not told anything', () => !told);
  proxy.accept();
  await eventually('it stands in line', async () => (await b.showLock('door')).waiterCount === 1);
  expect((await b.release('door', holder)).status).toBe(204);
  expect(await waiting).toMatchObject({ status: 200, body: { held: true } });
});
