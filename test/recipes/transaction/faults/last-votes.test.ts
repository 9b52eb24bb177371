/** The last votes of a transaction, and replicas that die before anybody has decided. */
import { describe, expect, test } from 'vitest';
import { HOUSEKEEPING_TIMING, type HousekeepingTiming } from '../../../../src/recipes/housekeeping/housekeeping.js';
import { OPCODE } from '../../../../src/zookeeper/operations.js';
import { abort, begin, join, leaseFor, show, told, vote, type Shown } from '../client.js';
import { eventually, throughout } from '../../../support/eventually.js';
import { expireSession, spawnReplica, startPair, startReplica, type Replica } from '../../../support/start-gateway.js';
import { freshRoot, sharedZooKeeper } from '../../../support/start-zookeeper.js';
import { startTcpProxy } from '../../../support/zookeeper/tcp-proxy.js';
import { scaled } from '../../../support/timing.js';
import { rounds, startCuttable } from '../../../support/scene.js';
import { isDecided, childrenOf, A_PING_BYTES } from '../decided.js';

const BUSY_HOUSEKEEPING: HousekeepingTiming = { ...HOUSEKEEPING_TIMING, everyMs: 50 };

describe('two last votes at once', () => {
  test('are decided by one of them, which ZooKeeper put last, and both are told the same (C29)', async () => {
    const root = freshRoot();
    await using one = await startCuttable({ root });
    await using two = await startCuttable({ root });
    for (let round = 0; round < rounds(5); round += 1) {
      const [a, b] = [await leaseFor(one.replica), await leaseFor(two.replica)];
      const id = await begin(one.replica, ['a', 'b']);
      await join(one.replica, id, a, 'a');
      await join(two.replica, id, b, 'b');
      // Neither is answered before the other has been written: ZooKeeper has both votes, and no replica knows.
      for (const { proxy } of [one, two]) proxy.delay('fromZooKeeper', 100);
      const votes = [vote(one.replica, id, a, 'a'), vote(two.replica, id, b, 'b')];
      const states = (await Promise.all(votes)).map((reply) => told(reply).state);
      for (const { proxy } of [one, two]) proxy.heal();
      expect(states).toContain('committed');
      expect(await isDecided(one.replica, id)).toBe(true);
      for (const { replica } of [one, two]) expect((await show(replica, id)).state).toBe('committed');
    }
  });

  test('of many participants at both replicas leave nothing undecided', async () => {
    await using pair = await startPair();
    const names = Array.from({ length: 20 }, (_, i) => `p${i}`);
    const leases = await Promise.all(names.map(() => leaseFor(pair.a)));
    for (let round = 0; round < rounds(5); round += 1) {
      const id = await begin(pair.a, names);
      const replies = await Promise.all(
        names.map((name, i) => vote(i % 2 === 0 ? pair.a : pair.b, id, leases[i]!, name)),
      );
      expect(replies.map((reply) => told(reply).state)).toContain('committed');
      expect(await isDecided(pair.b, id)).toBe(true);
    }
  });
});

test('a vote that is on its way when the decision falls is not counted, leaves nothing, and is told (C29)', async () => {
  const root = freshRoot();
  await using cuttable = await startCuttable({ root });
  await using b = await startReplica({ root });
  const { replica: a, proxy } = cuttable;
  const lease = await leaseFor(b);
  for (const which of ['commit', 'abort']) {
    const id = await begin(b, ['a', 'b']);
    expect((await a.heartbeat(lease)).status).toBe(200);
    // It has read that all is open, and what it sends then is held back until the transaction is aborted.
    proxy.pause('fromZooKeeper');
    const voting = vote(a, id, lease, 'a', { vote: which });
    await eventually('it is answered', () => proxy.heldBytes('fromZooKeeper') > 0);
    proxy.pause('toZooKeeper');
    proxy.resume('fromZooKeeper');
    await eventually('it goes on', () => proxy.heldBytes('toZooKeeper') > A_PING_BYTES);
    expect(told(await abort(b, id))).toMatchObject({ state: 'aborted', reason: 'requested' });
    proxy.heal();
    expect(told(await voting)).toMatchObject({ state: 'aborted', reason: 'requested' });
    expect(await childrenOf(b, id)).toBe(0);
    expect((await show(b, id)).votes[0]).toEqual({ participant: 'a', vote: null });
  }
});

