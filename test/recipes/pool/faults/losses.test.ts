/** Pools, where answers are lost, replicas and leases die, and others come in between (ADR 30). */
import { describe, expect, test } from 'vitest';
import { Sweep } from '../../../../src/recipes/housekeeping/sweep.js';
import { parseHold } from '../../../../src/recipes/pool/pool.js';
import { giveBack } from '../../../../src/recipes/pool/release.js';
import { TidyPools } from '../../../../src/recipes/pool/tidy.js';
import { OPCODE } from '../../../../src/zookeeper/operations.js';
import { eventually, throughout } from '../../../support/eventually.js';
import { onSessions } from '../../../support/lease-work.js';
import { startCuttable } from '../../../support/scene.js';
import { expireSession, spawnReplica, startPair, startReplica, type Replica } from '../../../support/start-gateway.js';
import { freshRoot } from '../../../support/start-zookeeper.js';
import { scaled } from '../../../support/timing.js';
import { acquire, acquireOne, call, idsOf, leaseFor, NAME, put, release, show, untilWaiting } from '../client.js';

/** Lets `meanwhile` happen once, when the replica is about to assign members: it has read what is free. */
function beforeAssigned(replica: Replica, meanwhile: () => unknown): void {
  let isDone = false;
  onSessions(replica, (session) => {
    const multi = session.multi.bind(session);
    session.multi = async (items, until) => {
      const assigns = items.some(({ type, path }) => type === 'create' && path.includes('/pool-held/'));
      if (assigns && !isDone) {
        isDone = true;
        await meanwhile();
      }
      return multi(items, until);
    };
  });
}

async function heldIds(replica: Replica): Promise<string[]> {
  return (await show(replica)).held.map(({ id }) => id);
}

describe('a lost answer', () => {
  test.each(['loseReply', 'loseRequest'] as const)(
    'of ZooKeeper (%s) assigns members once, and releases them once',
    async (lose) => {
      const root = freshRoot();
      await using cuttable = await startCuttable({ root });
      await using b = await startReplica({ root });
      const { replica: a, proxy } = cuttable;
      await put(b, { of: 4 });
      const lease = await leaseFor(b);
      let lost: Promise<void> | undefined;
      beforeAssigned(a, () => void (lost = proxy[lose](OPCODE.multi)));
      const got = await acquire(a, lease, { count: 2 });
      await lost;
      expect(lost).toBeDefined();
      expect(got.alreadyHeld).toBe(false);
      expect(await heldIds(b)).toEqual(idsOf(got));
      const releasing = proxy[lose](OPCODE.multi);
      await release(a, lease);
      await releasing;
      expect(await show(b)).toMatchObject({ free: 4, heldCount: 0, waiterCount: 0 });
    },
  );

  test('for good is outcome-unknown: what was assigned is given back, unless the client comes back', async () => {
    const root = freshRoot();
    const settings = { POSTERN_REQUEST_TIMEOUT_MS: String(scaled(2_000)) };
    await using cuttable = await startCuttable({ root, settings });
    await using b = await startReplica({ root });
    const { replica: a, proxy } = cuttable;
    await put(b, { of: 4 });
    const lease = await leaseFor(b);
    const cut = async (requestId: string): Promise<void> => {
      let lost: Promise<void> | undefined;
      beforeAssigned(a, () => void (lost = proxy.loseReply(OPCODE.multi).then(() => proxy.refuse())));
      const unknown = await call(a, 'acquire', lease, { requestId });
      await lost;
      expect(unknown).toMatchObject({ status: 503, body: { code: 'outcome-unknown', outcome: 'unknown' } });
    };
    await cut('forgotten');
    proxy.heal();
    await eventually('it is given back', async () => (await heldIds(b)).length === 0);
    await cut('repeated');
    expect(await acquireOne(b, lease, { requestId: 'repeated' })).toBe('0');
    proxy.heal();
    await eventually('the other replica has nothing left to do', () => a.gateway.context.cleanup.pending === 0);
    expect(await heldIds(b)).toEqual(['0']);
  });
});

