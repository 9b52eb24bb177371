/** What a transaction costs with 2 participants and with 200, and what is left of many. */
import { afterAll, describe, expect, test } from 'vitest';
import { HOUSEKEEPING_TIMING } from '../../../../src/recipes/housekeeping/housekeeping.js';
import { begin, join, leaseFor, told, vote } from '../client.js';
import { eventually } from '../../../support/eventually.js';
import { startPair, type Pair, type Replica } from '../../../support/start-gateway.js';
import { scaled } from '../../../support/timing.js';
import { countBelow } from '../../../support/zookeeper/instruments.js';

interface Cost {
  participants: number;
  zookeeperRequests: number;
  perParticipant: number;
  notifications: number;
  decidedMs: number;
}

const SIZES = [2, 10, 50, 200];
const costs: Cost[] = [];

describe('a transaction of which all participants join, vote and wait at two replicas', () => {
  test(
    'costs requests and notifications that grow with the participants, not with their square (C29)',
    { timeout: scaled(180_000) },
    async () => {
      await using pair = await startPair({ housekeeping: { ...HOUSEKEEPING_TIMING, everyMs: 3_600_000 } });
      // Whatever is made once is made now, and the replicas know the time.
      for (const replica of [pair.a, pair.b]) await cost(pair, 1, [replica]);
      for (const participants of SIZES) costs.push(await cost(pair, participants, [pair.a, pair.b]));
      const [, ten, fifty, twoHundred] = costs as [Cost, Cost, Cost, Cost];
      for (const what of ['zookeeperRequests', 'notifications'] as const) {
        const slope = (fifty[what] - ten[what]) / 40;
        const later = (twoHundred[what] - fifty[what]) / 150;
        expect(later, what).toBeLessThanOrEqual(slope * 1.2);
      }
      expect(twoHundred.perParticipant).toBeLessThan(16);
      expect(twoHundred.notifications).toBeLessThanOrEqual(2 * 200 + 2);
    },
  );

  afterAll(() => console.table(costs));
});

test('2 000 transactions leave nothing behind when their history is over', { timeout: scaled(180_000) }, async () => {
  const transactions = 2_000;
  await using pair = await startPair({
    settings: { POSTERN_TRANSACTION_HISTORY_MS: '500' },
    housekeeping: { ...HOUSEKEEPING_TIMING, everyMs: 100 },
  });
  const lease = await leaseFor(pair.a);
  const nodes = (): Promise<number> => {
    const { control, layout } = pair.a.gateway.context;
    return countBelow(control, layout.root);
  };
  const once = async (i: number): Promise<void> => {
    const [here, there] = i % 2 === 0 ? [pair.a, pair.b] : [pair.b, pair.a];
    const id = await begin(here, ['a', 'b'], i % 5 === 0 ? { deadlineMs: 100 } : {});
    await vote(there, id, lease, 'a');
    if (i % 5 !== 0) await vote(here, id, lease, 'b', { vote: i % 3 === 0 ? 'abort' : 'commit' });
  };
  const list = async (): Promise<unknown[]> =>
    ((await pair.b.expect(200, 'GET', '/v1/transactions?limit=1')) as { items: unknown[] }).items;
  await once(1);
  await eventually('the first is forgotten', async () => (await list()).length === 0);
  await pair.a.heartbeat(lease);
  const before = await nodes();
  let highest = 0;
  for (let i = 0; i < transactions; i += 20) {
    await Promise.all(Array.from({ length: 20 }, (_, j) => once(i + j)));
    if (i % 200 === 0) highest = Math.max(highest, await nodes());
  }
  await eventually('all are forgotten', async () => (await nodes()) <= before, { withinMs: scaled(60_000) });
  expect(await nodes()).toBe(before);
  console.log(
    `znodes before ${before}, at most ${highest} in between, after ${transactions} transactions ${await nodes()}`,
  );
});

/** What it takes from its beginning until everybody has been told. */
async function cost(pair: Pair, participants: number, replicas: readonly Replica[]): Promise<Cost> {
  const both = [pair.a, pair.b];
  const names = Array.from({ length: participants }, (_, i) => `p${i}`);
  const at = (i: number): Replica => replicas[i % replicas.length] as Replica;
  const leases = await Promise.all(names.map((_, i) => leaseFor(at(i), { ttlMs: 40_000 })));
  const [requests, notifications] = [await requestsOf(both), await notificationsOf(both)];
  const id = await begin(at(0), names);
  const roles = names.map((name, i) => ({ name, replica: at(i), lease: leases[i] as (typeof leases)[number] }));
  for (const { name, replica, lease } of roles) expect(told(await join(replica, id, lease, name)).state).toBe('open');
  const waiting: Promise<unknown>[] = [];
  for (const { name, replica, lease } of roles.slice(1)) {
    expect(told(await vote(replica, id, lease, name)).state).toBe('open');
    waiting.push(replica.call('GET', `/v1/transactions/${id}?waitMs=30000`).then((reply) => told(reply).state));
  }
  const [last] = roles as [(typeof roles)[number]];
  const votedAt = performance.now();
  const states = [told(await vote(last.replica, id, last.lease, last.name)).state, ...(await Promise.all(waiting))];
  const decidedMs = Math.round(performance.now() - votedAt);
  expect(new Set(states)).toEqual(new Set(['committed']));
  await eventually('nobody looks any more', () =>
    both.every(({ gateway }) => gateway.recipes.transaction.transactions.observers.size === 0),
  );
  const sent = (await requestsOf(both)) - requests;
  const received = (await notificationsOf(both)) - notifications;
  await Promise.all(leases.map((lease, i) => at(i).endLease(lease)));
  return {
    participants,
    zookeeperRequests: sent,
    perParticipant: Math.round((sent / participants) * 10) / 10,
    notifications: received,
    decidedMs,
  };
}

async function requestsOf(replicas: readonly Replica[]): Promise<number> {
  const name = 'postern_zookeeper_request_duration_seconds';
  const counts = await Promise.all(
    replicas.map(async ({ gateway }) => {
      const metric = await gateway.metrics.zookeeperRequestDurationSeconds.get();
      return metric.values
        .filter(({ metricName }) => metricName === `${name}_count`)
        .reduce((sum, { value }) => sum + value, 0);
    }),
  );
  return counts.reduce((a, b) => a + b, 0);
}

async function notificationsOf(replicas: readonly Replica[]): Promise<number> {
  const counts = await Promise.all(replicas.map((replica) => replica.metric('postern_watch_events_total')));
  return counts.reduce((a, b) => a + b, 0);
}
