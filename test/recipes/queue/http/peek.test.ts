/** Looking at many messages, and large ones: page by page, each bounded in bytes and in what it costs. */
import { expect, test } from 'vitest';
import { startPair, type Replica } from '../../../support/start-gateway.js';
import { scaled } from '../../../support/timing.js';
import { configure, pushBodies, pushRaw, type PeekedMessage } from '../client.js';

const MIB = 1024 * 1024;

test('a page ends before its bodies grow beyond 1 MiB, and the pages together show every message once, in order', async () => {
  await using pair = await startPair();
  await configure(pair.a, 'work', { order: 'priority' });
  // Large and small ones in turns, of two priorities, and some that are not due.
  const large = Array.from({ length: 14 }, (_, i) => Buffer.alloc(i % 3 === 2 ? 10 : 250_000, i));
  for (const [i, body] of large.entries())
    await pushRaw(pair.a, 'work', body, 'application/x-large', {
      query: i < 6 ? '' : i < 12 ? '?priority=700' : '?delayMs=600000',
    });
  const seen: number[] = [];
  let pages = 0;
  for (let token = ''; ; pages += 1) {
    const page = (await pair.b.expect(200, 'GET', `/v1/queues/work/messages?limit=1000${token}`)) as {
      items: PeekedMessage[];
      nextPageToken?: string;
    };
    const bodies = page.items.map(({ bodyBase64 }) => Buffer.from(bodyBase64 as string, 'base64'));
    expect(bodies.length).toBeGreaterThan(0);
    expect(bodies.reduce((sum, { length }) => sum + length, 0)).toBeLessThanOrEqual(MIB);
    seen.push(...bodies.map((body) => body[0] as number));
    if (page.nextPageToken === undefined) break;
    token = `&pageToken=${page.nextPageToken}`;
  }
  expect(seen).toEqual(large.map((_, i) => i));
  expect(pages).toBeGreaterThan(1);
});

interface Page {
  items: PeekedMessage[];
  /** How many listings, and readings of many nodes, it took. */
  requests: number;
}

async function pagesOf(replica: Replica, limit: number): Promise<Page[]> {
  const { control } = replica.gateway.context;
  let requests = 0;
  const count = (): void => void (requests += 1);
  const [multiRead, getChildren] = [control.multiRead.bind(control), control.getChildren.bind(control)];
  control.multiRead = (...call) => (count(), multiRead(...call));
  control.getChildren = (...call) => (count(), getChildren(...call));
  const pages: Page[] = [];
  for (let token: string | undefined = ''; token !== undefined;) {
    requests = 0;
    const page = (await replica.expect(200, 'GET', `/v1/queues/work/messages?limit=${limit}${token}`)) as {
      items: PeekedMessage[];
      nextPageToken?: string;
    };
    pages.push({ items: page.items, requests });
    token = page.nextPageToken === undefined ? undefined : `&pageToken=${page.nextPageToken}`;
  }
  return pages;
}

test(
  'a page of messages that are due in thousands of different seconds costs a few readings, wherever it begins',
  { timeout: scaled(60_000) },
  async () => {
    await using pair = await startPair();
    const count = 2_000;
    const delays = Array.from({ length: count }, (_, i) => 60_000 + i * 45_000); // for more than a day
    for (let i = 0; i < count; i += 50) {
      // Several are due in the same second.
      const messages = delays.slice(i, i + 50).flatMap((delayMs) => [1, 2].map((body) => ({ body, delayMs })));
      await pair.a.expect(201, 'POST', '/v1/queues/work/messages', { body: { messages } });
    }
    const pages = await pagesOf(pair.b, 700);
    const items = pages.flatMap((page) => page.items);
    expect(new Set(items.map(({ id }) => id)).size).toBe(2 * count);
    expect(items).toHaveLength(2 * count);
    const due = items.map(({ dueAt = '' }) => dueAt);
    expect(due).toEqual([...due].sort());
    // Of these, one is for each hundred messages.
    expect(Math.max(...pages.map(({ requests }) => requests))).toBeLessThan(30);
  },
);

test('a page in the middle of a queue lists no segment in front of it', async () => {
  await using pair = await startPair();
  for (let i = 0; i < 12; i += 1)
    await pushBodies(
      pair.a,
      'work',
      Array.from({ length: 500 }, (_, j) => 500 * i + j),
    );
  const pages = await pagesOf(pair.b, 500);
  expect(pages.flatMap(({ items }) => items.map(({ body }) => body as number))).toEqual(
    Array.from({ length: 6_000 }, (_, i) => i),
  );
  const [first, ...others] = pages.map(({ requests }) => requests);
  expect(Math.max(...others)).toBeLessThanOrEqual((first ?? 0) + 2);
});
