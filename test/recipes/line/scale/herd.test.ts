/** What a hand-off costs, and that it does not grow with the crowd. */
import { afterAll, describe, expect, test } from 'vitest';
import { ABANDONED_CHECK_MS } from '../../../../src/recipes/line/abandoned.js';
import { eventually } from '../../../support/eventually.js';
import { startPair, type Pair } from '../../../support/start-gateway.js';
import { scaled } from '../../../support/timing.js';

interface Cost {
  waiters: number;
  wakeupsPerHandoff: number;
  spurious: number;
  listingsPerHandoff: number;
  requestsPerHandoff: number;
  /**
   * Each looks now and then whether its predecessor is abandoned: no part of the hand-off, and none there on a
   * quick machine.
   */
  looksPerWaiter: number;
  drainMs: number;
}

const costs: Cost[] = [];
const TTL_MS = 60_000;
/** A busy machine may be silent for a moment. */
const QUIET_LOOKS = 5;

describe('a line that is drained over two replicas', () => {
  for (const waiters of [10, 100, 1_000]) {
    test(
      `wakes one waiter per hand-off and lists nothing, with ${waiters} in line`,
      { timeout: scaled(120_000) },
      async () => {
        await using pair = await startPair();
        const cost = await drain(pair, waiters);
        costs.push(cost);
        expect(cost.wakeupsPerHandoff).toBeLessThanOrEqual(1.01);
        expect(cost.spurious).toBe(0);
        expect(cost.listingsPerHandoff).toBe(0);
        // The first and the last hold add a request or two of their own.
        expect(cost.requestsPerHandoff).toBeLessThanOrEqual(2.1 + cost.looksPerWaiter + 3 / waiters);
      },
    );
  }

  afterAll(() => console.table(costs));
});

async function drain(pair: Pair, waiters: number): Promise<Cost> {
  const replicas = [pair.a, pair.b];
  const total = async (name: string, labels?: Record<string, string>): Promise<number> =>
    (await pair.a.metric(name, labels)) + (await pair.b.metric(name, labels));
  const first = await pair.a.createLease({ ttlMs: TTL_MS });
  const { holdId } = await pair.a.hold('crowd', first);
  const tokens: number[] = [];
  let holders = 0;
  const leases = await Promise.all(
    Array.from({ length: waiters }, (_, i) => (replicas[i % 2] as Pair['a']).createLease({ ttlMs: TTL_MS })),
  );
  const firstJoinsAt = performance.now();
  const turns = leases.map(async (lease, i) => {
    const replica = replicas[i % 2] as Pair['a'];
    const granted = await replica.hold('crowd', lease, { waitMs: 55_000 });
    holders += 1;
    expect(holders).toBe(1);
    tokens.push(granted.fencingToken);
    holders -= 1;
    expect((await replica.release('crowd', lease, { holdId: granted.holdId })).status).toBe(204);
  });
  let [last, quietFor] = [-1, 0];
  await eventually('everybody stands in line, and ZooKeeper has answered all of them', async () => {
    // A server answers in order: what was asked before this is answered. A server that pauses looks quiet, too.
    await Promise.all(replicas.map(({ gateway: { context } }) => context.control.exists(context.layout.root)));
    const sent = await requests(pair);
    const quiet = sent === last && (await total('postern_waiters', { kind: 'lock' })) === waiters;
    [last, quietFor] = [sent, quiet ? quietFor + 1 : 0];
    return quietFor >= QUIET_LOOKS;
  });
  const names = [
    'postern_wakeups_total',
    'postern_handoffs_total',
    'postern_spurious_wakeups_total',
    'postern_line_listings_total',
  ] as const;
  const lockWork = async (): Promise<number[]> =>
    Promise.all([...names.map((name) => total(name, { kind: 'lock' })), requests(pair)]);
  const before = await lockWork();
  const startedAt = performance.now();
  await pair.a.release('crowd', first, { holdId });
  await Promise.all(turns);
  const drainMs = Math.round(performance.now() - startedAt);
  const after = await lockWork();
  const [wakeups = 0, handoffs = 0, spurious = 0, listings = 0, sent = 0] = after.map(
    (value, i) => value - (before[i] as number),
  );
  expect(handoffs).toBe(waiters);
  expect(tokens).toEqual([...tokens].sort((a, b) => a - b));
  return {
    waiters,
    wakeupsPerHandoff: wakeups / handoffs,
    spurious,
    listingsPerHandoff: listings / handoffs,
    requestsPerHandoff: round(sent / handoffs),
    looksPerWaiter: Math.floor((performance.now() - firstJoinsAt) / ABANDONED_CHECK_MS),
    drainMs,
  };
}

/** Requests to ZooKeeper, without the heartbeats of those who wait. */
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
  return (await count(pair.a)) + (await count(pair.b));
}

function round(value: number): number {
  return Math.round(value * 100) / 100;
}
