/**
 * Groups under faults: answers that are lost, replicas that are killed, crowds that watch, and what is left of it all.
 */
import { expect, test } from 'vitest';
import { OPCODE } from '../../../../src/zookeeper/operations.js';
import { groupOf, join, leaseFor, leave, namesIn, sharesOf } from '../client.js';
import { eventually } from '../../../support/eventually.js';
import { EventReader } from '../../../support/http/event-stream.js';
import {
  spawnReplica,
  startPair,
  startReplica,
  STANDING_WATCHES,
  type Replica,
} from '../../../support/start-gateway.js';
import { freshRoot } from '../../../support/start-zookeeper.js';
import { scaled } from '../../../support/timing.js';
import { startCuttable } from '../../../support/scene.js';
import { countBelow } from '../../../support/zookeeper/instruments.js';

test('a join whose reply from ZooKeeper is lost is found by its own retry, and is one membership', async () => {
  const root = freshRoot();
  await using cuttable = await startCuttable({ root });
  await using other = await startReplica({ root });
  const lease = await leaseFor(cuttable.replica);
  await join(cuttable.replica, 'team', 'first', lease);
  const lost = cuttable.proxy.loseReply(OPCODE.multi);
  const joined = await join(cuttable.replica, 'team', 'w1', lease, { value: 1 });
  await lost;
  expect(joined.status).toBe(201);
  const { memberId } = joined.body as { memberId: string };
  expect((await groupOf(other, 'team')).members).toMatchObject([
    { member: 'first' },
    { member: 'w1', memberId, value: 1 },
  ]);
});

test('a value and a leave whose replies from ZooKeeper are lost are done once', async () => {
  const root = freshRoot();
  await using cuttable = await startCuttable({ root });
  await using other = await startReplica({ root });
  const lease = await leaseFor(cuttable.replica);
  await join(cuttable.replica, 'team', 'w1', lease, { value: 1 });
  const written = cuttable.proxy.loseReply(OPCODE.setData);
  expect((await join(cuttable.replica, 'team', 'w1', lease, { value: 2 })).body).toMatchObject({ value: 2 });
  await written;
  expect((await groupOf(other, 'team')).members).toMatchObject([{ member: 'w1', value: 2 }]);
  const left = cuttable.proxy.loseReply(OPCODE.delete);
  expect((await leave(cuttable.replica, 'team', 'w1', lease)).status).toBe(204);
  await left;
  expect(await namesIn(other, 'team')).toEqual([]);
});

test('a leave whose reply from ZooKeeper is lost is done, also when somebody else takes the name at once', async () => {
  const root = freshRoot();
  await using cuttable = await startCuttable({ root });
  await using other = await startReplica({ root });
  const [lease, next] = [await leaseFor(cuttable.replica), await leaseFor(other)];
  await join(cuttable.replica, 'team', 'w1', lease);
  const left = cuttable.proxy.loseReply(OPCODE.delete);
  const leaving = leave(cuttable.replica, 'team', 'w1', lease);
  await left;
  cuttable.proxy.refuse(); // it does not come back before the name has been taken
  expect((await join(other, 'team', 'w1', next)).status).toBe(201);
  cuttable.proxy.accept();
  expect((await leaving).status).toBe(204);
  expect((await groupOf(other, 'team')).members).toMatchObject([{ member: 'w1', leaseId: next.leaseId }]);
});

test(
  'a replica that is cut off from ZooKeeper tells what it missed as soon as it is back',
  async () => {
    const root = freshRoot();
    await using cuttable = await startCuttable({ root });
    await using other = await startReplica({ root });
    const lease = await leaseFor(other);
    await join(other, 'team', 'w1', lease);
    await using events = await EventReader.open(cuttable.replica.url, '/v1/groups/team/events');
    expect(await events.next()).toMatchObject({ data: { memberCount: 1 } });
    cuttable.proxy.suspend();
    await join(other, 'team', 'w2', lease);
    await leave(other, 'team', 'w1', lease);
    cuttable.proxy.heal();
    await eventually(
      'the stream is up to date',
      async () => {
        const shown = await groupOf(other, 'team');
        return JSON.stringify(events.seen.at(-1)?.data) === JSON.stringify(shown) && shown.memberCount === 1;
      },
      { withinMs: scaled(25_000) },
    );
  },
  scaled(60_000),
);

