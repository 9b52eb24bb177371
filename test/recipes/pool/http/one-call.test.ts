/** Lease and members in one request: for a client that has no token yet, also when the answer is lost (C14). */
import { expect, test } from 'vitest';
import { eventually, throughout } from '../../../support/eventually.js';
import type { LeaseHandle, Reply } from '../../../support/http/client.js';
import { spawnReplica, startPair, startReplica, type Replica } from '../../../support/start-gateway.js';
import { freshRoot } from '../../../support/start-zookeeper.js';
import { acquire, call, leaseFor, NAME, put, release, show, untilWaiting, type Acquired } from '../client.js';

const TIMES = 6;
const TTL_MS = 60_000;

type Granted = Acquired & LeaseHandle;

function oneCall(
  replica: Pick<Replica, 'call'>,
  body: Record<string, unknown> = {},
  signal?: AbortSignal,
): Promise<Reply> {
  const request = { lease: { ttlMs: TTL_MS, label: 'boot' }, requestId: 'boot-00000000000000000000', ...body };
  return replica.call('POST', `/v1/pools/${NAME}/acquire`, { body: request, ...(signal && { signal }) });
}

/** Makes a pool of one member, and takes it. */
async function taken(replica: Replica): Promise<LeaseHandle> {
  await put(replica, { of: 1 });
  const first = await leaseFor(replica, { ttlMs: TTL_MS });
  await acquire(replica, first);
  return first;
}

function untilItWaits(replica: Replica, count = 1): Promise<unknown> {
  const what = `${count} of its requests wait`;
  return eventually(what, async () => (await replica.metric('postern_waiters')) === count);
}

async function leaseIds(replica: Replica): Promise<string[]> {
  const { items } = (await replica.expect(200, 'GET', '/v1/leases')) as { items: { leaseId: string }[] };
  return items.map(({ leaseId }) => leaseId).sort();
}

test('an acquire that makes its lease answers with the token, and a repetition finds lease and members (C14)', async () => {
  await using pair = await startPair();
  const { a, b } = pair;
  await put(a, { of: 3, quarantineMs: 60_000 });
  const got = await oneCall(a, { count: 2, prefer: 'same' });
  expect([got.status, got.body]).toMatchObject([200, { alreadyHeld: false, ttlMs: TTL_MS }]);
  const { holdId, members, leaseId, leaseToken } = got.body as unknown as Granted;
  expect((await show(b)).held[0]).toMatchObject({ leaseId, owner: 'boot' });
  const again = await oneCall(b, { count: 2, prefer: 'same' });
  expect(again.body).toMatchObject({ alreadyHeld: true, holdId, members, leaseId, leaseToken });
  const requestId = 'boot-00000000000000000000';
  expect(await acquire(b, { leaseToken }, { count: 2, requestId })).toMatchObject({ alreadyHeld: true, holdId });
  expect((await oneCall(b, { lease: { label: 'other' } })).body).toMatchObject({ status: 409, code: 'conflict' });
  await release(b, { leaseToken }, { requestId });
  await b.expect(204, 'DELETE', '/v1/leases/self', { leaseToken });
  expect(await show(a)).toMatchObject({ free: 3, restingCount: 0 });
  // The lease has ended, so the same request makes another one.
  const next = (await oneCall(b)).body as unknown as Granted;
  expect(next.alreadyHeld).toBe(false);
  expect(await leaseIds(a)).toEqual([next.leaseId]);
  expect(next.leaseId).not.toBe(leaseId);
});

test('a refusal ends the lease that it made, and no other; a place that is kept has its token (C14)', async () => {
  await using pair = await startPair();
  const { a, b } = pair;
  expect((await oneCall(a)).status).toBe(404);
  await eventually('its lease is gone', async () => (await leaseIds(a)).length === 0);
  await put(a, { of: 1, quarantineMs: 60_000 });
  const first = await leaseFor(a, { ttlMs: TTL_MS });
  await acquire(a, first);
  for (const body of [{}, { waitMs: 50 }, { count: 2 }]) {
    expect((await oneCall(b, body)).body, JSON.stringify(body)).toMatchObject({
      code: 'count' in body ? 'invalid' : 'lock-held',
    });
    await eventually('its lease is gone', async () => (await leaseIds(a)).join() === first.leaseId);
  }
  expect(await show(a)).toMatchObject({ heldCount: 1, waiterCount: 0 });
  const kept = await oneCall(b, { keepPlace: true });
  expect([kept.status, kept.body]).toMatchObject([202, { held: false, position: 1, ttlMs: TTL_MS }]);
  const { leaseId, leaseToken } = kept.body as unknown as Granted;
  expect((await oneCall(a, { keepPlace: true })).body).toMatchObject({ position: 1, leaseToken });
  // Refused, but by an attempt that found the lease: its client may have the token.
  expect((await oneCall(a)).body).toMatchObject({ code: 'lock-held' });
  expect(await leaseIds(b)).toEqual([first.leaseId, leaseId].sort());
  await release(b, first);
  expect((await oneCall(b)).body).toMatchObject({ held: true, leaseId, leaseToken, alreadyHeld: false });
  await b.expect(204, 'DELETE', '/v1/leases/self', { leaseToken });
  expect(await show(a)).toMatchObject({ free: 1, restingCount: 0 });
});

