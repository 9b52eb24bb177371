/** Pages of those who stand in a line, where they show much. */
import { expect, test } from 'vitest';
import { startReplica } from '../../../support/start-gateway.js';
import { scaled } from '../../../support/timing.js';

const PLACES = 300;
const AT_ONCE = 25;
const DATA = { x: 'y'.repeat(4_000) };
const PAGE_LENGTH_MOST = 1_300_000;

interface Page {
  items: { position: number }[];
  nextPageToken?: string;
}

for (const [what, list, ask, first, expected] of [
  ['waiters show no data, which ends no page', '/v1/locks/long/waiters', '/v1/locks/long/acquire', 1, 1],
  [
    'a page of candidates ends after about a MiB, and the next goes on behind the last one',
    '/v1/elections/long/candidates',
    '/v1/elections/long/campaign',
    0,
    2,
  ],
] as const) {
  test(what, { timeout: scaled(60_000) }, async () => {
    await using replica = await startReplica();
    await replica.hold('long', await replica.createLease({ ttlMs: 60_000 }));
    for (let i = 0; i < PLACES; i += AT_ONCE)
      await Promise.all(
        Array.from({ length: AT_ONCE }, async () => {
          const { leaseToken } = await replica.createLease({ ttlMs: 60_000 });
          const place = first === 0 ? { value: DATA } : { data: DATA };
          await replica.call('POST', ask, { leaseToken, body: { ...place, waitMs: 1, keepPlace: true } });
        }),
      );
    const positions: number[] = [];
    let pages = 0;
    for (let token = ''; pages === 0 || token !== ''; pages += 1) {
      const page = (await replica.expect(200, 'GET', `${list}?limit=1000${token}`)) as Page;
      expect(JSON.stringify(page).length).toBeLessThan(PAGE_LENGTH_MOST);
      positions.push(...page.items.map(({ position }) => position));
      token = page.nextPageToken === undefined ? '' : `&pageToken=${page.nextPageToken}`;
    }
    expect(pages).toBe(expected);
    expect(positions).toEqual(Array.from({ length: PLACES }, (_, i) => first + i));
  });
}
