/**
 * A pop that fails: whatever the reason, it is not said to be repeatable, and `outcome` says whether a message may be
 * lost.
 */
import { expect, test } from 'vitest';
import { bodiesOf, pop, pushBodies } from '../client.js';
import type { Client, Reply } from '../../../support/http/client.js';
import { eventually } from '../../../support/eventually.js';
import { startReplica } from '../../../support/start-gateway.js';
import { freshRoot } from '../../../support/start-zookeeper.js';
import { scaled } from '../../../support/timing.js';
import { startCuttable } from '../../../support/scene.js';

const MULTI = 14;
/** Of a replica whose ZooKeeper is taken away: it answers by then, and has asked before. */
const settings = { POSTERN_REQUEST_TIMEOUT_MS: String(scaled(3_000)) };

function ask(replica: Client, waitMs = 0): Promise<Reply> {
  return replica.call('POST', '/v1/queues/work/pop', { body: { waitMs } });
}

function problem(code: string, outcome: 'not-applied' | 'unknown'): unknown {
  return { status: 503, body: { code, outcome, retryable: false }, headers: { 'retry-after': expect.any(String) } };
}

test('a pop that waits at a replica which shuts down is not applied and not to be repeated; a claim is', async () => {
  const root = freshRoot();
  await using b = await startReplica({ root });
  await using a = await startReplica({ root });
  await pushBodies(b, 'work', [0]);
  expect(bodiesOf(await pop(a, 'work'))).toEqual([0]);
  const { leaseToken } = await b.createLease({ ttlMs: 20_000 });
  const popping = ask(a, 30_000);
  const claiming = a.call('POST', '/v1/queues/work/claim', { body: { waitMs: 30_000 }, leaseToken });
  await eventually('both wait', async () => (await a.metric('postern_waiters', { kind: 'queue' })) === 2);
  const stopped = a.gateway.stop();
  expect(await popping).toMatchObject(problem('draining', 'not-applied') as object);
  expect((await claiming).body).toMatchObject({ code: 'draining', retryable: true });
  await stopped;
  await pushBodies(b, 'work', [1]);
  expect(bodiesOf(await pop(b, 'work'))).toEqual([1]);
});

test('a pop that ZooKeeper was not asked to do is not applied, and not to be repeated', async () => {
  await using cuttable = await startCuttable({ root: freshRoot(), settings });
  const { replica: a, proxy } = cuttable;
  await pushBodies(a, 'work', [0]);
  proxy.refuse();
  proxy.cut();
  expect(await ask(a)).toMatchObject(problem('zookeeper-unavailable', 'not-applied') as object);
  proxy.accept();
  const message = await eventually('it is connected again', () => pop(a, 'work').then(([first]) => first));
  expect(message.body).toBe(0);
});

test('a pop of which nobody knows whether it was done says so, and is not to be repeated', async () => {
  const root = freshRoot();
  await using b = await startReplica({ root });
  await using cuttable = await startCuttable({ root, settings });
  const { replica: a, proxy } = cuttable;
  await pushBodies(b, 'work', [0, 1]);
  const cut = proxy.loseReply(MULTI).then(() => proxy.refuse());
  expect(await ask(a)).toMatchObject(problem('outcome-unknown', 'unknown') as object);
  await cut;
  proxy.accept();
  expect(bodiesOf(await pop(b, 'work', { waitMs: 10_000 }))).toEqual([1]); // it was done
});

test('a pop for which the replica has no room to wait is not applied, and not to be repeated', async () => {
  await using a = await startReplica({ settings: { POSTERN_MAX_WAITERS: '1' } });
  await pushBodies(a, 'work', [0]);
  expect(bodiesOf(await pop(a, 'work'))).toEqual([0]);
  const waiting = pop(a, 'work', { waitMs: 20_000 });
  await eventually('one waits', async () => (await a.metric('postern_waiters', { kind: 'queue' })) === 1);
  expect(await ask(a, 20_000)).toMatchObject(problem('overloaded', 'not-applied') as object);
  await pushBodies(a, 'work', [1]);
  expect(bodiesOf(await waiting)).toEqual([1]);
});

test('a wait that ends before anybody has looked ends with a look: a queue that is not empty is not taken for empty', async () => {
  const root = freshRoot();
  await using b = await startReplica({ root });
  await using cuttable = await startCuttable({ root });
  const { replica: a, proxy } = cuttable;
  await pushBodies(b, 'work', [0, 1]);
  proxy.delay('fromZooKeeper', 200);
  expect(bodiesOf(await pop(a, 'work', { waitMs: 20 }))).toEqual([0]);
  expect(bodiesOf(await pop(b, 'work'))).toEqual([1]);
  expect(bodiesOf(await pop(a, 'work', { waitMs: 20 }))).toEqual([]);
});