test('members that another attempt took from the same place stay, when nobody knows what came of the first', async () => {
  const root = freshRoot();
  const settings = { POSTERN_REQUEST_TIMEOUT_MS: String(scaled(2_000)) };
  await using cuttable = await startCuttable({ root, settings });
  await using b = await startReplica({ root });
  const { replica: a, proxy } = cuttable;
  await put(b, { of: 2 });
  const lease = await leaseFor(b);
  beforeAssigned(a, async () => {
    expect(await acquireOne(b, lease)).toBe('0');
    proxy.refuse();
    void proxy.loseRequest(OPCODE.multi).catch(() => undefined);
  });
  expect((await call(a, 'acquire', lease)).status).not.toBe(200);
  proxy.heal();
  await eventually('the first one has nothing left to do', () => a.gateway.context.cleanup.pending === 0);
  expect(await heldIds(b)).toEqual(['0']);
});

test('what a later attempt of the request was told of is not given back by an earlier one', async () => {
  await using pair = await startPair();
  await put(pair.a, { of: 2 });
  const lease = await leaseFor(pair.a);
  const [first, other] = [await acquire(pair.a, lease), await leaseFor(pair.b)];
  const { context } = pair.a.gateway;
  const { control, layout } = context;
  const zk = control.until(performance.now() + scaled(10_000));
  const [id] = await zk.children(layout.allPoolHolds('default'));
  const path = `${layout.poolHolds('default', id!)}/0`;
  const node = await zk.get(path);
  const member = { id: '0', path, version: node.stat.version, hold: parseHold(node.data)! };
  expect(await acquire(pair.b, lease)).toMatchObject({ holdId: first.holdId, alreadyHeld: true });
  expect(await giveBack(context, zk, lease, [member])).toBe(false);
  expect(await heldIds(pair.b)).toEqual(['0']);
  expect(await acquireOne(pair.b, other)).toBe('1');
  expect(await giveBack(context, zk, lease, [{ ...member, version: node.stat.version + 1 }])).toBe(true);
  expect(await heldIds(pair.b)).toEqual(['1']);
});

describe('between the reading and the assignment', () => {
  test('the members change: it is not given one that was removed or drained', async () => {
    await using pair = await startPair();
    const members = ['a', 'b', 'c'].map((id) => ({ id }));
    await put(pair.a, { members });
    const lease = await leaseFor(pair.a);
    beforeAssigned(pair.a, () => put(pair.b, { members: [{ id: 'b', drain: true }, { id: 'c' }] }));
    expect(await acquireOne(pair.a, lease)).toBe('c');
  });

  test('somebody else has the node of the member: no member has two holders', async () => {
    await using pair = await startPair();
    await put(pair.a, { of: 2 });
    const [first, second] = [await leaseFor(pair.a), await leaseFor(pair.b)];
    const { control, layout } = pair.b.gateway.context;
    const [id] = await control.until(performance.now() + scaled(5_000)).children(layout.allPoolHolds('default'));
    const path = `${layout.poolHolds('default', id!)}/0`;
    beforeAssigned(pair.a, () => control.create(path));
    expect(await acquireOne(pair.a, first)).toBe('1');
    await control.delete(path);
    expect(await acquireOne(pair.b, second)).toBe('0');
  });

  test('the lease ends: nothing is held; it is repeated elsewhere: one of the attempts has it', async () => {
    await using pair = await startPair();
    await put(pair.a, { of: 4 });
    const [ends, lease] = [await leaseFor(pair.b), await leaseFor(pair.b)];
    beforeAssigned(pair.a, () => expireSession(pair.b, ends.leaseId));
    expect((await call(pair.a, 'acquire', ends)).status).toBe(410);
    expect(await show(pair.b)).toMatchObject({ heldCount: 0, restingCount: 0, waiterCount: 0 });
    let repeated: Promise<string> | undefined;
    beforeAssigned(pair.a, async () => {
      repeated = acquireOne(pair.b, lease);
      await repeated;
    });
    const first = await call(pair.a, 'acquire', lease);
    expect([200, 409]).toContain(first.status);
    expect(await heldIds(pair.b)).toEqual([await repeated]);
  });
});

