/**
 * Order where segments of a queue meet (C22, C23): what was pushed first is delivered first, whatever of it is claimed.
 */
import { expect, test } from 'vitest';
import { startPair, type Replica } from '../../../support/start-gateway.js';

const SEGMENT = 1_000;

async function push(gateway: Replica, queue: string, from: number, to: number): Promise<void> {
  const messages = Array.from({ length: to - from }, (_, i) => ({ body: from + i }));
  expect((await gateway.call('POST', `/v1/queues/${queue}/messages`, { body: { messages } })).status).toBe(201);
}

async function pop(gateway: Replica, queue: string, count: number): Promise<number[]> {
  const popped: number[] = [];
  while (popped.length < count) {
    const { status, body } = await gateway.call('POST', `/v1/queues/${queue}/pop`, {
      body: { max: Math.min(200, count - popped.length) },
    });
    if (status === 204) break;
    popped.push(...(body.items as { body: number }[]).map((item) => item.body));
  }
  return popped;
}

const numbers = (from: number, to: number): number[] => Array.from({ length: to - from }, (_, i) => from + i);

test('what came into a segment before it was sealed goes before the next segment, also where one of its messages is claimed (C23)', async () => {
  await using pair = await startPair();
  const { a, b } = pair;
  const lease = await a.createLease();
  await push(a, 'seams', 0, SEGMENT - 100);
  const claimed = await a.call('POST', '/v1/queues/seams/claim', {
    headers: { 'Lease-Token': lease.leaseToken },
    body: {},
  });
  expect(claimed.body.items).toMatchObject([{ body: 0 }]);
  // The replica that takes has listed the segment now; the other one fills it, and begins the next.
  expect(await pop(a, 'seams', 500)).toEqual(numbers(1, 501));
  await push(b, 'seams', SEGMENT - 100, SEGMENT + 50);
  await push(b, 'seams', SEGMENT + 50, SEGMENT + 300);
  expect(await pop(a, 'seams', 2 * SEGMENT)).toEqual(numbers(501, SEGMENT + 300));
  const { claimId } = (claimed.body.items as { claimId: string }[])[0] as { claimId: string };
  await a.call('POST', '/v1/queues/seams/nack', {
    headers: { 'Lease-Token': lease.leaseToken },
    body: { claimIds: [claimId] },
  });
  await push(b, 'seams', 5_000, 5_001);
  expect(await pop(b, 'seams', 2)).toEqual([0, 5_000]);
});