test('one acquire that is sent many times at once takes its members once, for one lease (C14)', async () => {
  await using pair = await startPair();
  await put(pair.a, { of: TIMES });
  const sent = Array.from({ length: TIMES }, (_, i) => oneCall(i % 2 === 0 ? pair.a : pair.b, { waitMs: 5_000 }));
  const replies = await Promise.all(sent);
  for (const { status, body } of replies) if (status !== 200) expect(body).toMatchObject({ code: 'conflict' });
  const { holdId, leaseId, leaseToken } = (await oneCall(pair.b)).body as unknown as Granted;
  for (const { status, body } of replies) if (status === 200) expect(body).toMatchObject({ holdId, leaseToken });
  expect(replies.some(({ status }) => status === 200)).toBe(true);
  await eventually('the leases of the others are gone', async () => (await leaseIds(pair.a)).join() === leaseId);
  expect(await show(pair.a)).toMatchObject({ heldCount: 1, waiterCount: 0 });
});

test('a refusal keeps the lease that a repetition has found meanwhile (C14)', async () => {
  await using pair = await startPair();
  const { a, b } = pair;
  const first = await taken(a);
  const gone = new AbortController();
  const made = oneCall(a, { waitMs: 50_000 }, gone.signal).catch(() => 'gone');
  await untilWaiting(b, 1);
  await untilItWaits(a);
  const found = oneCall(b, { waitMs: 50_000 });
  await untilItWaits(b);
  gone.abort();
  expect(await made).toBe('gone');
  await untilItWaits(a, 0);
  await release(b, first);
  const { leaseId } = (await found).body as unknown as Granted;
  expect(await leaseIds(a)).toEqual([first.leaseId, leaseId].sort());
});

test('a client that goes away and wants its place kept finds it, and its lease', async () => {
  await using pair = await startPair();
  const { a, b } = pair;
  const first = await taken(a);
  const gone = new AbortController();
  const kept = { waitMs: 50_000, keepPlace: true };
  const left = oneCall(a, kept, gone.signal).catch(() => 'gone');
  await untilWaiting(b, 1);
  await untilItWaits(a);
  const before = await leaseIds(b);
  gone.abort();
  expect(await left).toBe('gone');
  await untilItWaits(a, 0);
  await throughout('its place stays', async () => (await leaseIds(b)).join() === before.join());
  const found = oneCall(b, kept);
  await untilItWaits(b);
  await release(b, first);
  const { leaseId } = (await found).body as unknown as Granted;
  expect(before).toEqual([first.leaseId, leaseId].sort());
});

test('a client that goes away leaves no place and no lease; a killed replica leaves both to the repetition', async () => {
  const root = freshRoot();
  await using doomed = await spawnReplica({ root });
  await using other = await startReplica({ root });
  const first = await taken(other);
  const gone = new AbortController();
  const left = oneCall(other, { waitMs: 50_000 }, gone.signal).catch(() => 'gone');
  await untilItWaits(other);
  gone.abort();
  expect(await left).toBe('gone');
  await untilWaiting(other, 0);
  await eventually('its lease is gone', async () => (await leaseIds(other)).join() === first.leaseId);
  const lost = oneCall(doomed, { waitMs: 50_000 }).catch(() => 'lost');
  await untilWaiting(other, 1);
  const before = await leaseIds(other);
  await doomed.kill();
  expect(await lost).toBe('lost');
  const repeated = oneCall(other, { waitMs: 50_000 });
  await untilItWaits(other);
  await release(other, first);
  const { leaseId } = (await repeated).body as unknown as Granted;
  expect(before).toEqual([first.leaseId, leaseId].sort());
});

test('is refused with what is wrong: two leases, none of its own requestId, or one that can be guessed', async () => {
  await using replica = await startReplica();
  await put(replica, { of: 1 });
  const first = await leaseFor(replica);
  const wrong = [
    [await call(replica, 'acquire', first, { lease: {}, requestId: 'boot-00000000000000000000' }), 'lease'],
    [await oneCall(replica, { requestId: undefined }), 'requestId'],
    [await oneCall(replica, { requestId: 'short' }), 'requestId'],
    [await oneCall(replica, { lease: { ttlMs: 1 } }), 'ttlMs'],
    [await oneCall(replica, { lease: {}, prefer: 'same' }), 'owner'],
  ] as const;
  for (const [reply, field] of wrong) expect([reply.status, reply.body]).toMatchObject([422, { field }]);
  const none = await replica.call('POST', `/v1/pools/${NAME}/acquire`, { body: {} });
  expect([none.status, none.body]).toMatchObject([400, { code: 'lease-token-required' }]);
  await eventually('its lease is gone', async () => (await leaseIds(replica)).join() === first.leaseId);
  expect(await show(replica)).toMatchObject({ free: 1, waiterCount: 0 });
});
