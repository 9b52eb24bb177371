/** What a lease's own event stream says of its candidacies, and what becomes of them when replicas go. */
import { describe, expect, test } from 'vitest';
import { eventually, throughout } from '../../../support/eventually.js';
import { EventReader } from '../../../support/http/event-stream.js';
import { startPair } from '../../../support/start-gateway.js';
import { timing } from '../../../support/timing.js';
import { campaign, electionOf, leaseFor, speak } from '../client.js';

const EVENTS = '/v1/leases/self/events';

describe('a candidate for whom no request waits', () => {
  test('is told by the event stream of its lease that it leads, as soon as it does', async () => {
    await using pair = await startPair();
    // Looking every third of its TTL would tell it much later than this test waits.
    const [one, two] = await Promise.all([leaseFor(pair.a), leaseFor(pair.a)]);
    await campaign(pair.a, 'boss', one);
    const kept = (await campaign(pair.b, 'boss', two)).body as { candidateId: string };
    await using events = await EventReader.open(pair.b.url, EVENTS, { leaseToken: two.leaseToken });
    expect((await events.next()).data).toMatchObject({ holds: [{ kind: 'election', name: 'boss', held: false }] });
    await eventually('the election is observed', () => pair.b.gateway.recipes.line.observers.size === 1);
    const startedAt = performance.now();
    await speak(pair.a, 'boss', 'resign', one);
    const told = await events.next();
    expect(performance.now() - startedAt).toBeLessThan(timing.eventuallyMs / 2);
    expect(told).toMatchObject({
      event: 'granted',
      data: { kind: 'election', name: 'boss', held: true, holdId: kept.candidateId },
    });
    await eventually('it is not observed any more', () => pair.b.gateway.recipes.line.observers.size === 0);
    await speak(pair.a, 'boss', 'acknowledge', two);
    await throughout('it is told once', () => events.pending.length === 0);
  });

  test('is not told, nor asks ZooKeeper anything, when somebody before it becomes the leader', async () => {
    await using pair = await startPair();
    const [one, two, three] = await Promise.all([leaseFor(pair.a), leaseFor(pair.a), leaseFor(pair.a)]);
    await campaign(pair.a, 'boss', one);
    await campaign(pair.a, 'boss', two);
    await campaign(pair.a, 'boss', three);
    await using events = await EventReader.open(pair.b.url, EVENTS, { leaseToken: three.leaseToken });
    await events.next();
    await eventually('the election is observed', () => pair.b.gateway.recipes.line.observers.size === 1);
    const looks = async (): Promise<number> => {
      const { values } = await pair.b.gateway.metrics.zookeeperRequestDurationSeconds.get();
      return values
        .filter(({ metricName, labels }) => metricName?.endsWith('_count') && labels['op'] === 'getEphemerals')
        .reduce((sum, { value }) => sum + value, 0);
    };
    const before = await looks();
    expect(before).toBeGreaterThan(0);
    await using witness = await EventReader.open(pair.b.url, '/v1/elections/boss/events');
    await witness.next();
    await speak(pair.a, 'boss', 'resign', one);
    expect((await witness.next()).data).toMatchObject({ leader: { leaseId: two.leaseId } });
    await throughout('nothing is told', () => events.pending.length === 0);
    expect(await looks()).toBe(before);
  });
});

describe('a replica that drains', () => {
  test('answers a waiting campaign with its candidateId, and the candidate leads all the same', async () => {
    await using pair = await startPair();
    const [one, two] = await Promise.all([leaseFor(pair.a), leaseFor(pair.a)]);
    await campaign(pair.a, 'boss', one);
    const waiting = campaign(pair.b, 'boss', two, { waitMs: 20_000 });
    await eventually('it stands', async () => (await electionOf(pair.a, 'boss')).candidateCount === 2);
    const stopped = pair.b.gateway.stop();
    const answered = await waiting;
    expect(answered.status).toBe(202);
    await stopped;
    await speak(pair.a, 'boss', 'resign', one);
    const { candidateId } = answered.body as { candidateId: string };
    expect((await electionOf(pair.a, 'boss')).leader).toMatchObject({ candidateId });
    expect((await campaign(pair.a, 'boss', two)).body).toMatchObject({ elected: true, candidateId });
  });
});

describe('a client that goes away while it campaigns', () => {
  test('stays in line with its lease, or leaves when it did not want to be kept', async () => {
    await using pair = await startPair();
    const [one, two] = await Promise.all([leaseFor(pair.a), leaseFor(pair.a)]);
    await campaign(pair.a, 'boss', one);
    for (const [keepPlace, left] of [
      [true, 2],
      [false, 1],
    ] as const) {
      const gone = new AbortController();
      const waiting = pair.b
        .call('POST', '/v1/elections/boss/campaign', {
          body: { waitMs: 20_000, keepPlace },
          leaseToken: two.leaseToken,
          signal: gone.signal,
        })
        .catch(() => undefined);
      await eventually('it waits', async () => (await pair.b.metric('postern_waiters', { kind: 'election' })) === 1);
      gone.abort();
      await waiting;
      await eventually(
        'the wait is over',
        async () => (await pair.b.metric('postern_waiters', { kind: 'election' })) === 0,
      );
      await eventually(`${left} stand`, async () => (await electionOf(pair.a, 'boss')).candidateCount === left);
      await throughout(`${left} stand`, async () => (await electionOf(pair.a, 'boss')).candidateCount === left);
    }
  });
});
