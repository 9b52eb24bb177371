/** What a look at a lease costs that has very many places in one line: hardly more requests than with few. */
import { expect, test } from 'vitest';
import type { LeaseHandle } from '../../support/http/client.js';
import { startReplica, type Replica } from '../../support/start-gateway.js';
import { scaled } from '../../support/timing.js';

const TTL_MS = 60_000;
const AT_ONCE = 25;
const HOLDS = 300;

async function acquirePermits(replica: Replica, { leaseToken }: LeaseHandle): Promise<void> {
  for (let first = 0; first < HOLDS; first += AT_ONCE)
    await Promise.all(
      Array.from({ length: AT_ONCE }, (_, i) =>
        replica.expect(200, 'POST', '/v1/semaphores/wide/acquire', {
          leaseToken,
          body: { limit: 10_000, requestId: `permit-${first + i}`, waitMs: 20_000 },
        }),
      ),
    );
}

/** How often the replica has asked ZooKeeper for something so far. */
async function requestsOf(replica: Replica, op: string): Promise<number> {
  const page = String(await replica.expect(200, 'GET', '/metrics'));
  const count = new RegExp(`^postern_zookeeper_request_duration_seconds_count\\{op="${op}"\\} (\\d+)$`, 'm');
  return Number(count.exec(page)?.[1] ?? 0);
}

test(
  'a line is listed once for all places of the lease in it, and these are read many at once',
  { timeout: scaled(60_000) },
  async () => {
    await using replica = await startReplica();
    const lease = await replica.createLease({ ttlMs: TTL_MS });
    await acquirePermits(replica, lease);
    const operations = ['getData', 'getChildren', 'multiRead'];
    const counts = (): Promise<number[]> => Promise.all(operations.map((op) => requestsOf(replica, op)));
    const before = await counts();
    const { holds } = (await replica.expect(200, 'GET', '/v1/leases/self', lease)) as {
      holds: { name: string; held: boolean; requestId: string; fencingToken: number }[];
    };
    const requests = (await counts()).reduce((sum, count, i) => sum + count - (before[i] as number), 0);
    expect(new Set(holds.map(({ requestId }) => requestId)).size).toBe(HOLDS);
    expect(holds.every(({ name, held }) => name === 'wide' && held)).toBe(true);
    expect(holds.map(({ fencingToken }) => fencingToken)).toEqual(
      holds.map(({ fencingToken }) => fencingToken).toSorted((a, b) => a - b),
    );
    expect(requests).toBeLessThan(HOLDS / 10);
  },
);
