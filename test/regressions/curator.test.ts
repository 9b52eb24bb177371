/**
 * What went wrong with Curator's recipes, tried here: nodes that are taken for one's own, nodes that are left behind,
 * and wake-ups that are taken for what was waited for. docs/regressions.md says more about each.
 */
import { expect, test } from 'vitest';
import { sortLine } from '../../src/recipes/line/contender.js';
import { OPCODE } from '../../src/zookeeper/operations.js';
import { startCuttable, Witness } from '../support/scene.js';
import { enter, leasesFor, leave, untilMembers } from '../recipes/double-barrier/client.js';
import { campaign, electionOf } from '../recipes/election/client.js';
import { claim, pushBodies, settle, settleAll } from '../recipes/queue/client.js';
import type { LeaseHandle, Reply } from '../support/http/client.js';
import { eventually, throughout } from '../support/eventually.js';
import { expireSession, startPair, startReplica, type Replica } from '../support/start-gateway.js';
import { freshRoot } from '../support/start-zookeeper.js';
import { scaled } from '../support/timing.js';

const TTL_MS = 20_000;
/** Of replicas whose ZooKeeper is taken away: an answer comes by then. */
const REQUEST_TIMEOUT_MS = scaled(1_500);

/**
 * The session expires, and a server that has not heard of it yet goes on showing the node, which has the name that is
 * looked for.
 */
test('CURATOR-498: the node of a lease that has ended is not taken for the place of the one that comes after it', async () => {
  await using pair = await startPair();
  await using witness = await Witness.start(pair.root);
  const request = { requestId: 'job' };
  const old = await pair.a.createLease({ ttlMs: TTL_MS });
  const { fencingToken } = await pair.a.hold('mine', old, request);
  const ghost = await makeGhost(pair.b, witness, witness.directory('mine'), old);
  const again = await pair.b.createLease({ ttlMs: TTL_MS });
  expect((await pair.a.acquire('mine', old, request)).status).toBe(410);
  expect((await pair.b.acquire('mine', again, request)).body).toMatchObject({ status: 409, code: 'lock-held' });
  const waiting = pair.b.hold('mine', again, { ...request, waitMs: TTL_MS });
  await pair.a.untilWaiting('mine', 1);
  await witness.control.delete(ghost);
  const held = await waiting;
  expect(held.alreadyHeld).toBe(false);
  expect(held.fencingToken).toBeGreaterThan(fencingToken);
});

test('CURATOR-498: a one-call acquire, whose name does not follow from a lease, does not take the node of an ended lease either', async () => {
  await using pair = await startPair();
  await using witness = await Witness.start(pair.root);
  const oneCall = { lease: { ttlMs: TTL_MS }, requestId: 'job-000000000000000000' };
  const old = (await pair.a.expect(200, 'POST', '/v1/locks/mine/acquire', { body: oneCall })) as LeaseHandle;
  const ghost = await makeGhost(pair.b, witness, witness.directory('mine'), old);
  const waiting = unanswered(pair.b.acquire('mine', undefined, { ...oneCall, waitMs: TTL_MS }));
  await throughout('it is not answered', () => waiting.reply === undefined);
  await witness.control.delete(ghost);
  const { status, body } = await waiting.done;
  expect({ status, alreadyHeld: (body as { alreadyHeld: boolean }).alreadyHeld }).toEqual({
    status: 200,
    alreadyHeld: false,
  });
  expect((body as LeaseHandle).leaseId).not.toBe(old.leaseId);
  expect((await pair.a.heartbeat(body as LeaseHandle)).status).toBe(200);
});

/**
 * After the reconnect the latch found its old node at the head, and led; the server removed it a moment later, and
 * another one led too.
 */
test('CURATOR-696: who led before its lease ended does not lead by the node that it had', async () => {
  await using pair = await startPair();
  await using witness = await Witness.start(pair.root);
  const directory = witness.layout.line('election', 'default', 'crown');
  const old = await pair.a.createLease({ ttlMs: TTL_MS });
  expect((await campaign(pair.a, 'crown', old, { value: 'me' })).status).toBe(200);
  const ghost = await makeGhost(pair.b, witness, directory, old);
  for (const replica of [pair.a, pair.b])
    expect((await campaign(replica, 'crown', old, { value: 'me' })).status).toBe(410);
  const again = await pair.a.createLease({ ttlMs: TTL_MS });
  const running = unanswered(campaign(pair.a, 'crown', again, { value: 'me', waitMs: TTL_MS }));
  await eventually('it runs', async () => (await electionOf(pair.b, 'crown')).candidateCount === 2);
  await throughout('it does not lead', () => running.reply === undefined);
  await witness.control.delete(ghost);
  expect((await running.done).status).toBe(200);
});

/**
 * The deletion failed, the library forgot that it held all the same, and nobody could lock any more while the session
 * lived.
 */
