/** What an assignment costs, and that it does not grow with the crowd (C63): `POOL_SIZE=10000 POOL_WAITERS=1000`. */
import { env } from 'node:process';
import { describe, expect, test } from 'vitest';
import { eventually } from '../../../support/eventually.js';
import { startPair, type Pair } from '../../../support/start-gateway.js';
import { scaled } from '../../../support/timing.js';
import { acquire, call, idsOf, put, release, show } from '../client.js';

const SIZE = Number(env['POOL_SIZE'] ?? 1_000);
const WAITERS = Number(env['POOL_WAITERS'] ?? 200);
/** As many as one request may have. */
const AT_ONCE = 100;
const HOLDERS = 50;
const TTL_MS = 120_000;
const WAIT_MS = 50_000;

describe(`a pool of ${SIZE}, all of them held`, () => {
  test(
    `has each member once, and wakes one request per release, with ${WAITERS} in line at two replicas`,
    { timeout: scaled(600_000) },
    async () => {
      await using pair = await startPair({
        settings: { POSTERN_MAX_HOLDS_PER_LEASE: '1000', POSTERN_MAX_PATH_BYTES_PER_LEASE: '200000' },
      });
      const at = (i: number): Pair['a'] => (i % 2 === 0 ? pair.a : pair.b);
      await put(pair.a, { of: SIZE });
      const holders = await leasesOf(pair, HOLDERS);
      const held = new Map<string, number>();
      for (let i = 0; i * AT_ONCE < SIZE; i += 1) {
        const count = Math.min(AT_ONCE, SIZE - i * AT_ONCE);
        const got = await acquire(at(i), holders[i % HOLDERS]!, { count, requestId: `r${i}`, waitMs: WAIT_MS });
        for (const id of idsOf(got)) held.set(id, (held.get(id) ?? 0) + 1);
      }
      expect(held.size).toBe(SIZE);
      expect(Math.max(...held.values())).toBe(1);
      expect(await show(pair.b)).toMatchObject({ free: 0, heldCount: SIZE });
      const waiting = await leasesOf(pair, WAITERS);
      let granted = 0;
      const turns = waiting.map(async (lease, i) => {
        let reply = await call(at(i), 'acquire', lease, { waitMs: WAIT_MS, keepPlace: true });
        while (reply.status === 202) reply = await call(at(i), 'acquire', lease, { waitMs: WAIT_MS, keepPlace: true });
        if (reply.status === 200) granted += 1;
        await release(at(i), lease);
      });
      const total = async (name: string): Promise<number> =>
        (await pair.a.metric(name, { kind: 'pool' })) + (await pair.b.metric(name, { kind: 'pool' }));
      await eventually('everybody waits', async () => (await total('postern_waiters')) === WAITERS);
      const before = [await total('postern_wakeups_total'), await total('postern_handoffs_total')] as const;
      const startedAt = performance.now();
      await release(pair.a, holders[0]!, { requestId: 'r0' });
      await Promise.all(turns);
      const [wakeups, handoffs] = [
        (await total('postern_wakeups_total')) - before[0],
        (await total('postern_handoffs_total')) - before[1],
      ];
      console.log(`${handoffs} hand-offs, ${wakeups} wake-ups, ${Math.round(performance.now() - startedAt)} ms`);
      expect(granted).toBe(WAITERS);
      // Whose turn comes between two requests for its place is not handed anything.
      expect(handoffs).toBeLessThanOrEqual(WAITERS);
      // One for each that is given something, and none in vain for those behind it.
      expect(wakeups).toBeLessThanOrEqual(WAITERS + 2);
      expect(await show(pair.a)).toMatchObject({ waiterCount: 0 });
    },
  );
});

function leasesOf(pair: Pair, count: number): Promise<{ leaseToken: string }[]> {
  return Promise.all(
    Array.from({ length: count }, (_, i) => (i % 2 === 0 ? pair.a : pair.b).createLease({ ttlMs: TTL_MS })),
  );
}
