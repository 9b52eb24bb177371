/** Claims and acknowledgements that ZooKeeper does without an answer, or later than anybody waits for. */
import { afterEach, expect, test } from 'vitest';
import { LeaseSession } from '../../../../src/zookeeper/lease-session.js';
import { NoReplyError } from '../../../../src/zookeeper/errors.js';
import { OPCODE, type MultiResult } from '../../../../src/zookeeper/operations.js';
import { bodiesOf, claim, configure, pop, pushBodies, queueOf, settleAll } from '../client.js';
import { claimDirectly, claimOne, opened } from '../claims.js';
import { eventually } from '../../../support/eventually.js';
import { startPair, startReplica } from '../../../support/start-gateway.js';
import { freshRoot, sharedZooKeeper } from '../../../support/start-zookeeper.js';
import { soon, startCuttable, startSplit } from '../../../support/scene.js';
import { scaled } from '../../../support/timing.js';
import { startTcpProxy } from '../../../support/zookeeper/tcp-proxy.js';

const TTL_MS = 60_000;
const multi: LeaseSession['multi'] = Reflect.get(LeaseSession.prototype, 'multi');

afterEach(() => {
  LeaseSession.prototype.multi = multi;
});

test('a claim that a server makes after nobody waits for it any more is not made (C28)', async () => {
  await using pair = await startPair();
  const { a, b } = pair;
  const [me, other] = [await b.createLease({ ttlMs: TTL_MS }), await b.createLease({ ttlMs: TTL_MS })];
  await pushBodies(b, 'work', [1]);
  const late: (() => Promise<MultiResult[]>)[] = [];
  // The server that has it stands still.
  LeaseSession.prototype.multi = function (this: LeaseSession, operations, deadline) {
    if (!operations.some(({ type, path }) => type === 'create' && path.endsWith('/c')))
      return multi.call(this, operations, deadline);
    late.push(() => multi.call(this, operations, soon()));
    return new Promise((_, reject) =>
      setTimeout(() => reject(new NoReplyError('the claim', 'deadline', true)), (deadline ?? 0) - performance.now()),
    );
  };
  const claiming = claimDirectly(a, await opened(a, me), { hardDeadline: soon(scaled(2_000)) });
  await expect(claiming).rejects.toMatchObject({ code: 'outcome-unknown' });
  await eventually('nothing is left to be taken back', () => a.gateway.context.cleanup.pending === 0);
  LeaseSession.prototype.multi = multi;
  expect(late).toHaveLength(1);
  await expect(late[0]?.()).rejects.toMatchObject({ reason: 'NO_NODE' });
  expect(bodiesOf(await claim(b, 'work', other, { waitMs: 5_000 }))).toEqual([1]);
});

test('an acknowledgement that was done without an answer is not called undone when its claim had been extended (C20)', async () => {
  const root = freshRoot();
  await using cuttable = await startCuttable({ root });
  await using b = await startReplica({ root });
  const { replica: a, proxy } = cuttable;
  const me = await a.createLease({ ttlMs: TTL_MS });
  await pushBodies(b, 'work', [1]);
  const { claimId } = await claimOne(a, 'work', me, { claimMs: 500 });
  const { leaseToken } = me;
  const extended = { leaseToken, body: { claimIds: [claimId], claimMs: TTL_MS } };
  await a.expect(200, 'POST', '/v1/queues/work/extend', extended);
  const queue = await a.gateway.recipes.queue.queues.expect('default', 'work', soon());
  const until = (await queue.ensembleNow(soon())) + 500;
  await eventually('the time of the claimId is over', async () => (await queue.ensembleNow(soon())) > until);
  // The first is refused, because the claim was extended; the second does it, on the lease's session.
  const lost = proxy.loseReply(OPCODE.multi).then(() => proxy.loseReply(OPCODE.multi));
  const unknown = await a.call('POST', '/v1/queues/work/ack', { leaseToken, body: { claimIds: [claimId] } });
  await lost;
  expect(unknown.body).toMatchObject({ status: 503, code: 'outcome-unknown', outcome: 'unknown' });
  expect((await queueOf(b, 'work')).depth).toBe(0);
});

