/** Lease and lock in one request: for a client that has no token yet, also when the answer is lost (protocol C14). */
import { describe, expect, it, test } from 'vitest';
import { makeApiKeys } from '../../../support/http/api-keys.js';
import type { Client, LeaseHandle } from '../../../support/http/client.js';
import { eventually, throughout } from '../../../support/eventually.js';
import { startPair, startReplica } from '../../../support/start-gateway.js';
import { scaled } from '../../../support/timing.js';

async function leaseIds(client: Client): Promise<string[]> {
  const { items } = (await client.expect(200, 'GET', '/v1/leases')) as { items: { leaseId: string }[] };
  return items.map(({ leaseId }) => leaseId);
}

describe('acquiring with a lease in the same request', () => {
  it('answers the hold, the lease and its token, which works at every replica', async () => {
    await using pair = await startPair();
    const { status, body } = await pair.a.acquire('one-call', undefined, {
      lease: { ttlMs: 5_000, label: 'deploy' },
      requestId: 'deploy-1-0123456789abcdef',
      data: { commit: 'abc' },
    });
    expect(status).toBe(200);
    expect(body).toMatchObject({
      name: 'one-call',
      held: true,
      requestId: 'deploy-1-0123456789abcdef',
      alreadyHeld: false,
      ttlMs: 5_000,
    });
    const lease = body as LeaseHandle;
    expect((await pair.b.showLease(lease)).body).toMatchObject({
      leaseId: lease.leaseId,
      label: 'deploy',
      ttlMs: 5_000,
      holds: [{ name: 'one-call', held: true, holdId: body.holdId, requestId: 'deploy-1-0123456789abcdef' }],
    });
    expect(await pair.b.showLock('one-call')).toMatchObject({
      holders: [{ leaseId: lease.leaseId, label: 'deploy', data: { commit: 'abc' } }],
    });
    expect((await pair.b.heartbeat(lease)).status).toBe(200);
    expect((await pair.b.release('one-call', lease, { holdId: body.holdId })).status).toBe(204);
    expect((await pair.a.heartbeat(lease)).status).toBe(200); // the lease outlives the hold
  });

  it('takes the default ttl when none is given, and the Idempotency-Key in place of the requestId', async () => {
    await using pair = await startPair();
    const headers = { 'idempotency-key': 'by-header-0123456789abcdef' };
    const { body } = await pair.a.acquire('defaults', undefined, { lease: {} }, { headers });
    expect(body).toMatchObject({ held: true, ttlMs: 30_000, requestId: 'by-header-0123456789abcdef' });
    const again = await pair.b.acquire('defaults', undefined, { lease: {} }, { headers });
    expect(again.body).toMatchObject({ holdId: body.holdId, leaseToken: body.leaseToken, alreadyHeld: true });
  });

  it('answers the same hold and the same token when it is repeated, at either replica, while the lease lives', async () => {
    await using pair = await startPair();
    const request = { lease: { ttlMs: 20_000 }, requestId: 'lost-answer-0000000000' };
    const first = (await pair.a.acquire('repeated', undefined, request)).body;
    for (const replica of [pair.b, pair.a]) {
      const { status, body } = await replica.acquire('repeated', undefined, request);
      expect(status).toBe(200);
      expect(body).toMatchObject({
        holdId: first.holdId,
        fencingToken: first.fencingToken,
        leaseId: first.leaseId,
        leaseToken: first.leaseToken,
        alreadyHeld: true,
      });
    }
    expect(await leaseIds(pair.b)).toEqual([first.leaseId]);
    expect(await pair.b.hold('repeated', first as LeaseHandle, { requestId: 'lost-answer-0000000000' })).toMatchObject({
      holdId: first.holdId,
      alreadyHeld: true,
    });
  });

  it('gives one hold and one lease when it is sent many times at once to both replicas', async () => {
    await using pair = await startPair();
    const request = { lease: { ttlMs: 20_000 }, requestId: 'at-once-00000000000000', waitMs: 5_000 };
    const replies = await Promise.all(
      Array.from({ length: 10 }, (_, index) => [pair.a, pair.b][index % 2]!.acquire('at-once', undefined, request)),
    );
    expect(replies.map(({ status }) => status)).toEqual(Array(10).fill(200));
    for (const member of ['holdId', 'fencingToken', 'leaseId', 'leaseToken']) {
      expect(new Set(replies.map(({ body }) => body[member] as unknown)).size, member).toBe(1);
    }
    expect(await pair.a.showLock('at-once')).toMatchObject({ waiterCount: 0 });
    await eventually('one lease is left', async () => (await leaseIds(pair.a)).length === 1);
    expect(await leaseIds(pair.b)).toEqual([replies[0]!.body.leaseId]);
  });

  it('makes a new lease and a new hold when the first lease has ended', async () => {
    await using pair = await startPair();
    const request = { lease: { ttlMs: 20_000 }, requestId: 'next-run-0000000000000' };
    const first = (await pair.a.acquire('ended', undefined, request)).body;
    expect((await pair.b.endLease(first as LeaseHandle)).status).toBe(204);
    const second = (await pair.b.acquire('ended', undefined, request)).body;
    expect(second).toMatchObject({ held: true, alreadyHeld: false });
    expect(second.leaseId).not.toBe(first.leaseId);
    expect(second.fencingToken).toBeGreaterThan(first.fencingToken);
  });

  it('is another request of another principal, and under another requestId', async () => {
    await using keys = await makeApiKeys({ alice: '*', bob: '*' });
    await using pair = await startPair({ settings: { POSTERN_AUTH_FILE: keys.file } });
    await using alice = keys.as('alice', pair.a.url);
    await using bob = keys.as('bob', pair.b.url);
    const request = { lease: { ttlMs: 20_000 }, requestId: 'same-00000000000000000' };
    const hers = (await alice.acquire('principals', undefined, request)).body;
    const refused = await bob.acquire('principals', undefined, request);
    expect(refused.body).toMatchObject({ status: 409, code: 'lock-held', holder: { leaseId: hers.leaseId } });
    expect(JSON.stringify(refused.body)).not.toContain(hers.leaseToken);
    expect(
      (await alice.acquire('principals', undefined, { ...request, requestId: 'other-0000000000000000' })).status,
    ).toBe(409);
    expect(await leaseIds(alice)).toEqual([hers.leaseId]);
  });
});

