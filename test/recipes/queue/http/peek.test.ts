/** Looking at large messages: page by page, each bounded in bytes, whatever limit was asked for. */
import { expect, test } from 'vitest';
import { startPair } from '../../../support/start-gateway.js';
import { configure, pushRaw, type PeekedMessage } from '../client.js';

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
