/** Thousands of locks, held by several leases. */
import type { Client, LeaseHandle } from './http/client.js';
import { eventually } from './eventually.js';
import { timing } from './timing.js';

const AT_ONCE = 100;
/** A session that ends is one transaction of ZooKeeper, which has the paths of all that goes with it. */
const OF_A_LEASE = 1_000;

/**
 * Acquires `lock-00000`, `lock-00001` and so on.
 * @returns the leases that hold them, for `ttlMs` from now on
 */
export async function manyLocks(
  client: Client,
  count: number,
  ttlMs = 250_000,
): Promise<[LeaseHandle, ...LeaseHandle[]]> {
  const names = Array.from({ length: count }, (_, i) => `lock-${String(i).padStart(5, '0')}`);
  const holders = Array.from({ length: Math.ceil(count / OF_A_LEASE) }, async (_, number) => {
    const lease = await client.createLease({ ttlMs, label: `crowd-${number}` });
    const own = names.slice(number * OF_A_LEASE, (number + 1) * OF_A_LEASE);
    for (let from = 0; from < own.length; from += AT_ONCE) {
      const body = { names: own.slice(from, from + AT_ONCE) };
      const acquire = (): Promise<unknown> =>
        client.expect(200, 'POST', '/v1/locks/acquire', { body, leaseToken: lease.leaseToken });
      // On a busy machine ZooKeeper may not answer in time; who repeats the request holds what the first one acquired.
      await eventually('they are held', acquire, { withinMs: timing.processMs });
    }
    return lease;
  });
  return (await Promise.all(holders)) as [LeaseHandle, ...LeaseHandle[]];
}
