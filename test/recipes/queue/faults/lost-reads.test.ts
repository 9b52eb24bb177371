/** What requests read on their way, of which ZooKeeper's answer is lost: they go on with the next connection. */
import { expect, test } from 'vitest';
import { OPCODE } from '../../../../src/zookeeper/operations.js';
import { bodiesOf, configure, pop, push, pushBodies, queueOf, settle } from '../client.js';
import { claimOne } from '../claims.js';
import { eventually } from '../../../support/eventually.js';
import { startReplica } from '../../../support/start-gateway.js';
import { freshRoot, sharedZooKeeper } from '../../../support/start-zookeeper.js';
import { startCuttable, startSplit } from '../../../support/scene.js';
import { startTcpProxy } from '../../../support/zookeeper/tcp-proxy.js';

test('the first push makes its queue, although what it asks for that is not answered', async () => {
  await using cuttable = await startCuttable({ root: freshRoot() });
  const { replica, proxy } = cuttable;
  const lost = proxy.loseReply(OPCODE.exists);
  expect((await push(replica, 'work', [{ body: 1 }])).status).toBe(201);
  await lost;
  expect(bodiesOf(await pop(replica, 'work', { max: 10 }))).toEqual([1]);
});

test('a push is done although the count of what a bounded queue has is not answered', async () => {
  await using cuttable = await startCuttable({ root: freshRoot() });
  const { replica, proxy } = cuttable;
  expect((await configure(replica, 'work', { maxDepth: 10 })).status).toBe(201);
  const lost = proxy.loseReply(OPCODE.multiRead);
  expect((await push(replica, 'work', [{ body: 1 }])).status).toBe(201);
  await lost;
});

test('a repeated push is told of the first, although the look at its messageId is not answered (C26)', async () => {
  await using cuttable = await startCuttable({ root: freshRoot() });
  const { replica, proxy } = cuttable;
  const [first] = await pushBodies(replica, 'work', [1], { messageId: 'once' });
  const lost = proxy.loseReply(OPCODE.multiRead);
  expect(await push(replica, 'work', [{ body: 1, messageId: 'once' }])).toMatchObject({
    body: { items: [{ id: first?.id, status: 200 }] },
  });
  await lost;
  expect(bodiesOf(await pop(replica, 'work', { max: 10 }))).toEqual([1]);
});

test('who waits at a queue that is deleted waits on for another one, although the look at its name is not answered', async () => {
  const root = freshRoot();
  await using b = await startReplica({ root });
  await using cuttable = await startCuttable({ root });
  const { replica: a, proxy } = cuttable;
  expect((await configure(a, 'work')).status).toBe(201);
  const waiting = a.call('POST', '/v1/queues/work/pop', { body: { waitMs: 20_000 } });
  await eventually('it waits', async () => (await queueOf(b, 'work')).consumersWaiting === 1);
  const lost = proxy.loseReply(OPCODE.sync);
  await b.expect(204, 'DELETE', '/v1/queues/work');
  await lost;
  await pushBodies(b, 'work', ['anew']);
  expect(await waiting).toMatchObject({ status: 200, body: { items: [{ body: 'anew' }] } });
});

test('a claim is given back for later, although what the replica asks for that is not answered', async () => {
  const port = Number(sharedZooKeeper().split(':')[1]);
  await using control = await startTcpProxy({ port });
  await using leases = await startTcpProxy({ port });
  await using replica = await startSplit({ root: freshRoot() }, control, leases);
  const lease = await replica.createLease({ ttlMs: 20_000 });
  await pushBodies(replica, 'work', [1]);
  const taken = await claimOne(replica, 'work', lease);
  control.accept(); // from here on it can come back
  const lost = control.loseReply(OPCODE.sync);
  const [settled] = await settle(replica, 'work', { op: 'nack', delayMs: 60_000 }, lease, [taken]);
  await lost;
  expect(settled).toMatchObject({ status: 200 });
  expect(await queueOf(replica, 'work')).toMatchObject({ depth: 0, delayed: 1 });
});
