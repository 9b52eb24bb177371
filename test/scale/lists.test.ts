/** Lists of names among very many that were used lately and are not now: what a page costs does not grow with them. */
import { expect, test } from 'vitest';
import type { LineKind } from '../../src/leases/layout.js';
import type { LeaseHandle } from '../support/http/client.js';
import { startReplica, type Replica } from '../support/start-gateway.js';
import { scaled } from '../support/timing.js';

const IDLE = 100_000;
/** In one transaction. */
const MADE_AT_ONCE = 1_000;
/** Directories that one page looks at, and how many in one request. */
const LOOKED_MAX = 2_000;
const LOOKED_AT_ONCE = 400;

interface NamePage {
  items: { name: string }[];
  nextPageToken?: string;
}

/** As acquires and releases of so many names leave them, all before `used`. */
async function makeIdle({ gateway }: Replica, kind: LineKind): Promise<void> {
  const { control, layout } = gateway.context;
  const parent = layout.lines(kind, 'default');
  await control.ensurePath(parent);
  for (let i = 0; i < IDLE; i += MADE_AT_ONCE)
    await control.multi(
      Array.from({ length: MADE_AT_ONCE }, (_, j) => ({ type: 'create', path: `${parent}/idle-${i + j}` })),
    );
}

/** Requests to ZooKeeper that read nodes, by this replica so far. */
async function reads(replica: Replica): Promise<number> {
  const text = await replica.expect(200, 'GET', '/metrics');
  const counts = String(text).matchAll(
    /^postern_zookeeper_request_duration_seconds_count\{op="(?:getData|exists|getChildren|multiRead)"\} (\d+)$/gm,
  );
  return [...counts].reduce((sum, [, count]) => sum + Number(count), 0);
}

test(
  'a page of locks reads few times from ZooKeeper among 100 000 idle names, and the pages come to those in use',
  { timeout: scaled(120_000) },
  async () => {
    await using replica = await startReplica();
    const lease: LeaseHandle = await replica.createLease({ ttlMs: 200_000 });
    await replica.hold('used', lease);
    await makeIdle(replica, 'lock');
    const before = await reads(replica);
    const first = (await replica.expect(200, 'GET', '/v1/locks?limit=1')) as NamePage;
    // The list of the names, and the directories; the rest is what a replica does by itself.
    expect((await reads(replica)) - before).toBeLessThan(LOOKED_MAX / LOOKED_AT_ONCE + 10);
    expect(first.items).toEqual([]);
    let pages = 1;
    let found: NamePage = first;
    for (; found.items.length === 0 && found.nextPageToken !== undefined; pages += 1)
      found = (await replica.expect(200, 'GET', `/v1/locks?limit=1&pageToken=${found.nextPageToken}`)) as NamePage;
    expect(found).toEqual({ items: [expect.objectContaining({ name: 'used' }) as unknown] });
    expect(pages).toBe(Math.ceil((IDLE + 1) / LOOKED_MAX));
    const prefixed = (await replica.expect(200, 'GET', '/v1/locks?limit=1&prefix=us')) as NamePage;
    expect(prefixed.items.map(({ name }) => name)).toEqual(['used']);
  },
);
