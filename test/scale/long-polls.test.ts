/** What it costs a replica to answer a thousand long polls of one name that one change ends. */
import { expect, test } from 'vitest';
import { eventually } from '../support/eventually.js';
import { startPair, type Replica } from '../support/start-gateway.js';
import { scaled, timing } from '../support/timing.js';

const POLLS = 1_000;
/** Of the observer's look, which sets the watches anew, and of one answer. */
const REQUESTS_MAX = 20;

interface Case {
  path: string;
  change: (replica: Replica) => Promise<unknown>;
}

test.each<Case>([
  {
    path: '/v1/locks/polled',
    change: async (replica) => replica.hold('polled', await replica.createLease({ ttlMs: 20_000 })),
  },
  {
    path: '/v1/counters/polled',
    change: (replica) => replica.expect(200, 'POST', '/v1/counters/polled/add', { body: { by: 1 } }),
  },
  {
    path: '/v1/double-barriers/polled',
    change: async (replica) => {
      const { leaseToken } = await replica.createLease({ ttlMs: 20_000 });
      const body = { member: 'only', size: 1, waitMs: 10_000 };
      await replica.expect(200, 'POST', '/v1/double-barriers/polled/enter', { leaseToken, body });
    },
  },
])('a thousand long polls of $path that end together take one reading', { timeout: scaled(60_000) }, async (polled) => {
  const { path, change } = polled;
  await using pair = await startPair();
  const { a, b } = pair;
  const headers = { 'if-none-match': String((await b.call('GET', path)).headers['etag']) };
  const polls = Array.from({ length: POLLS }, () => b.call('GET', `${path}?waitMs=50000`, { headers }));
  await eventually('everybody waits', async () => (await b.metric('postern_http_requests_in_flight')) === POLLS);
  await eventually('it is observed', () => b.gateway.observed() === 1);
  let last = -1;
  await eventually(
    'ZooKeeper has answered',
    async () => {
      const sent = await requests(b);
      const quiet = sent === last;
      last = sent;
      return quiet;
    },
    { everyMs: timing.quietMs },
  );
  const before = await requests(b);
  await change(a);
  for (const { status } of await Promise.all(polls)) expect(status).toBe(200);
  expect((await requests(b)) - before).toBeLessThanOrEqual(REQUESTS_MAX);
});

/** Answered by ZooKeeper, of whatever kind. */
async function requests(replica: Replica): Promise<number> {
  const { values } = await replica.gateway.metrics.zookeeperRequestDurationSeconds.get();
  return values.filter(({ metricName }) => metricName?.endsWith('_count')).reduce((sum, { value }) => sum + value, 0);
}
