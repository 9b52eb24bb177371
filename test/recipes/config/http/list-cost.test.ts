/** What a list of large values costs: it tells their lengths, and does not read them again and again for that. */
import { expect, test } from 'vitest';
import type { Client } from '../../../support/http/client.js';
import { startPair } from '../../../support/start-gateway.js';
import { put, remove } from '../client.js';

const KEYS = 12;

/** Values of znodes that the replica has asked for. */
async function readingsOf(replica: Client): Promise<number> {
  const page = String(await replica.expect(200, 'GET', '/metrics'));
  return Number(/^postern_zookeeper_request_duration_seconds_count\{op="getData"\} (\d+)$/m.exec(page)?.[1] ?? 0);
}

function lists(replica: Client, count: number): Promise<{ items: { key: string; bytes: number }[] }[]> {
  return Promise.all(
    Array.from(
      { length: count },
      () =>
        replica.expect(200, 'GET', '/v1/config?prefix=large/') as Promise<{ items: { key: string; bytes: number }[] }>,
    ),
  );
}

test('each value is read once for all who list it, and again only when it has changed', async () => {
  await using pair = await startPair();
  for (let i = 0; i < KEYS; i += 1) await put(pair.a, `large/${i}`, Buffer.alloc(900_000));
  const before = await readingsOf(pair.b);
  for (const { items } of await lists(pair.b, 10))
    expect(items.map(({ bytes }) => bytes)).toEqual(Array(KEYS).fill(900_000));
  // What is read of the same value at the same time, within the budget, may be read twice; ten lists would read 120.
  const cold = (await readingsOf(pair.b)) - before;
  expect(cold).toBeLessThan(10 * KEYS);
  await lists(pair.b, 10);
  expect((await readingsOf(pair.b)) - before - cold).toBeLessThan(KEYS);
  await put(pair.a, 'large/3', Buffer.alloc(10));
  await remove(pair.a, 'large/4');
  const [page] = await lists(pair.b, 1);
  expect(page?.items).toHaveLength(KEYS - 1);
  expect(page?.items.find(({ key }) => key === 'large/3')).toMatchObject({ bytes: 10 });
});