test('a replica that is killed takes no member with it, and who waited there goes on at another', async () => {
  const root = freshRoot();
  await using doomed = await spawnReplica({ root });
  await using other = await startReplica({ root });
  const [one, two] = await Promise.all([leaseFor(other), leaseFor(other)]);
  await join(doomed, 'team', 'w1', one, { value: 'kept' });
  const before = await sharesOf(doomed, 'team', 6);
  const { headers } = await doomed.call('GET', '/v1/groups/team');
  const wait = { headers: { 'if-none-match': String(headers['etag']) } };
  const polling = doomed.call('GET', '/v1/groups/team?waitMs=30000', wait).catch(() => 'cut off');
  await doomed.kill();
  expect(await polling).toBe('cut off');
  expect((await groupOf(other, 'team')).members).toMatchObject([{ member: 'w1', value: 'kept' }]);
  expect(await sharesOf(other, 'team', 6)).toEqual(before);
  const repeated = other.call('GET', '/v1/groups/team?waitMs=30000', wait);
  await eventually('the group is observed', () => other.gateway.observed() === 1);
  await join(other, 'team', 'w2', two);
  expect((await repeated).body).toMatchObject({ memberCount: 2 });
});

test(
  'a thousand who watch one group over two replicas cost one notification and one read per replica and change (C18)',
  async () => {
    await using pair = await startPair();
    const lease = await leaseFor(pair.a);
    await Promise.all(Array.from({ length: 150 }, (_, i) => join(pair.a, 'team', `w${i}`, lease)));
    const { headers } = await pair.a.call('GET', '/v1/groups/team');
    const wait = { headers: { 'if-none-match': String(headers['etag']) } };
    const replicas = [pair.a, pair.b];
    const polls = replicas.flatMap((replica) =>
      Array.from({ length: 500 }, () => replica.call('GET', '/v1/groups/team?waitMs=50000', wait)),
    );
    for (const replica of replicas)
      await eventually('everybody waits, at one watch', async () => {
        const inFlight = await replica.metric('postern_http_requests_in_flight');
        return inFlight === 500 && (await replica.metric('postern_watches')) === STANDING_WATCHES + 1;
      });
    // A stream stays when the polls are answered, so that what it is told is counted too.
    await using events = await EventReader.open(pair.a.url, '/v1/groups/team/events');
    await events.next();
    const [notified, read] = [await counts(replicas, notifications), await counts(replicas, readsOfMembers)];
    await join(pair.b, 'team', 'w7', lease, { value: 'changed' });
    for (const poll of polls) expect((await poll).status).toBe(200);
    await events.next();
    expect(await counts(replicas, notifications, notified)).toEqual([1, 1]);
    // One for the observer. The answers share two at most: one that was begun before the change, and one after it; 151
    // members are two batches each.
    for (const count of await counts(replicas, readsOfMembers, read)) expect(count).toBeLessThanOrEqual(1 + 2 * 2);
  },
  scaled(120_000),
);

test(
  'ten thousand memberships and divisions leave nothing behind',
  async () => {
    await using pair = await startPair({ housekeeping: { everyMs: 100, idleMs: 300 } });
    const lease = await leaseFor(pair.a, { ttlMs: 40_000 });
    const { control, layout } = pair.a.gateway.context;
    const before = await countBelow(control, layout.root);
    // Forty at once: what is too much for a replica is another test's.
    for (let batch = 0; batch < 250; batch += 1) {
      await Promise.all(
        Array.from({ length: 40 }, async (_, i) => {
          const group = `g-${batch}-${i % 8}`;
          const replica = i % 2 === 0 ? pair.a : pair.b;
          expect(await join(replica, group, `w${i}`, lease)).toMatchObject({ status: 201 });
          if (i % 10 === 0) await sharesOf(replica, group, 8);
          expect(await leave(pair.a, group, `w${i}`, lease)).toMatchObject({ status: 204 });
        }),
      );
      await pair.a.heartbeat(lease);
    }
    const at = await countBelow(control, layout.root);
    await eventually(
      'it is all tidied up',
      async () => {
        await control.sync(layout.root);
        // The directories of all groups and of all shares stay.
        return (await countBelow(control, layout.root)) <= before + 2;
      },
      { withinMs: scaled(60_000) },
    );
    console.log(
      `znodes: ${before} before, ${at} right after 10 000 uses, ${await countBelow(control, layout.root)} in the end`,
    );
  },
  scaled(240_000),
);

function notifications(replica: Replica): Promise<number> {
  return replica.metric('postern_watch_events_total');
}

async function readsOfMembers(replica: Replica): Promise<number> {
  const { values } = await replica.gateway.metrics.zookeeperRequestDurationSeconds.get();
  return values
    .filter(({ metricName, labels }) => metricName?.endsWith('_count') && labels['op'] === 'multiRead')
    .reduce((sum, { value }) => sum + value, 0);
}

async function counts(
  replicas: readonly Replica[],
  count: (replica: Replica) => Promise<number>,
  since: readonly number[] = [],
): Promise<number[]> {
  return (await Promise.all(replicas.map(count))).map((now, i) => now - (since[i] ?? 0));
}
