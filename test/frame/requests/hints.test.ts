/** Mistakes that newcomers make: the answer names what cures them. */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { startReplica, type Replica } from '../../support/start-gateway.js';
import type { LeaseHandle } from '../../support/http/client.js';

let replica: Replica;
let lease: LeaseHandle;
beforeAll(async () => {
  replica = await startReplica();
  lease = await replica.createLease({ ttlMs: 60_000 });
});
afterAll(() => replica[Symbol.asyncDispose]());

async function detailOf(
  status: number,
  method: 'GET' | 'POST' | 'DELETE',
  path: string,
  options: Parameters<Replica['call']>[2] = {},
): Promise<string> {
  return ((await replica.expect(status, method, path, options)) as { detail: string }).detail;
}

it.each(['/v1/leases/', '/v1/locks/', '/nowhere/', '/v1/config/app/'])('a path ends with a slash: %s', async (path) => {
  expect(await detailOf(404, 'GET', path)).toContain('No path ends with a "/".');
});

it('what can be done with a lock is asked of the lock', async () => {
  expect(await detailOf(405, 'DELETE', '/v1/locks/x')).toMatch(/Below it there are .*\/acquire.*\/release/);
});

it('the leaseId is sent for the lease token', async () => {
  const { leaseId } = lease;
  expect(await detailOf(403, 'POST', '/v1/locks/x/acquire', { leaseToken: leaseId })).toContain('looks like a leaseId');
});

it('the lease token is sent in the body', async () => {
  const body = { leaseToken: 'x' };
  expect(await detailOf(422, 'POST', '/v1/leases/self/heartbeat', { body, leaseToken: lease.leaseToken })).toContain(
    'sent as the header Lease-Token',
  );
});

it('a lock is held under another requestId', async () => {
  await replica.hold('own', lease, { requestId: 'one' });
  const { body } = await replica.acquire('own', lease, { requestId: 'two' });
  expect(body).toMatchObject({ code: 'lock-held' });
  expect((body as { detail: string }).detail).toContain('held by your own lease, under another requestId');
});

it('the stream of a key is looked for where other resources have theirs', async () => {
  expect(await detailOf(404, 'GET', '/v1/config/app/x/events')).toContain('text/event-stream');
});
