/** Transactions, where answers are lost, participants die and clocks differ (protocol C29, T9). */
import { describe, expect, test, vi } from 'vitest';
import { OPCODE } from '../../../../src/zookeeper/operations.js';
import { abort, begin, join, leaseFor, show, told, vote, type Shown } from '../client.js';
import { eventually, passed, throughout } from '../../../support/eventually.js';
import { expireSession, spawnReplica, startPair, startReplica } from '../../../support/start-gateway.js';
import { freshRoot, startZooKeeper } from '../../../support/start-zookeeper.js';
import { scaled, timing } from '../../../support/timing.js';
import { rounds, startCuttable } from '../../../support/scene.js';
import { isDecided, childrenOf, A_PING_BYTES } from '../decided.js';

describe('a commit whose answer is lost', () => {
  test('has been done, and the same vote, repeated by the replica, is told so', async () => {
    const root = freshRoot();
    await using cuttable = await startCuttable({ root });
    await using b = await startReplica({ root });
    const { replica: a, proxy } = cuttable;
    const leases = [await leaseFor(b), await leaseFor(b)];
    for (const lose of ['loseReply', 'loseRequest'] as const) {
      const id = await begin(b, ['a', 'b']);
      await vote(b, id, leases[0]!, 'a');
      await join(b, id, leases[1]!, 'b');
      // The first one is that of the vote, on the lease's own connection; the next one is the decision.
      const lost = proxy[lose](OPCODE.multi).then(() => proxy[lose](OPCODE.multi));
      expect(told(await vote(a, id, leases[1]!, 'b')).state).toBe('committed');
      await lost;
      expect((await show(b, id)).state).toBe('committed');
      expect(await childrenOf(b, id)).toBe(0);
    }
  });

  test('is outcome-unknown when no answer comes at all, and the repeated vote finds out', async () => {
    const root = freshRoot();
    await using cuttable = await startCuttable({
      root,
      settings: { POSTERN_REQUEST_TIMEOUT_MS: String(scaled(3_000)) },
    });
    await using b = await startReplica({ root });
    const { replica: a, proxy } = cuttable;
    const leases = [await leaseFor(b), await leaseFor(b)];
    const id = await begin(b, ['a', 'b']);
    await vote(b, id, leases[0]!, 'a');
    await join(b, id, leases[1]!, 'b');
    const lost = proxy.loseReply(OPCODE.multi).then(() => proxy.refuse());
    const unknown = await vote(a, id, leases[1]!, 'b');
    await lost;
    expect(unknown.status).toBe(503);
    expect(unknown.body).toMatchObject({ code: 'outcome-unknown', outcome: 'unknown' });
    expect(await isDecided(b, id)).toBe(false);
    proxy.heal();
    expect(told(await vote(b, id, leases[1]!, 'b')).state).toBe('committed');
    expect(told(await vote(a, id, leases[1]!, 'b')).state).toBe('committed');
  });

  test('and an abort, a join and a beginning whose answers are lost, are done once', async () => {
    const root = freshRoot();
    await using cuttable = await startCuttable({ root });
    await using b = await startReplica({ root });
    const { replica: a, proxy } = cuttable;
    const lease = await leaseFor(b);
    let lost = proxy.loseReply(OPCODE.multi);
    const id = await begin(a, ['a', 'b']);
    await lost;
    expect((await b.expect(200, 'GET', '/v1/transactions')).items).toHaveLength(1);
    lost = proxy.loseReply(OPCODE.multi);
    expect(told(await join(a, id, lease, 'a')).state).toBe('open');
    await lost;
    lost = proxy.loseReply(OPCODE.setData);
    expect(told(await vote(a, id, lease, 'b', { vote: 'abort' }))).toMatchObject({ state: 'aborted', causedBy: ['b'] });
    await lost;
    const other = await begin(a, ['a', 'b']);
    lost = proxy.loseReply(OPCODE.setData);
    expect(told(await abort(a, other))).toMatchObject({ state: 'aborted', reason: 'requested' });
    await lost;
  });
});

