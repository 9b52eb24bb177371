/**
 * Semaphores of which the request does not say how many permits there are: it takes what is agreed on, as it is now.
 */
import { describe, expect, test } from 'vitest';
import { Sweep } from '../../../../src/recipes/housekeeping/sweep.js';
import { TidyLines } from '../../../../src/recipes/line/tidy.js';
import type { LeaseHandle, Reply } from '../../../support/http/client.js';
import { eventually, throughout } from '../../../support/eventually.js';
import { startPair, type Replica } from '../../../support/start-gateway.js';

function acquire(replica: Replica, lease: LeaseHandle, body: Record<string, unknown> = {}): Promise<Reply> {
  return replica.call('POST', '/v1/semaphores/pool/acquire', { body, leaseToken: lease.leaseToken });
}

function setLimit(replica: Replica, limit: number): Promise<unknown> {
  return replica.expect(200, 'PUT', '/v1/semaphores/pool', { body: { limit } });
}

interface Shown {
  limit: number | null;
  permitsHeld: number;
  waiterCount: number;
}

function show(replica: Replica): Promise<Shown> {
  return replica.expect(200, 'GET', '/v1/semaphores/pool') as Promise<Shown>;
}

describe('a request for permits without a limit', () => {
  test('goes on as before when the limit is changed, and one that names the old limit is refused for good', async () => {
    await using pair = await startPair();
    const [one, two, three] = [await pair.a.createLease(), await pair.b.createLease(), await pair.a.createLease()];
    await pair.a.expect(200, 'POST', '/v1/semaphores/pool/acquire', { body: { limit: 1 }, leaseToken: one.leaseToken });
    expect((await acquire(pair.b, two)).body).toMatchObject({ code: 'lock-held' });
    await setLimit(pair.a, 2);
    expect((await acquire(pair.b, two)).body).toMatchObject({ held: true, count: 1 });
    const old = await acquire(pair.b, three, { limit: 1 });
    expect(old.body).toMatchObject({ status: 409, code: 'conflict', retryable: false, limit: 2 });
    expect((await acquire(pair.b, three)).body).toMatchObject({ code: 'lock-held', retryable: true });
    await setLimit(pair.b, 1);
    expect((await acquire(pair.a, two)).body).toMatchObject({ held: true, alreadyHeld: true });
    expect(await show(pair.a)).toMatchObject({ limit: 1, permitsHeld: 2, waiterCount: 0 });
  });

  test('waits in line under whatever is agreed on, and is never let in beyond it', async () => {
    await using pair = await startPair();
    await setLimit(pair.a, 2);
    const leases = await Promise.all(Array.from({ length: 5 }, () => pair.b.createLease()));
    const held: Reply[] = [];
    const waits = leases.map((lease, i) =>
      acquire(i % 2 === 0 ? pair.a : pair.b, lease, { waitMs: 20_000 }).then((reply) => held.push(reply)),
    );
    await eventually('three wait', async () => (await show(pair.b)).waiterCount === 3);
    await setLimit(pair.b, 4);
    await eventually('one waits', async () => (await show(pair.a)).waiterCount === 1);
    await eventually('four are told', () => held.length === 4);
    await throughout('four hold', async () => held.length === 4 && (await show(pair.a)).permitsHeld === 4);
    await setLimit(pair.a, 5);
    await Promise.all(waits);
    expect(held.map(({ status }) => status)).toEqual([200, 200, 200, 200, 200]);
  });

  test('is refused where nobody has said how many there are, or it wants more than there are', async () => {
    await using pair = await startPair();
    const lease = await pair.a.createLease();
    expect((await acquire(pair.a, lease)).body).toMatchObject({
      status: 422,
      field: 'limit',
      detail: expect.stringContaining('PUT') as string,
    });
    const oneCall = { requestId: 'job-000000000000000000', lease: { ttlMs: 10_000, label: 'refused' } };
    const refused = await pair.b.call('POST', '/v1/semaphores/pool/acquire', { body: oneCall });
    expect(refused.body).toMatchObject({ status: 422, field: 'limit' });
    const { items } = (await pair.a.expect(200, 'GET', '/v1/leases')) as { items: { label: string }[] };
    expect(items.map(({ label }) => label)).not.toContain('refused');
    expect(await show(pair.b)).toMatchObject({ limit: null, permitsHeld: 0, waiterCount: 0 });

    await setLimit(pair.b, 2);
    const many = await acquire(pair.a, lease, { count: 3, waitMs: 20_000 });
    expect(many.body).toMatchObject({ status: 422, field: 'count', limit: 2 });
    expect((await acquire(pair.a, lease, { count: 2 })).body).toMatchObject({ held: true, count: 2 });
  });
});

test('a limit is forgotten some time after it was used or set, whichever came last', async () => {
  await using pair = await startPair();
  const { context } = pair.a.gateway;
  const idleMs = 200;
  const [chore, sweep] = [new TidyLines(context, { everyMs: idleMs, idleMs }), new Sweep(context, () => false)];
  const sweepLater = async (meanwhile?: () => Promise<unknown>): Promise<void> => {
    await chore.sweep(sweep);
    const sweptAt = performance.now();
    await eventually('that is long ago', () => performance.now() - sweptAt > idleMs);
    await meanwhile?.();
    await chore.sweep(sweep);
  };
  await setLimit(pair.a, 2);
  await sweepLater(() => setLimit(pair.b, 3));
  expect(await show(pair.a)).toMatchObject({ limit: 3 });
  await sweepLater();
  expect(await show(pair.a)).toMatchObject({ limit: null });
});