describe('a replica that dies between the last vote and the decision', () => {
  /** The vote is written, and the replica is killed before it has read the answer. */
  async function votedAndDied(bystander: Replica, root: string): Promise<{ id: string; b: { leaseToken: string } }> {
    await using proxy = await startTcpProxy({ port: Number(sharedZooKeeper().split(':')[1]) });
    await using doomed = await spawnReplica({ root, zookeeper: proxy.connectString });
    const [a, b] = [await leaseFor(bystander), await leaseFor(bystander)];
    const id = await begin(doomed, ['a', 'b']);
    await vote(bystander, id, a, 'a');
    await join(doomed, id, b, 'b');
    const cut = proxy.loseReply(OPCODE.multi);
    const voting = vote(doomed, id, b, 'b').catch(() => 'cut off');
    await cut;
    await doomed.kill();
    expect(await voting).toBe('cut off');
    expect(await childrenOf(bystander, id)).toBe(4);
    expect(await isDecided(bystander, id)).toBe(false);
    return { id, b };
  }

  test(
    'leaves one that whoever asks next decides: a GET, or the repeated vote',
    { timeout: scaled(90_000) },
    async () => {
      const root = freshRoot();
      await using b = await startReplica({ root });
      const first = await votedAndDied(b, root);
      expect((await show(b, first.id)).state).toBe('committed');
      const second = await votedAndDied(b, root);
      expect(told(await vote(b, second.id, second.b, 'b')).state).toBe('committed');
      const third = await votedAndDied(b, root);
      const { items } = (await b.expect(200, 'GET', '/v1/transactions')) as { items: Shown[] };
      expect(items.find(({ transactionId }) => transactionId === third.id)?.state).toBe('committed');
    },
  );

  test('leaves one that housekeeping decides although nobody asks', { timeout: scaled(60_000) }, async () => {
    const root = freshRoot();
    await using b = await startReplica({ root });
    const { id } = await votedAndDied(b, root);
    await using keeper = await startReplica({ root, housekeeping: BUSY_HOUSEKEEPING });
    await eventually('it is decided', () => isDecided(keeper, id));
    expect((await show(b, id)).state).toBe('committed');
  });
});

test(
  'a transaction whose replicas have all died is decided by housekeeping: for its deadline, or a participant that was lost',
  { timeout: scaled(60_000) },
  async () => {
    const root = freshRoot();
    await using doomed = await spawnReplica({ root });
    const [a, b] = [await leaseFor(doomed), await leaseFor(doomed)];
    const late = await begin(doomed, ['a', 'b'], { deadlineMs: 100 });
    const lost = await begin(doomed, ['a', 'b']);
    const open = await begin(doomed, ['a', 'b']);
    await join(doomed, lost, a, 'a');
    await join(doomed, open, b, 'b');
    await doomed.kill();
    await using keeper = await startReplica({ root, housekeeping: BUSY_HOUSEKEEPING });
    await expireSession(keeper, a.leaseId);
    await eventually('both are decided', async () => (await isDecided(keeper, late)) && isDecided(keeper, lost), {
      withinMs: scaled(25_000), // the replica that died may have been the housekeeper until its session ends
    });
    expect(await show(keeper, late)).toMatchObject({ state: 'aborted', reason: 'deadline' });
    // No replica that lives has seen who it was.
    expect(await show(keeper, lost)).toMatchObject({
      state: 'aborted',
      reason: 'participant-lost',
      causedBy: ['a', 'b'],
    });
    await throughout('the other one stays open', async () => !(await isDecided(keeper, open)));
    await abort(keeper, open);
  },
);