describe('the deadline', () => {
  test('against the last vote: whichever ZooKeeper puts first, both replicas tell the same for ever (C29)', async () => {
    await using pair = await startPair();
    const seen = new Set<string>();
    const deadlineMs = 250;
    for (let round = 0; round < rounds(12); round += 1) {
      const [a, b] = await Promise.all([leaseFor(pair.a), leaseFor(pair.b)]);
      const begunAt = performance.now();
      const id = await begin(pair.a, ['a', 'b'], { deadlineMs });
      await vote(pair.a, id, a, 'a');
      await join(pair.b, id, b, 'b');
      await passed(Math.max(0, begunAt + deadlineMs - 30 + round * 8 - performance.now()));
      const { state } = told(await vote(pair.b, id, b, 'b'));
      const decided = await eventually('it is decided', async () => {
        const shown = await show(pair.a, id);
        return shown.state === 'open' ? undefined : shown.state;
      });
      if (state !== 'open') expect(decided).toBe(state);
      for (const replica of [pair.a, pair.b, pair.a]) expect((await show(replica, id)).state).toBe(decided);
      seen.add(decided);
    }
    console.log(`the deadline against the last vote: ${[...seen].join(', ')}`);
  });

  test('finds all votes written and nobody told: it commits, it does not abort (C29)', async () => {
    const root = freshRoot();
    await using cuttable = await startCuttable({ root });
    await using b = await startReplica({ root });
    const { replica: a, proxy } = cuttable;
    const leases = [await leaseFor(b), await leaseFor(b)];
    const id = await begin(b, ['a', 'b'], { deadlineMs: 4_000 });
    await vote(b, id, leases[0]!, 'a');
    await join(b, id, leases[1]!, 'b');
    const lost = proxy.loseReply(OPCODE.multi).then(() => proxy.refuse());
    const voting = vote(a, id, leases[1]!, 'b');
    await lost;
    expect(await isDecided(b, id)).toBe(false);
    await eventually('it is decided', () => isDecided(b, id));
    expect((await show(b, id)).state).toBe('committed');
    proxy.heal();
    expect(told(await voting).state).toBe('committed');
  });

  test('stands on the clock of the ensemble: a replica whose own clock is hours ahead aborts nothing early (T9)', async () => {
    const root = freshRoot();
    await using a = await startReplica({ root });
    const lease = await leaseFor(a);
    const id = await begin(a, ['a', 'b']);
    const now = Date.now.bind(Date);
    const clock = vi.spyOn(Date, 'now').mockImplementation(() => now() + 6 * 3_600_000);
    try {
      await using ahead = await startReplica({ root });
      expect((await show(ahead, id)).state).toBe('open');
      expect(told(await vote(ahead, id, lease, 'a')).state).toBe('open');
      await throughout('it stays open', async () => (await show(ahead, id)).state === 'open');
      expect(told(await vote(ahead, id, lease, 'b')).state).toBe('committed');
    } finally {
      clock.mockRestore();
    }
  });

  test(
    'is kept by a replica that lives, while those that began and waited were killed',
    { timeout: scaled(60_000) },
    async () => {
      const root = freshRoot();
      await using doomed = await spawnReplica({ root });
      await using b = await startReplica({ root });
      const lease = await leaseFor(b);
      const id = await begin(doomed, ['a', 'b'], { deadlineMs: 5_000 });
      await vote(doomed, id, lease, 'a');
      const waiting = b.call('GET', `/v1/transactions/${id}?waitMs=20000`);
      await eventually('it waits', () => b.gateway.recipes.transaction.transactions.observers.size === 1);
      await doomed.kill();
      const shown = told(await waiting) as Shown;
      expect(shown).toMatchObject({ state: 'aborted', reason: 'deadline', causedBy: ['b'] });
      expect(Date.parse(shown.decidedAt!) - Date.parse(shown.deadline)).toBeLessThan(scaled(3_000));
    },
  );
});

