/** Pages of those who stand in a line, while others leave it between one page and the next. */
import { expect, test } from 'vitest';
import type { LeaseHandle } from '../../../support/http/client.js';
import { startPair, type Pair } from '../../../support/start-gateway.js';
import { scaled } from '../../../support/timing.js';

const STANDING = 34;
const LIMIT = 3;
const TTL_MS = 60_000;
/** Of those who are shown every fourth stays. */
const STAYS = 4;

interface Shown {
  leaseId: string;
  position?: number;
}

interface Page {
  items: Shown[];
  nextPageToken?: string;
}

interface Walk {
  /** The position of the first who is shown; who holds is not where it is 1. */
  first?: number;
  bodyOf?: (i: number) => Record<string, unknown>;
}

const WALKS: [what: string, ask: string, list: string, Walk][] = [
  ['candidates', 'elections/walk/campaign', 'elections/walk/candidates', { first: 0 }],
  ['waiters of a lock', 'locks/walk/acquire', 'locks/walk/waiters', { first: 1 }],
  [
    'waiters of a lock by priority',
    'locks/by-priority/acquire',
    'locks/by-priority/waiters',
    { first: 1, bodyOf: (i) => ({ priority: (i * 5) % 11 }) },
  ],
  [
    'waiters of a semaphore',
    'semaphores/walk/acquire',
    'semaphores/walk/waiters',
    { first: 1, bodyOf: (i) => ({ limit: 3, count: i === 0 ? 3 : 1 + (i % 3) }) },
  ],
  [
    'waiters of a read-write lock',
    'rwlocks/walk/acquire',
    'rwlocks/walk/waiters',
    { first: 1, bodyOf: (i) => ({ mode: i % 2 === 0 ? 'write' : 'read' }) },
  ],
  ['nodes', 'locks/walk/acquire', 'locks/walk/nodes', {}],
];

/** @returns the first, who holds, and all of them by their ids */
async function stand({ a }: Pair, ask: string, { bodyOf }: Walk): Promise<[LeaseHandle, Map<string, LeaseHandle>]> {
  const leases: LeaseHandle[] = [];
  for (let i = 0; i < STANDING; i += 1) {
    const lease = await a.createLease({ ttlMs: TTL_MS });
    const body = { ...bodyOf?.(i), keepPlace: true };
    await a.expect(i === 0 ? 200 : 202, 'POST', `/v1/${ask}`, { leaseToken: lease.leaseToken, body });
    leases.push(lease);
  }
  return [leases[0]!, new Map(leases.map((lease) => [lease.leaseId, lease]))];
}

for (const [what, ask, list, walk] of WALKS)
  test(
    `${what} who stay are shown once, in order, whoever leaves between the pages`,
    { timeout: scaled(60_000) },
    async () => {
      await using pair = await startPair();
      const [holder, leases] = await stand(pair, ask, walk);
      const pageOf = (query: string): Promise<Page> =>
        pair.b.expect(200, 'GET', `/v1/${list}?${query}`) as Promise<unknown> as Promise<Page>;
      const idsOf = ({ items }: Page): string[] => items.map(({ leaseId }) => leaseId);
      const before = idsOf(await pageOf('limit=1000'));
      expect(before).toHaveLength(walk.first === 1 ? STANDING - 1 : STANDING);
      const stay = before.filter((_, i) => i % STAYS === 1);
      const shown: string[] = [];
      for (let token: string | undefined = ''; token !== undefined;) {
        const page = await pageOf(`limit=${LIMIT}${token}`);
        shown.push(...idsOf(page));
        const leaving = new Set([...(token === '' ? [holder.leaseId] : []), ...idsOf(page)]);
        for (const id of leaving) if (!stay.includes(id)) await pair.a.endLease(leases.get(id)!);
        token = page.nextPageToken === undefined ? undefined : `&pageToken=${page.nextPageToken}`;
      }
      expect(shown).toEqual(before);
      const after = await pageOf('limit=1000');
      expect(idsOf(after)).toEqual(stay);
      const { first } = walk;
      if (first !== undefined)
        expect(after.items.map(({ position }) => position)).toEqual(stay.map((_, i) => first + i));
    },
  );

test('a page token is one that a list of a line answered: a mere number, or what is no place, is refused', async () => {
  await using pair = await startPair();
  for (const list of ['elections/walk/candidates', 'locks/walk/waiters', 'semaphores/walk/waiters', 'locks/walk/nodes'])
    for (const key of ['3', '0', 'walk', '0-1-0', '2-1-0-x', '0-x-0-x', '0-1-0-', '0-1-0-x/y', '0-12345678901-0-x']) {
      const token = Buffer.from(key).toString('base64url');
      const { status, body } = await pair.a.call('GET', `/v1/${list}?pageToken=${token}`);
      expect([status, body], `${list} ${key}`).toMatchObject([422, { code: 'invalid', field: 'pageToken' }]);
    }
});
