/**
 * What is wrong is said once, with all that is needed to do it right; and what means nothing is refused, not passed
 * over.
 */
import { expect, test } from 'vitest';
import { startPair } from '../../support/start-gateway.js';
import { pushBodies, queueOf } from '../../recipes/queue/client.js';

test('an empty Namespace or Idempotency-Key is refused, and nothing is done: an unset variable must not work in another namespace', async () => {
  await using pair = await startPair();
  const { a } = pair;
  await pushBodies(a, 'work', [1]);
  for (const [method, path] of [
    ['DELETE', '/v1/queues/work?force=true'],
    ['POST', '/v1/queues/work/purge'],
    ['POST', '/v1/queues/work/pop'],
  ] as const) {
    const { status, body } = await a.call(method, path, { headers: { Namespace: '' } });
    expect([path, status, body]).toMatchObject([path, 422, { field: 'Namespace', in: 'header' }]);
  }
  const pushed = await a.call('POST', '/v1/queues/work/messages', {
    headers: { 'Idempotency-Key': '' },
    body: { messages: [{ body: 2 }] },
  });
  expect(pushed).toMatchObject({ status: 422, body: { field: 'Idempotency-Key' } });
  expect((await queueOf(a, 'work')).depth).toBe(1);
});

test('a requestId and another Idempotency-Key are refused; the same one twice is not', async () => {
  await using pair = await startPair();
  const lease = await pair.a.createLease();
  const acquire = (key: string) =>
    pair.a.call('POST', '/v1/locks/two-names/acquire', {
      headers: { 'Idempotency-Key': key },
      body: { requestId: '2026-01-31T09:30:00Z' },
      leaseToken: lease.leaseToken,
    });
  expect(await acquire('other')).toMatchObject({ status: 422, body: { field: 'Idempotency-Key', in: 'header' } });
  expect((await pair.b.showLock('two-names')).holders).toEqual([]);
  expect(await acquire('2026-01-31T09:30:00Z')).toMatchObject({ status: 200 });
});

test('an instant may be a messageId', async () => {
  await using pair = await startPair();
  const push = () =>
    pair.a.call('POST', '/v1/queues/work/messages', {
      body: { messages: [{ body: 1, messageId: '2026-01-31T09:30:00Z' }] },
    });
  expect((await push()).body.items).toMatchObject([{ status: 201 }]);
  expect((await push()).body.items).toMatchObject([{ status: 200 }]);
});

test('the words of a refusal name what has to be done', async () => {
  await using pair = await startPair();
  const { a } = pair;
  const lease = await a.createLease();
  const detailOf = async (path: string, options: Parameters<typeof a.call>[2]): Promise<string> =>
    (await a.call('POST', path, options)).body.detail as string;
  expect(await detailOf('/v1/locks/a/b/acquire', {})).toMatch(/A name never holds a "\/"/);
  expect(await detailOf('/v1/double-barriers/d/enter', { body: {}, leaseToken: lease.leaseToken })).toMatch(
    /size is missing; it must be an integer/,
  );
  expect(await detailOf('/v1/leases', { body: { label: 'x'.repeat(1_000) } })).toMatch(/\(1000 characters\)/);
  expect(await detailOf('/v1/leases', { body: { ttlMs: -1 } })).toMatch(/between \d+ and \d+/);
  expect(await detailOf('/v1/leases/self/heartbeat', { leaseToken: `Bearer ${lease.leaseToken}` })).toMatch(
    /without "Bearer"/,
  );
});

test('an answer in JSON ends its line, a problem too', async () => {
  await using pair = await startPair();
  for (const path of ['/v1/locks', '/v1/nothing'])
    expect(await (await fetch(pair.a.url + path)).text()).toMatch(/\}\n$/);
});