test('places outlive a replica that is killed, in their order, and one that nobody asks for is passed over', async () => {
  const root = freshRoot();
  await using doomed = await spawnReplica({ root });
  await using other = await startReplica({ root });
  await put(other, { of: 2 });
  const [holder, one, gone, all] = await Promise.all(Array.from({ length: 4 }, () => leaseFor(other)));
  await acquire(doomed, holder!, { count: 2 });
  const cutOff = Promise.allSettled([
    call(doomed, 'acquire', one!, { waitMs: 30_000 }),
    call(doomed, 'acquire', gone!, { waitMs: 1_000, keepPlace: true }),
  ]);
  await untilWaiting(other, 2);
  const behind = acquire(other, all!, { count: 2, waitMs: 50_000 });
  await untilWaiting(other, 3);
  await doomed.kill();
  await cutOff;
  const repeated = acquireOne(other, one!, { waitMs: 30_000 });
  await release(other, holder!);
  expect(await repeated).toBe('0');
  await release(other, one!);
  expect(idsOf(await behind)).toEqual(['0', '1']);
});

test('who waits for more than the members whose rest is over asks ZooKeeper for nothing until one is released', async () => {
  await using replica = await startReplica();
  await put(replica, { of: 2, quarantineMs: 300 });
  const [lost, keeps, waits] = [await leaseFor(replica), await leaseFor(replica), await leaseFor(replica)];
  await acquireOne(replica, lost);
  await acquireOne(replica, keeps);
  await expireSession(replica, lost.leaseId);
  const waiting = acquire(replica, waits, { count: 2, waitMs: 50_000 });
  await untilWaiting(replica, 1);
  await eventually('the lost member has rested', async () => (await show(replica)).resting.length === 0);
  const reads = async (): Promise<number> => {
    const page = String(await replica.expect(200, 'GET', '/metrics'));
    return Number(/^postern_zookeeper_request_duration_seconds_count\{op="getChildren"\} (\d+)$/m.exec(page)?.[1]);
  };
  const before = await reads();
  await throughout('it looks once more, and then no more', async () => (await reads()) - before < 20);
  await release(replica, keeps);
  expect(idsOf(await waiting)).toEqual(['0', '1']);
});

test('housekeeping begins the rests of members that nobody wants, and removes what deleted pools leave', async () => {
  await using replica = await startReplica();
  const { context } = replica.gateway;
  const { layout, control } = context;
  await put(replica, { of: 3, quarantineMs: 3_600_000 });
  const [lost, owner] = [await leaseFor(replica), await leaseFor(replica, { label: 'me' })];
  await acquireOne(replica, lost);
  expect(await acquireOne(replica, owner, { prefer: 'same' })).toBe('1');
  await release(replica, owner);
  await expireSession(replica, lost.leaseId);
  const sweep = (): Promise<void> => new TidyPools(context).sweep(new Sweep(context, () => false));
  expect((await show(replica)).resting).toEqual([{ id: '0', until: null }]);
  await sweep();
  const [until] = (await show(replica)).resting.map((one) => one.until);
  expect(Date.parse(until ?? '')).toBeGreaterThan(Date.now() + 3_500_000);
  await sweep();
  expect((await show(replica)).resting).toEqual([{ id: '0', until }]);
  expect(await acquireOne(replica, owner, { prefer: 'same' })).toBe('1');
  await release(replica, owner);
  const contents = async (): Promise<string[]> => {
    const zk = control.until(performance.now() + scaled(5_000));
    const ids = await zk.children(layout.allPoolMarks('default'));
    return (await Promise.all(ids.map((id) => zk.children(layout.poolMarks('default', id))))).flat();
  };
  expect(await contents()).toHaveLength(2);
  await put(replica, { of: 1, quarantineMs: 0 });
  await sweep();
  expect(await contents()).toHaveLength(1);
  expect((await replica.call('DELETE', `/v1/pools/${NAME}`)).status).toBe(204);
  await put(replica, { of: 1 });
  await acquireOne(replica, owner, { prefer: 'same' });
  await sweep();
  await sweep();
  const zk = control.until(performance.now() + scaled(5_000));
  expect(await zk.children(layout.allPoolMarks('default'))).toHaveLength(1);
  expect(await contents()).toHaveLength(1);
});
