/** Releases that do not get through: what those who wait are told. */
import { expect, test } from 'vitest';
import { eventually, passed, throughout } from '../../../support/eventually.js';
import { expireSession, startReplica } from '../../../support/start-gateway.js';
import { freshRoot } from '../../../support/start-zookeeper.js';
import { startCuttable, Witness } from '../../../support/scene.js';
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

test('a wait that ends while a release tries to hand over to it ends in time, though a lock-delay goes on', async () => {
  const root = freshRoot();
  await using replica = await startReplica({ root });
  await using witness = await Witness.start(root);
  const lost = await replica.createLease({ ttlMs: 60_000 });
  const me = await replica.createLease({ ttlMs: 60_000 });
  await replica.hold('door', lost, { lockDelayMs: 60_000 });
  const waiting = replica.acquire('door', me, { waitMs: scaled(2_000) });
  const { lines } = replica.gateway.context;
  const waiter = await eventually(
    'it waits',
    () => [...(lines.peek(witness.directory('door'))?.waiters.values() ?? [])][0],
  );
  // As a release does before its transaction; this one finds that the hold has gone with its lease.
  expect(waiter.beginHandover()).toBe(true);
  await expireSession(replica, lost.leaseId);
  await passed(scaled(3_000));
  waiter.endHandover(false);
  expect((await waiting).body).toMatchObject({ status: 409, code: 'lock-held' });
});