test('CURATOR-678: a release that a lost connection interrupts says that it does not know, and the repeated one frees the lock', async () => {
  const root = freshRoot();
  await using cuttable = await startCuttable({
    root,
    settings: { POSTERN_REQUEST_TIMEOUT_MS: String(REQUEST_TIMEOUT_MS) },
  });
  await using b = await startReplica({ root });
  await using witness = await Witness.start(root);
  const { replica: a, proxy } = cuttable;
  const [me, next] = [await a.createLease({ ttlMs: TTL_MS }), await b.createLease({ ttlMs: TTL_MS })];
  const { holdId, fencingToken } = await a.hold('cut', me);
  const waiting = b.hold('cut', next, { waitMs: TTL_MS });
  await b.untilWaiting('cut', 1);
  // That of the replica, and that of the lease, on which it would be tried again.
  const cut = proxy.loseRequest(OPCODE.delete).then(() => {
    proxy.refuse();
    proxy.cut();
  });
  expect((await a.release('cut', me, { holdId })).body).toMatchObject({ status: 503, code: 'outcome-unknown' });
  await cut;
  proxy.accept();
  // It is not forgotten that it holds, and it does not line up behind itself.
  expect(await a.hold('cut', me)).toMatchObject({ alreadyHeld: true, fencingToken });
  expect(await witness.line('cut')).toHaveLength(2);
  expect((await a.release('cut', me, { holdId })).status).toBe(204);
  expect((await waiting).fencingToken).toBeGreaterThan(fencingToken);
});

test('CURATOR-678: a place whose giving up a lost connection interrupts goes by itself, though its lease lives', async () => {
  const root = freshRoot();
  await using cuttable = await startCuttable({ root });
  await using b = await startReplica({ root });
  await using witness = await Witness.start(root);
  const { replica: a, proxy } = cuttable;
  const [holder, me] = [await b.createLease({ ttlMs: TTL_MS }), await b.createLease({ ttlMs: TTL_MS })];
  await b.hold('left', holder);
  const gone = new AbortController();
  const left = a.acquire('left', me, { waitMs: TTL_MS }, { signal: gone.signal }).catch(() => 'left');
  await b.untilWaiting('left', 1);
  const cut = proxy.loseRequest(OPCODE.delete).then(() => proxy.refuse());
  gone.abort();
  expect(await left).toBe('left');
  await cut;
  expect(await witness.line('left')).toHaveLength(2);
  proxy.accept();
  await eventually('its place is gone', async () => (await witness.line('left')).length === 1);
  expect((await b.heartbeat(me)).status).toBe(200);
});

/**
 * The thread was interrupted between the server's creation of the node and its answer: nobody knew of it, and in its
 * turn it blocked all others.
 */
test('CURATOR-79: a place that was made for a client who has gone before the answer does not stay, though its lease lives', async () => {
  const root = freshRoot();
  await using cuttable = await startCuttable({ root });
  await using b = await startReplica({ root });
  await using witness = await Witness.start(root);
  const { replica: a, proxy } = cuttable;
  const [me, next] = [await a.createLease({ ttlMs: TTL_MS }), await b.createLease({ ttlMs: TTL_MS })];
  await b.hold('orphan', next); // so that the directory exists, and one request makes the node
  await b.release('orphan', next);
  proxy.pause('fromZooKeeper');
  const gone = new AbortController();
  const left = a.acquire('orphan', me, { waitMs: TTL_MS }, { signal: gone.signal }).catch(() => 'left');
  await eventually('ZooKeeper has made the node', async () => (await witness.line('orphan')).length === 1);
  gone.abort();
  expect(await left).toBe('left');
  proxy.heal();
  expect((await b.acquire('orphan', next, { waitMs: TTL_MS })).status).toBe(200);
  expect(await witness.line('orphan')).toHaveLength(1);
  expect((await b.heartbeat(me)).status).toBe(200);
});

/**
 * The node of a permit was made, the listing behind it failed, and the permit was gone for as long as the session
 * lived.
 */
test('CURATOR-335: a permit whose acquisition fails after its node was made comes back, though its lease lives', async () => {
  const root = freshRoot();
  await using cuttable = await startCuttable({
    root,
    settings: { POSTERN_REQUEST_TIMEOUT_MS: String(REQUEST_TIMEOUT_MS) },
  });
  await using b = await startReplica({ root });
  await using witness = await Witness.start(root);
  const directory = witness.layout.line('semaphore', 'default', 'pool');
  const { replica: a, proxy } = cuttable;
  const [first, me, next] = [
    await b.createLease({ ttlMs: TTL_MS }),
    await a.createLease({ ttlMs: TTL_MS }),
    await b.createLease({ ttlMs: TTL_MS }),
  ];
  const acquire = (replica: Replica, lease: LeaseHandle, waitMs = 0): Promise<Reply> =>
    replica.call('POST', '/v1/semaphores/pool/acquire', { body: { limit: 2, waitMs }, leaseToken: lease.leaseToken });
  expect((await acquire(b, first)).status).toBe(200);
  const cut = proxy.loseReply(OPCODE.multi).then(() => proxy.refuse());
  expect((await acquire(a, me)).body).toMatchObject({ status: 503, code: 'outcome-unknown' });
  await cut;
  const contenders = async (): Promise<number> => (await witness.control.getChildren(directory)).children.length;
  expect(await contenders()).toBe(2);
  proxy.accept();
  await eventually('its node is gone', async () => (await contenders()) === 1);
  expect((await acquire(b, next, TTL_MS)).status).toBe(200);
  expect((await b.heartbeat(me)).status).toBe(200);
});

