/** The time from a waiter's turn to its grant is measured where a replica has to grant, and nowhere else. */
import { expect, test } from 'vitest';
import { eventually } from '../../../support/eventually.js';
import { STANDING_WATCHES, startPair, type Replica } from '../../../support/start-gateway.js';

async function measured(replica: Replica): Promise<{ count: number; seconds: number }> {
  const metric = await replica.gateway.metrics.successionSeconds.get();
  const of = (suffix: string): number =>
    metric.values.find(({ metricName = '', labels }) => metricName.endsWith(suffix) && labels.kind === 'lock')?.value ??
    0;
  return { count: of('_count'), seconds: of('_sum') };
}

/** The next in line waits through `heirs`, until what is there ends as `end` says. */
async function inherit(holders: Replica, heirs: Replica, end: 'release' | 'end of the lease'): Promise<void> {
  const [holder, heir] = [await holders.createLease(), await heirs.createLease()];
  await holders.hold('heirloom', holder);
  const waiting = heirs.acquire('heirloom', heir, { waitMs: 20_000 });
  await eventually('it watches', () => heirs.gateway.context.control.watches.size === STANDING_WATCHES + 1);
  if (end === 'release') await holders.release('heirloom', holder);
  else await holders.endLease(holder);
  expect((await waiting).body).toMatchObject({ held: true });
  if (end === 'release') await holders.endLease(holder);
  await heirs.endLease(heir);
}

test('is measured when a lease has ended or another replica released, not for a hand-over within one', async () => {
  await using pair = await startPair();
  const { a, b } = pair;
  await inherit(a, a, 'end of the lease');
  const { count, seconds } = await measured(a);
  expect(count).toBe(1);
  expect(seconds).toBeGreaterThan(0);
  await inherit(a, b, 'release');
  expect(await measured(b)).toMatchObject({ count: 1 });
  await inherit(a, a, 'release');
  expect(await measured(a)).toEqual({ count, seconds });
  expect(await a.metric('postern_handoffs_total', { kind: 'lock' })).toBe(2);
});