test.each(['ack', 'nack'])(
  'what an earlier try of %s has done is not called undone when the queue was deleted',
  async (op) => {
    const root = freshRoot();
    await using cuttable = await startCuttable({ root });
    await using b = await startReplica({ root });
    const { replica: a, proxy } = cuttable;
    const { leaseToken } = await a.createLease({ ttlMs: TTL_MS });
    await pushBodies(b, 'work', [1]);
    const { claimId } = await claimOne(a, 'work', { leaseToken });
    // An acknowledgement goes out on the control session, and is looked after on the lease's: both are away.
    const lost = proxy.loseReply(OPCODE.multi).then(() => {
      proxy.refuse();
      proxy.cut();
    });
    const settling = a.call('POST', `/v1/queues/work/${op}`, { leaseToken, body: { claimIds: [claimId] } });
    await lost;
    const done = op === 'ack' ? { depth: 0 } : { depth: 1, claimed: 0 };
    expect(await queueOf(b, 'work')).toMatchObject(done);
    const { control, layout } = b.gateway.context;
    await b.expect(204, 'DELETE', '/v1/queues/work?force=true');
    const contents = (): Promise<string[]> => control.until(soon()).children(layout.queueContents('default'));
    await eventually('nothing is left of it', async () => (await contents()).length === 0);
    proxy.accept();
    expect((await settling).body).toMatchObject({ status: 503, code: 'outcome-unknown', outcome: 'unknown' });
  },
);

test('what is given back goes to who waits, although its claim was answered after the queue was looked through anew (C22)', async () => {
  const root = freshRoot();
  const port = Number(sharedZooKeeper().split(':')[1]);
  await using control = await startTcpProxy({ port });
  await using leases = await startTcpProxy({ port });
  await using b = await startReplica({ root });
  await using a = await startSplit({ root }, control, leases);
  const me = await a.createLease({ ttlMs: TTL_MS });
  await pushBodies(a, 'work', [1, 2]);
  expect(bodiesOf(await pop(a, 'work'))).toEqual([1]); // it has the turn
  const { paths } = await a.gateway.recipes.queue.queues.expect('default', 'work', soon());
  const turn = (): Promise<string[]> => a.gateway.context.control.until(soon()).children(paths.takers);
  const [first] = await turn();
  leases.pause('fromZooKeeper');
  const claiming = claim(a, 'work', me);
  await eventually('the claim is late, and its turn is over', async () => (await turn())[0] !== first);
  const waiting = pop(a, 'work', { waitMs: scaled(5_000) });
  await eventually('somebody waits', async () => (await queueOf(b, 'work')).consumersWaiting === 1);
  leases.heal();
  const claims = await claiming;
  expect(bodiesOf(claims)).toEqual([2]);
  await settleAll(a, 'work', 'nack', me, claims);
  expect(bodiesOf(await waiting)).toEqual([2]);
});

test('a message whose claim does not get through goes to who waits behind it, a quarter of a second later', async () => {
  const root = freshRoot();
  const port = Number(sharedZooKeeper().split(':')[1]);
  await using control = await startTcpProxy({ port });
  await using leases = await startTcpProxy({ port });
  await using b = await startReplica({ root });
  await using a = await startSplit({ root }, control, leases);
  const me = await a.createLease({ ttlMs: TTL_MS });
  expect((await configure(b, 'work')).status).toBe(201);
  const isWaiting = (count: number) => async (): Promise<boolean> =>
    (await queueOf(b, 'work')).consumersWaiting === count;
  const first = claim(a, 'work', me, { waitMs: 20_000 });
  await eventually('one waits', isWaiting(1));
  const second = pop(a, 'work', { waitMs: TTL_MS / 12 });
  await eventually('both wait', isWaiting(2));
  leases.pause('toZooKeeper');
  await pushBodies(b, 'work', [1]);
  // The replica gives up on the connection of the lease after a sixth of its time.
  expect(bodiesOf(await second)).toEqual([1]);
  leases.heal();
  await pushBodies(b, 'work', [2]);
  expect(bodiesOf(await first)).toEqual([2]);
});
