/** What the holders of semaphores cost others when each shows as much `data` as it may, of very many values. */
import { expect, test } from 'vitest';
import { lengthShown } from '../../../../src/json-text.js';
import type { HolderState } from '../../../../src/recipes/line/observer.js';
import { EventReader } from '../../../support/http/event-stream.js';
import { eventually } from '../../../support/eventually.js';
import { startReplica, type Replica } from '../../../support/start-gateway.js';
import { scaled } from '../../../support/timing.js';

const TTL_MS = 60_000;
const AT_ONCE = 25;
const NAMES = ['long-0', 'long-1', 'long-2'];
/** As many as are shown of one semaphore. */
const HOLDERS = 100;
/** 4 056 characters, 90 KB as objects. */
const DATA = { x: Array.from({ length: 1_350 }, () => ({})) };
const DATA_LENGTH = JSON.stringify(DATA).length;

async function fill(replica: Replica, name: string): Promise<void> {
  const { leaseToken } = await replica.createLease({ ttlMs: TTL_MS });
  for (let first = 0; first < HOLDERS; first += AT_ONCE)
    await Promise.all(
      Array.from({ length: AT_ONCE }, (_, i) =>
        replica.expect(200, 'POST', `/v1/semaphores/${name}/acquire`, {
          leaseToken,
          body: { limit: HOLDERS, requestId: `permit-${first + i}`, waitMs: 20_000, data: DATA },
        }),
      ),
    );
}

async function requestsOf(replica: Replica, op: string): Promise<number> {
  const page = String(await replica.expect(200, 'GET', '/metrics'));
  const count = new RegExp(`^postern_zookeeper_request_duration_seconds_count\\{op="${op}"\\} (\\d+)$`, 'm');
  return Number(count.exec(page)?.[1] ?? 0);
}

interface Listed {
  items: { name: string; holderCount: number; holders: { data: unknown }[] }[];
  nextPageToken?: string;
}

async function pagesOf(replica: Replica): Promise<Listed[]> {
  const pages: Listed[] = [];
  for (let token: string | undefined = ''; token !== undefined;) {
    const more: string = token === '' ? '' : `&pageToken=${encodeURIComponent(token)}`;
    const page = (await replica.expect(200, 'GET', `/v1/semaphores?limit=1000${more}`)) as Listed;
    pages.push(page);
    token = page.nextPageToken;
  }
  return pages;
}

test(
  'holders are read many at once, a page of the list has about a MiB of what they show, and observers keep it as text',
  { timeout: scaled(60_000) },
  async () => {
    await using replica = await startReplica();
    for (const name of NAMES) await fill(replica, name);
    const operations = ['getData', 'multiRead'];
    const counts = (): Promise<number[]> => Promise.all(operations.map((op) => requestsOf(replica, op)));
    const before = await counts();
    const pages = await pagesOf(replica);
    const requests = (await counts()).reduce((sum, count, i) => sum + count - (before[i] as number), 0);
    expect(pages.map(({ items }) => items.map(({ name }) => name))).toEqual([['long-0', 'long-1'], ['long-2']]);
    for (const { holders, holderCount } of pages.flatMap(({ items }) => items)) {
      expect(holderCount).toBe(HOLDERS);
      expect(holders).toHaveLength(HOLDERS);
      for (const { data } of holders) expect(data).toEqual(DATA);
    }
    expect(requests).toBeLessThan((NAMES.length * HOLDERS) / 5);

    await using stream = await EventReader.open(replica.url, '/v1/events?watch=semaphore:*');
    const told = (): string[] => stream.seen.map(({ data }) => JSON.stringify(data));
    const all = NAMES.length * HOLDERS;
    await eventually(
      'the stream has told of all holders',
      () => told().join('').split(JSON.stringify(DATA)).length > all,
    );
    let kept: HolderState | undefined;
    const path = replica.gateway.context.layout.line('semaphore', 'default', 'long-0');
    replica.gateway.recipes.line.observers.subscribe({ kind: 'semaphore', path }, (state) => (kept = state))();
    expect(kept?.holders.map(({ data }) => lengthShown(data))).toEqual(Array(HOLDERS).fill(DATA_LENGTH));
  },
);
