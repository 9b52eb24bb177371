/** What a release of a permit costs, and that it does not grow with the crowd (C18). */
import { afterAll, describe, expect, test } from 'vitest';
import { ABANDONED_CHECK_MS } from '../../../../src/recipes/line/abandoned.js';
import { eventually } from '../../../support/eventually.js';
import { STANDING_WATCHES, startPair, type Pair } from '../../../support/start-gateway.js';
import { scaled } from '../../../support/timing.js';

interface Cost {
  waiters: number;
  mostHeld: number;
  wakeupsPerHandoff: number;
  spurious: number;
  listingsPerHandoff: number;
  notificationsPerReplicaAndRelease: number;
  requestsPerHandoff: number;
  /** Each replica looks once in a while whether somebody who is admitted is abandoned: no part of the hand-off. */
  looksMost: number;
  drainMs: number;
}

const LIMIT = 10;
const TTL_MS = 60_000;
const costs: Cost[] = [];

describe(`a semaphore of ${LIMIT} that is drained over two replicas`, () => {
  for (const waiters of [10, 100, 1_000]) {
    test(
      `is never held more than ${LIMIT} times, and wakes one waiter per release, with ${waiters} in line (C18)`,
      { timeout: scaled(120_000) },
      async () => {
        await using pair = await startPair();
        const cost = await drain(pair, waiters);
        costs.push(cost);
        expect(cost.mostHeld).toBe(LIMIT);
        expect(cost.wakeupsPerHandoff).toBe(1);
        expect(cost.spurious).toBe(0);
        expect(cost.listingsPerHandoff).toBe(0);
        expect(cost.notificationsPerReplicaAndRelease).toBeLessThanOrEqual(1);
        // The release, the grant, and at each replica a watch on whoever is admitted next; a watch may be taken back at
        // the end.
        expect(cost.requestsPerHandoff).toBeLessThanOrEqual(4 + (4 * LIMIT + cost.looksMost) / waiters);
      },
    );
  }

  afterAll(() => console.table(costs));
});

async function drain(pair: Pair, waiters: number): Promise<Cost> {
  const replicas = [pair.a, pair.b] as const;
  const total = async (name: string, labels?: Record<string, string>): Promise<number> =>
    (await pair.a.metric(name, labels)) + (await pair.b.metric(name, labels));
  const acquire = (i: number, leaseToken: string, waitMs: number): Promise<{ holdId: string }> =>
    (replicas[i % 2] as Pair['a']).expect(200, 'POST', '/v1/semaphores/crowd/acquire', {
      body: { limit: LIMIT, waitMs },
      leaseToken,
    }) as Promise<{ holdId: string }>;
  const release = (i: number, leaseToken: string, holdId: string): Promise<unknown> =>
    (replicas[i % 2] as Pair['a']).expect(204, 'POST', '/v1/semaphores/crowd/release', {
      body: { holdId },
      leaseToken,
    });
  const leases = await Promise.all(
    Array.from({ length: LIMIT + waiters }, (_, i) => (replicas[i % 2] as Pair['a']).createLease({ ttlMs: TTL_MS })),
  );
  const first = await Promise.all(
    leases.slice(0, LIMIT).map(async ({ leaseToken }, i) => ({ i, leaseToken, ...(await acquire(i, leaseToken, 0)) })),
  );
  let held = LIMIT;
  let mostHeld = held;
  const firstJoinsAt = performance.now();
  const turns = leases.slice(LIMIT).map(async ({ leaseToken }, i) => {
    const { holdId } = await acquire(i, leaseToken, 55_000);
    held += 1;
    mostHeld = Math.max(mostHeld, held);
    // Held for a while: a heartbeat, which is not counted below.
    await (replicas[i % 2] as Pair['a']).heartbeat({ leaseToken });
    // Until its answer is here a release may or may not have been done: it counts as done when it is sent.
    held -= 1;
    await release(i, leaseToken, holdId);
  });
  let last = -1;
  await eventually('everybody waits, both replicas watch all holders, and ZooKeeper has answered', async () => {
    const sent = await requests(pair);
    const quiet =
      sent === last &&
      (await total('postern_waiters', { kind: 'semaphore' })) === waiters &&
      (await total('postern_watches')) === 2 * (LIMIT + 1 + STANDING_WATCHES);
    last = sent;
    return quiet;
  });
  const names = [
    'postern_wakeups_total',
    'postern_handoffs_total',
    'postern_spurious_wakeups_total',
    'postern_line_listings_total',
  ] as const;
  const work = async (): Promise<number[]> =>
    Promise.all([
      ...names.map((name) => total(name, { kind: 'semaphore' })),
      requests(pair),
      total('postern_watch_events_total'),
    ]);
  const before = await work();
  const startedAt = performance.now();
  await Promise.all(
    first.map(({ i, leaseToken, holdId }) => {
      held -= 1;
      return release(i, leaseToken, holdId);
    }),
  );
  await Promise.all(turns);
  const drainMs = Math.round(performance.now() - startedAt);
  const after = await work();
  const [wakeups = 0, handoffs = 0, spurious = 0, listings = 0, sent = 0, notifications = 0] = after.map(
    (value, i) => value - (before[i] as number),
  );
  expect(handoffs).toBe(waiters);
  return {
    waiters,
    mostHeld,
    wakeupsPerHandoff: wakeups / handoffs,
    spurious,
    listingsPerHandoff: listings / handoffs,
    notificationsPerReplicaAndRelease: round(notifications / 2 / (handoffs + LIMIT)),
    requestsPerHandoff: round(sent / handoffs),
    looksMost: 2 * LIMIT * Math.floor((performance.now() - firstJoinsAt) / ABANDONED_CHECK_MS),
    drainMs,
  };
}

/** Requests to ZooKeeper, without heartbeats: a `sync`, and for those of clients a look for revocations. */
async function requests(pair: Pair): Promise<number> {
  const count = async (replica: Pair['a']): Promise<number> => {
    const metric = await replica.gateway.metrics.zookeeperRequestDurationSeconds.get();
    return metric.values
      .filter(
        ({ metricName, labels }) =>
          metricName?.endsWith('_count') === true && labels['op'] !== 'sync' && labels['op'] !== 'exists',
      )
      .reduce((sum, { value }) => sum + value, 0);
  };
  const looks = async (replica: Pair['a']): Promise<number> => replica.metric('postern_lease_heartbeats_total');
  return (await count(pair.a)) + (await count(pair.b)) - (await looks(pair.a)) - (await looks(pair.b));
}

function round(value: number): number {
  return Math.round(value * 100) / 100;
}