test(
  'a ZooKeeper that is killed and started again has lost nobody, and still sees who is',
  { timeout: scaled(120_000) },
  async () => {
    await using zookeeper = await startZooKeeper();
    await using pair = await startPair({ zookeeper: zookeeper.connectString });
    const [a, b] = [await leaseFor(pair.a), await leaseFor(pair.a)];
    const [kept, broken] = [await begin(pair.a, ['a', 'b']), await begin(pair.b, ['a', 'b'])];
    for (const id of [kept, broken]) await vote(pair.a, id, a, 'a');
    // Two more tries that fail: they are not to be taken for nodes that have gone.
    expect((await vote(pair.b, kept, b, 'a')).status).toBe(409);
    await Promise.all([join(pair.a, kept, b, 'b'), join(pair.b, kept, b, 'b')]);
    await join(pair.a, broken, b, 'b');
    await zookeeper.kill();
    await zookeeper.restart();
    await eventually('it is open', async () => (await show(pair.b, kept)).state === 'open', {
      withinMs: timing.processMs,
    });
    expect((await show(pair.a, broken)).state).toBe('open');
    expect(told(await vote(pair.b, kept, b, 'b')).state).toBe('committed');
    await expireSession(pair.b, a.leaseId);
    await eventually('it is decided', async () => (await show(pair.a, broken)).state !== 'open');
    expect(await show(pair.b, broken)).toMatchObject({ state: 'aborted', reason: 'participant-lost' });
  },
);

describe('a participant that is lost', () => {
  test('between the last vote and the commit, makes the commit fail (C29)', async () => {
    const root = freshRoot();
    await using cuttable = await startCuttable({ root });
    await using b = await startReplica({ root });
    const { replica: a, proxy } = cuttable;
    const [lost, last] = [await leaseFor(b), await leaseFor(b)];
    const id = await begin(a, ['a', 'b']);
    await vote(a, id, lost, 'a');
    await join(a, id, last, 'b');
    // The vote is written, all votes are looked at, and what follows from them is held back.
    proxy.delay('toZooKeeper', 1_000);
    const voting = vote(a, id, last, 'b');
    await eventually('both have voted', async () => (await childrenOf(b, id)) === 4);
    await passed(200);
    proxy.pause('fromZooKeeper');
    await eventually('the look is answered', () => proxy.heldBytes('fromZooKeeper') > A_PING_BYTES);
    proxy.delay('toZooKeeper', 0);
    proxy.pause('toZooKeeper');
    proxy.resume('fromZooKeeper');
    await eventually('the commit is sent', () => proxy.heldBytes('toZooKeeper') > A_PING_BYTES);
    await expireSession(b, lost.leaseId);
    expect(await isDecided(b, id)).toBe(false);
    proxy.heal();
    expect(told(await voting)).toMatchObject({ state: 'aborted', reason: 'participant-lost' });
    expect((await show(b, id)).votes.map(({ vote }) => vote)).toEqual([null, 'commit']);
  });

  test(
    'while the control session is being replaced, is noticed all the same',
    { timeout: scaled(90_000) },
    async () => {
      const root = freshRoot();
      await using cuttable = await startCuttable({ root });
      await using b = await startReplica({ root });
      const { replica: a, proxy } = cuttable;
      const lease = await leaseFor(b);
      const id = await begin(b, ['a', 'b']);
      await join(a, id, lease, 'a');
      const { control } = a.gateway.context;
      const before = control.sessionId;
      proxy.suspend();
      await expireSession(b, lease.leaseId);
      await eventually('the session of the replica has ended', () => control.sessionId !== before, {
        withinMs: scaled(40_000),
      });
      expect(await isDecided(b, id)).toBe(false);
      proxy.heal();
      proxy.cut();
      await eventually('it is decided', () => isDecided(b, id), { withinMs: scaled(30_000) });
      expect(await show(b, id)).toMatchObject({ state: 'aborted', reason: 'participant-lost', causedBy: ['a'] });
    },
  );

  test('and is back with another lease before anybody looked, has aborted it all the same (C29)', async () => {
    const root = freshRoot();
    await using doomed = await spawnReplica({ root });
    await using b = await startReplica({ root });
    const [a, other] = [await leaseFor(b), await leaseFor(b)];
    const id = await begin(doomed, ['a', 'b']);
    await vote(doomed, id, a, 'a');
    await doomed.kill();
    await expireSession(b, a.leaseId);
    expect(await isDecided(b, id)).toBe(false);
    expect(told(await join(b, id, other, 'a'))).toMatchObject({ state: 'aborted', reason: 'participant-lost' });
  });
});
