/** What stays as it is, however often the request is repeated, does not say that it may be repeated. */
import { expect, test } from 'vitest';
import { startPair } from '../../support/start-gateway.js';

const STANDING = { status: 409, code: 'conflict', retryable: false, outcome: 'not-applied' };

test('what does not go together with the state is not retryable', async () => {
  await using pair = await startPair();
  const { a, b } = pair;
  const { leaseToken } = await a.createLease();
  const ask = async (method: string, path: string, body?: object): Promise<unknown> =>
    (await b.call(method, path, { body, leaseToken })).body;
  const make = (method: string, path: string, body: object): Promise<unknown> =>
    a.expect([200, 201], method, path, { body, leaseToken });

  await make('POST', '/v1/semaphores/s/acquire', { limit: 3, requestId: 'r' });
  expect(await ask('POST', '/v1/semaphores/s/acquire', { limit: 5 })).toMatchObject({ ...STANDING, limit: 3 });
  expect(await ask('POST', '/v1/semaphores/s/acquire', { requestId: 'r', count: 2 })).toMatchObject(STANDING);

  await make('POST', '/v1/rwlocks/rw/acquire', { mode: 'read', requestId: 'r' });
  expect(await ask('POST', '/v1/rwlocks/rw/acquire', { mode: 'write', requestId: 'r' })).toMatchObject(STANDING);

  await make('PUT', '/v1/queues/q', { order: 'fifo', maxDepth: 3 });
  await make('POST', '/v1/queues/q/messages', { messages: [{ body: 1 }] });
  expect(await ask('DELETE', '/v1/queues/q')).toMatchObject({ ...STANDING, depth: 1 });
  expect(await ask('PUT', '/v1/queues/q', { order: 'priority' })).toMatchObject({ ...STANDING, depth: 1 });

  const transaction = { requestId: 'transaction-0000000000', participants: ['p'], deadlineMs: 60_000 };
  await make('POST', '/v1/transactions', transaction);
  expect(await ask('POST', '/v1/transactions', { ...transaction, participants: ['other'] })).toMatchObject(STANDING);

  const lease = { requestId: 'lease-0000000000000000', label: 'one' };
  await make('POST', '/v1/leases', lease);
  expect(await ask('POST', '/v1/leases', { ...lease, label: 'two' })).toMatchObject(STANDING);
});

test('a push of more messages than a queue may ever have is not retryable, and names no time after which it is', async () => {
  await using pair = await startPair();
  await pair.a.expect(201, 'PUT', '/v1/queues/q', { body: { order: 'fifo', maxDepth: 2 } });
  const push = (count: number): ReturnType<typeof pair.a.call> =>
    pair.a.call('POST', '/v1/queues/q/messages', {
      body: { messages: Array.from({ length: count }, (_, body) => ({ body })) },
    });
  const never = await push(3);
  expect(never.body).toMatchObject({ status: 429, code: 'queue-full', retryable: false, maxDepth: 2 });
  expect(never.headers).not.toHaveProperty('retry-after');
  expect((await push(2)).status).toBe(201);
  const now = await push(1);
  expect(now.body).toMatchObject({ status: 429, code: 'queue-full', retryable: true });
  expect(now.headers).toHaveProperty('retry-after');
});