/**
 * The first consumer's session dies while it works; the second one is given the message, and neither can tell whose
 * work counts.
 */
test('CURATOR-605: of a message that is given to a second consumer the first one can settle nothing any more', async () => {
  await using pair = await startPair();
  const [first, second] = [await pair.a.createLease({ ttlMs: TTL_MS }), await pair.b.createLease({ ttlMs: TTL_MS })];
  await pushBodies(pair.a, 'work', ['once']);
  const [lost] = await claim(pair.a, 'work', first);
  if (lost === undefined) throw new Error('nothing to claim');
  expect(await claim(pair.b, 'work', second)).toEqual([]);
  await expireSession(pair.b, first.leaseId);
  const [taken] = await claim(pair.b, 'work', second, { waitMs: TTL_MS });
  expect(taken).toMatchObject({ id: lost.id, deliveries: 2 });
  const ack = { body: { claimIds: [lost.claimId] }, leaseToken: first.leaseToken };
  for (const replica of [pair.a, pair.b])
    expect((await replica.call('POST', '/v1/queues/work/ack', ack)).status).toBe(410);
  // Nor does the claim itself count for more, in whoever's hands it is.
  for (const replica of [pair.a, pair.b])
    expect(await settle(replica, 'work', 'ack', second, [lost])).toMatchObject([{ status: 409 }]);
  expect(await pair.a.expect(200, 'GET', '/v1/queues/work')).toMatchObject({ depth: 1, claimed: 1 });
  await settleAll(pair.a, 'work', 'ack', second, taken === undefined ? [] : [taken]);
  expect(await pair.b.expect(200, 'GET', '/v1/queues/work')).toMatchObject({ depth: 0 });
});

/** Any event of its watch, the loss of the connection among them, ended the wait, and the member was in. */
test('GH-1290: whatever wakes a member of a double barrier, it has entered only when all are there', async () => {
  const root = freshRoot();
  await using cuttable = await startCuttable({ root });
  await using b = await startReplica({ root });
  await using witness = await Witness.start(root);
  const { replica: a, proxy } = cuttable;
  const [me, other, ...before] = (await leasesFor(b, 4)) as [LeaseHandle, LeaseHandle, LeaseHandle, LeaseHandle];
  const options = { size: 2, waitMs: TTL_MS };
  // Two have entered when it comes: it waits for the next round, in which it is alone.
  await Promise.all(before.map((lease) => enter(b, 'stage', lease, options)));
  const waiting = unanswered(enter(a, 'stage', me, options));
  await untilMembers(b, 'stage', 3);
  const untilConnected = (): Promise<unknown> =>
    eventually('it is connected again', () => a.gateway.context.control.connected);
  proxy.cut();
  await untilConnected();
  expect(
    (await Promise.all(before.map((lease) => leave(b, 'stage', lease, { waitMs: TTL_MS })))).map(
      ({ status }) => status,
    ),
  ).toEqual([200, 200]);
  await untilMembers(b, 'stage', 1);
  const directory = witness.layout.doubleBarrier('default', 'stage');
  await witness.control.setData(directory, (await witness.control.getData(directory)).data);
  proxy.cut();
  await untilConnected();
  await throughout('it waits', () => waiting.reply === undefined);
  const last = enter(b, 'stage', other, options);
  expect([(await waiting.done).status, (await last).status]).toEqual([200, 200]);
});

/**
 * Ends the lease in ZooKeeper, and puts its node back in another session's name: the same path, the same data. So it
 * looks to a client whose server has not ended the session yet.
 * @returns the path
 */
async function makeGhost(replica: Replica, witness: Witness, directory: string, lease: LeaseHandle): Promise<string> {
  const line = sortLine((await witness.control.getChildren(directory)).children);
  expect(line).toHaveLength(1);
  const path = `${directory}/${line[0]?.name}`;
  const { data } = await witness.control.getData(path);
  await expireSession(replica, lease.leaseId);
  await eventually('its node is gone', async () => (await witness.control.exists(path)) === undefined);
  await witness.control.create(path, data, { mode: 'ephemeral' });
  return path;
}

/** A request, and its answer as soon as there is one. */
function unanswered(request: Promise<Reply>): { reply?: Reply; done: Promise<Reply> } {
  const wait: { reply?: Reply; done: Promise<Reply> } = { done: request.then((reply) => (wait.reply = reply)) };
  return wait;
}