test('two clients with one requestId and labels of their own are told, and do not share a lease', async () => {
  await using pair = await startPair();
  const request = (label: string) => ({ lease: { ttlMs: 20_000, label }, requestId: 'nightly-00000000000000' });
  const first = await pair.a.acquire('same', undefined, request('one'));
  expect(first.status).toBe(200);
  const second = await pair.b.acquire('same', undefined, request('two'));
  expect(second.body).toMatchObject({ status: 409, code: 'conflict', label: 'one' });
  expect(JSON.stringify(second.body)).not.toContain(first.body.leaseToken);
  expect((await pair.b.acquire('same', undefined, request('one'))).body).toMatchObject({ alreadyHeld: true });
});

describe('when the lock is held by somebody else', () => {
  it('ends its lease with the refusal, at once and after a wait in vain', async () => {
    await using pair = await startPair();
    const holder = await pair.a.createLease({ ttlMs: 20_000 });
    await pair.a.hold('refused', holder);
    for (const waitMs of [0, 300]) {
      const { status, body } = await pair.b.acquire('refused', undefined, {
        lease: { ttlMs: 20_000 },
        requestId: 'r-00000000000000000000',
        waitMs,
      });
      expect(status).toBe(409);
      expect(body).toMatchObject({ code: 'lock-held', holder: { leaseId: holder.leaseId } });
      await eventually('only the lease of the holder is left', async () => (await leaseIds(pair.a)).length === 1);
    }
    expect(await pair.a.showLock('refused')).toMatchObject({ waiterCount: 0 });
  });

  it('waits, longer than the ttl if need be, and is granted', async () => {
    await using pair = await startPair();
    const holder = await pair.a.createLease({ ttlMs: 20_000 });
    await pair.a.hold('awaited', holder);
    const waiting = pair.b.acquire('awaited', undefined, {
      lease: { ttlMs: scaled(1_200) },
      requestId: 'r-00000000000000000000',
      waitMs: 20_000,
    });
    await pair.a.untilWaiting('awaited', 1);
    await throughout('it stays in line', async () => (await pair.a.showLock('awaited')).waiterCount === 1, {
      forMs: scaled(2_600),
      everyMs: 50,
    });
    await pair.a.release('awaited', holder);
    const { status, body } = await waiting;
    expect(status).toBe(200);
    expect((await pair.a.heartbeat(body as LeaseHandle)).body).toMatchObject({ leaseId: body.leaseId });
  });

  it('is answered 202 with the token when it keeps its place, and goes on with that token', async () => {
    await using pair = await startPair();
    const holder = await pair.a.createLease({ ttlMs: 20_000 });
    await pair.a.hold('kept', holder);
    const request = { lease: { ttlMs: 20_000 }, requestId: 'r-00000000000000000000', keepPlace: true };
    const { status, body } = await pair.b.acquire('kept', undefined, request);
    expect(status).toBe(202);
    expect(body).toMatchObject({ held: false, position: 1, requestId: 'r-00000000000000000000' });
    const lease = body as LeaseHandle;
    expect((await pair.a.acquire('kept', undefined, request)).body).toMatchObject({
      position: 1,
      leaseToken: lease.leaseToken,
    });
    const going = pair.a.acquire('kept', lease, {
      requestId: 'r-00000000000000000000',
      keepPlace: true,
      waitMs: 20_000,
    });
    await eventually('it waits', async () => (await pair.a.metric('postern_waiters', { kind: 'lock' })) === 1);
    await throughout('one place', async () => (await pair.b.showLock('kept')).waiterCount === 1);
    await pair.b.release('kept', holder);
    const granted = await going;
    expect(granted.body).toMatchObject({
      held: true,
      requestId: 'r-00000000000000000000',
      leaseId: (await pair.a.showLease(lease)).body.leaseId,
    });
    expect((await pair.b.release('kept', lease, { requestId: 'r-00000000000000000000' })).status).toBe(204);
    expect(await pair.a.showLock('kept')).toMatchObject({ holders: [], waiterCount: 0 });
  });

  it('gives up the place with the refusal also when an earlier try had kept it', async () => {
    await using pair = await startPair();
    const holder = await pair.a.createLease({ ttlMs: 20_000 });
    await pair.a.hold('kept-before', holder);
    const request = { lease: { ttlMs: 20_000 }, requestId: 'r-00000000000000000000' };
    expect((await pair.a.acquire('kept-before', undefined, { ...request, keepPlace: true })).status).toBe(202);
    const { body } = await pair.b.acquire('kept-before', undefined, { ...request, waitMs: 200 });
    expect(body).toMatchObject({ status: 409, code: 'lock-held' });
    expect(await pair.a.showLock('kept-before')).toMatchObject({ waiterCount: 0 });
  });

  it('leaves neither place nor lease behind when its client goes away', async () => {
    await using pair = await startPair();
    const holder = await pair.a.createLease({ ttlMs: 20_000 });
    await pair.a.hold('left', holder);
    const gone = new AbortController();
    const waiting = pair.b.acquire(
      'left',
      undefined,
      { lease: { ttlMs: 20_000 }, requestId: 'r-00000000000000000000', waitMs: 20_000 },
      { signal: gone.signal },
    );
    await pair.a.untilWaiting('left', 1);
    gone.abort();
    await expect(waiting).rejects.toThrow();
    await eventually('nobody is in line', async () => (await pair.a.showLock('left')).waiterCount === 0);
    await eventually('only the lease of the holder is left', async () => (await leaseIds(pair.a)).length === 1);
  });
});

