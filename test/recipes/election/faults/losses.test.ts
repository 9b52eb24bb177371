/** Elections, where clients fall silent, answers are lost and replicas go. */
import { expect, test } from 'vitest';
import { campaign as campaignDirectly } from '../../../../src/recipes/election/election.js';
import { OPCODE } from '../../../../src/zookeeper/operations.js';
import { campaign, electionOf, leaseFor, speak } from '../client.js';
import { eventually, passed, throughout } from '../../../support/eventually.js';
import { EventReader } from '../../../support/http/event-stream.js';
import {
  spawnReplica,
  STANDING_WATCHES,
  startPair,
  startReplica,
  type Replica,
} from '../../../support/start-gateway.js';
import { freshRoot } from '../../../support/start-zookeeper.js';
import { scaled } from '../../../support/timing.js';
import { leaseBehind, PRESENT, rounds, seededRandom, soon, startCuttable } from '../../../support/scene.js';

const CANDIDATES = 6;
const TURNS = rounds(40);
const SHORT_TTL_MS = 1_000;

test(
  'no acknowledgement of a former leader is taken once a later one has been, however leaders end',
  { timeout: scaled(90_000) + TURNS * 1_000 },
  async () => {
    await using pair = await startPair();
    const random = seededRandom('elections');
    let turns = 0;
    /** The highest token whose acknowledgement has been answered. */
    let highest = 0;
    let late = 0;

    const acknowledge = async (replica: Replica, lease: { leaseToken: string }, token: number): Promise<boolean> => {
      const before = highest;
      const { status, body } = await speak(replica, 'boss', 'acknowledge', lease);
      if (status !== 200) return false;
      expect(body).toMatchObject({ fencingToken: token });
      expect(token).toBeGreaterThanOrEqual(before);
      highest = Math.max(highest, token);
      return true;
    };

    const candidate = async (): Promise<void> => {
      while (turns < TURNS) {
        const [here, there] = random() < 0.5 ? [pair.a, pair.b] : [pair.b, pair.a];
        const lease = await leaseFor(here, { ttlMs: SHORT_TTL_MS });
        const elected = await campaign(random() < 0.5 ? here : there, 'boss', lease, { waitMs: 55_000 });
        if (elected.status === 410) continue; // nothing kept it alive on a machine that stood still
        if (elected.status !== 200) throw new Error(`${elected.status}: ${JSON.stringify(elected.body)}`);
        turns += 1;
        const { fencingToken } = elected.body as { fencingToken: number };
        await acknowledge(here, lease, fencingToken);
        const how = random();
        if (how < 0.4) await speak(there, 'boss', 'resign', lease);
        else if (how < 0.7) await there.endLease(lease);
        else await passed(SHORT_TTL_MS * (0.7 + random())); // silence, as of a paused client
        if (!(await acknowledge(there, lease, fencingToken))) late += 1;
        await there.endLease(lease);
      }
    };
    await Promise.all(Array.from({ length: CANDIDATES }, candidate));
    expect(late).toBeGreaterThan(TURNS / 2);
    expect(await electionOf(pair.a, 'boss')).toMatchObject({ leader: null, candidateCount: 0 });
  },
);

test('a campaign that was won but could not be answered leaves a leader, which the repeat finds', async () => {
  await using pair = await startPair();
  const lease = await leaseFor(pair.a);
  const now = performance.now();
  const won = await campaignDirectly(pair.a.gateway.context, await leaseBehind(pair.a, lease), {
    name: 'boss',
    requestId: '',
    waitMs: 0,
    keepPlace: true,
    preference: 0,
    data: 'mine',
    receivedAt: now,
    hardDeadline: soon(),
    requester: PRESENT,
  });
  if (!won.held) throw new Error('nobody else stands');
  won.undelivered();
  await throughout('it leads', async () => (await electionOf(pair.b, 'boss')).leader !== null);
  expect((await campaign(pair.b, 'boss', lease)).body).toMatchObject({
    elected: true,
    alreadyElected: true,
    candidateId: won.holdId,
  });
});

test(
  'a replica that is killed while a campaign waits takes no candidacy with it',
  { timeout: scaled(60_000) },
  async () => {
    const root = freshRoot();
    await using doomed = await spawnReplica({ root });
    await using b = await startReplica({ root });
    const [one, two] = await Promise.all([leaseFor(b), leaseFor(b)]);
    await campaign(b, 'boss', one);
    const waiting = campaign(doomed, 'boss', two, { waitMs: 50_000 }).catch(() => 'cut off');
    await eventually('it stands', async () => (await electionOf(b, 'boss')).candidateCount === 2);
    await doomed.kill();
    expect(await waiting).toBe('cut off');
    await speak(b, 'boss', 'resign', one);
    const { leader } = await electionOf(b, 'boss');
    expect(leader).toMatchObject({ leaseId: two.leaseId, acknowledged: false });
    expect((await campaign(b, 'boss', two)).body).toMatchObject({
      elected: true,
      candidateId: leader?.['candidateId'],
    });
  },
);

test('what a leader says is written although the connection is cut in place of the request, or of the reply', async () => {
  const root = freshRoot();
  await using cuttable = await startCuttable({ root });
  await using b = await startReplica({ root });
  const { replica: a, proxy } = cuttable;
  const lease = await leaseFor(b);
  const { candidateId } = (await campaign(b, 'boss', lease, { value: 0 })).body as { candidateId: string };
  for (const [value, lose] of [
    [1, () => proxy.loseRequest(OPCODE.setData)],
    [2, () => proxy.loseReply(OPCODE.setData)],
  ] as const) {
    const lost = lose();
    const proclaimed = await speak(a, 'boss', 'proclaim', lease, { value });
    await lost;
    expect(proclaimed.status).toBe(200);
    expect((await electionOf(b, 'boss')).leader).toMatchObject({ candidateId, value });
  }
  const lost = proxy.loseReply(OPCODE.setData);
  expect((await speak(a, 'boss', 'acknowledge', lease)).status).toBe(200);
  await lost;
  expect((await electionOf(b, 'boss')).leader).toMatchObject({ value: 2, acknowledged: true });
});

test('a new leader whose grant comes late is told to observers at once, and by one notification', async () => {
  const root = freshRoot();
  await using slow = await startCuttable({ root });
  await using a = await startReplica({ root });
  const [one, two] = await Promise.all([leaseFor(a), leaseFor(a)]);
  await campaign(a, 'boss', one);
  await using events = await EventReader.open(a.url, '/v1/elections/boss/events');
  await events.next();
  const waiting = campaign(slow.replica, 'boss', two, { waitMs: 20_000 });
  await eventually('it waits', async () => (await slow.replica.metric('postern_waiters', { kind: 'election' })) === 1);
  await eventually('it watches', async () => (await slow.replica.metric('postern_watches')) === STANDING_WATCHES + 1);
  const before = await a.metric('postern_watch_events_total');
  slow.proxy.delay('toZooKeeper', 60);
  await speak(a, 'boss', 'resign', one);
  expect((await events.next()).data).toMatchObject({ leader: { leaseId: two.leaseId } });
  expect((await waiting).status).toBe(200);
  slow.proxy.delay('toZooKeeper', 0);
  await eventually(
    'the new leader is watched',
    async () => (await a.metric('postern_watches')) === STANDING_WATCHES + 1,
  );
  await throughout('nothing else is told', () => events.pending.length === 0);
  expect((await a.metric('postern_watch_events_total')) - before).toBe(1);
});
