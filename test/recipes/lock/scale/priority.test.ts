/** What a turn at a lock by priority costs, and that it does not grow with the crowd. */
import { expect, test } from 'vitest';
import { startPair, type Pair } from '../../../support/start-gateway.js';
import { eventually } from '../../../support/eventually.js';
import { scaled } from '../../../support/timing.js';

const TTL_MS = 60_000;
const WAITERS = 100;
/** The release, what the other replica's watch has it list, and the turn with its grant. */
const REQUESTS_MAX = 30;

test(
  `wakes one request per hand-over, and neither notifications nor reads grow with ${WAITERS} waiting`,
  async () => {
    await using pair = await startPair();
    const replicas = [pair.a, pair.b];
    const first = await pair.a.createLease({ ttlMs: TTL_MS });
    const { holdId } = await pair.a.hold('crowd', first, { priority: 0 });
    const leases = await Promise.all(
      Array.from({ length: WAITERS }, (_, i) => replicas[i % 2]!.createLease({ ttlMs: TTL_MS })),
    );
    let holders = 0;
    const priorities: number[] = [];
    const turns = leases.map(async (lease, i) => {
      const [replica, priority] = [replicas[i % 2]!, i % 11];
      const granted = await replica.hold('crowd', lease, { waitMs: 55_000, priority });
      holders += 1;
      expect(holders).toBe(1);
      priorities.push(priority);
      holders -= 1;
      expect((await replica.release('crowd', lease, { holdId: granted.holdId })).status).toBe(204);
    });
    const total = async (name: string, labels = {}): Promise<number> =>
      (await pair.a.metric(name, labels)) + (await pair.b.metric(name, labels));
    await eventually(
      'all wait, with one watch in each replica',
      async () => (await total('postern_waiters', { kind: 'lock' })) === WAITERS && watches(pair).every((n) => n === 1),
    );
    const work = async (): Promise<number[]> => [
      await total('postern_wakeups_total', { kind: 'lock' }),
      await total('postern_watch_events_total', {}),
      await requests(pair),
    ];
    const before = await work();
    await pair.a.release('crowd', first, { holdId });
    await Promise.all(turns);
    const [wakeups, events, sent] = (await work()).map((value, i) => (value - before[i]!) / WAITERS);
    expect(priorities).toEqual(priorities.toSorted((x, y) => y - x));
    expect(wakeups).toBeLessThanOrEqual(1.1);
    expect(events).toBeLessThanOrEqual(3);
    expect(sent).toBeLessThanOrEqual(REQUESTS_MAX);
    expect(await pair.a.showLock('crowd')).toMatchObject({ holders: [], waiterCount: 0 });
  },
  scaled(90_000),
);

/** In each replica, without those that it always has. */
function watches({ a, b }: Pair): number[] {
  return [a, b].map(({ gateway, standingWatches }) => gateway.context.control.watches.size - standingWatches);
}

/** Requests to ZooKeeper, without the heartbeats of those who wait. */
async function requests({ a, b }: Pair): Promise<number> {
  let sum = 0;
  for (const { gateway } of [a, b]) {
    const { values } = await gateway.metrics.zookeeperRequestDurationSeconds.get();
    for (const { metricName, labels, value } of values)
      if (metricName?.endsWith('_count') === true && labels['op'] !== 'exists') sum += value;
  }
  return sum;
}