describe('what is refused', () => {
  it('needs a requestId, a ttl within bounds and only one lease, else nothing is done', async () => {
    await using replica = await startReplica();
    const lease = await replica.createLease({ ttlMs: 20_000 });
    const refusals = [
      [await replica.acquire('bad', undefined, { lease: {} }), 'requestId'],
      [await replica.acquire('bad', undefined, { lease: { ttlMs: 10 }, requestId: 'r-00000000000000000000' }), 'ttlMs'],
      [
        await replica.acquire('bad', undefined, { lease: { ttlMs: 300_001 }, requestId: 'r-00000000000000000000' }),
        'ttlMs',
      ],
      [
        await replica.acquire('bad', undefined, { lease: { metadata: {} }, requestId: 'r-00000000000000000000' }),
        'metadata',
      ],
      [await replica.acquire('bad', undefined, { lease: true, requestId: 'r' }), 'lease'],
      [await replica.acquire('bad', lease, { lease: {}, requestId: 'r-00000000000000000000' }), 'lease'],
      // Anybody else might have made it up, and would be handed the same token.
      [await replica.acquire('bad', undefined, { lease: {}, requestId: 'x'.repeat(21) }), 'requestId'],
      [
        await replica.acquire('bad', undefined, { lease: {} }, { headers: { 'idempotency-key': 'nightly' } }),
        'Idempotency-Key',
      ],
    ] as const;
    for (const [{ status, body }, field] of refusals) {
      expect(status, field).toBe(422);
      expect(body).toMatchObject({ code: 'invalid', outcome: 'not-applied' });
      expect(body.field as string).toContain(field);
    }
    expect(refusals[1][0].body).toMatchObject({ minTtlMs: 400, maxTtlMs: 300_000 });
    expect((await replica.acquire('bad', undefined, { requestId: 'r' })).body).toMatchObject({
      status: 400,
      code: 'lease-token-required',
    });
    expect(await replica.showLock('bad')).toMatchObject({ holders: [], waiterCount: 0 });
    expect(await leaseIds(replica)).toEqual([lease.leaseId]);
  });
});
