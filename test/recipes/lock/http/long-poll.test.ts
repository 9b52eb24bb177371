/** Waiting for a change of a lock: by ETag and long poll, which a newcomer does not wake. */
import { describe, expect, it } from 'vitest';
import type { Client, Reply } from '../../../support/http/client.js';
import { throughout } from '../../../support/eventually.js';
import { startPair, startReplica } from '../../../support/start-gateway.js';
import { scaled } from '../../../support/timing.js';

function poll(client: Client, name: string, etag: string, waitMs?: number): Promise<Reply> {
  return client.call('GET', `/v1/locks/${name}${waitMs === undefined ? '' : `?waitMs=${waitMs}`}`, {
    headers: { 'if-none-match': etag },
  });
}

async function etagOf(client: Client, name: string): Promise<string> {
  return String((await client.call('GET', `/v1/locks/${name}`)).headers['etag']);
}

describe('the ETag of a lock', () => {
  it('is the same at both replicas, changes with the holder and not with who waits', async () => {
    await using pair = await startPair();
    const [one, two, three] = await Promise.all([1, 2, 3].map(() => pair.a.createLease({ ttlMs: 20_000 })));
    const seen = [await etagOf(pair.a, 'tagged')];
    const held = await pair.a.hold('tagged', one!);
    seen.push(await etagOf(pair.a, 'tagged'));
    await pair.b.acquire('tagged', two, { keepPlace: true });
    await pair.b.acquire('tagged', three, { keepPlace: true });
    expect(await etagOf(pair.b, 'tagged')).toBe(seen[1]);
    await pair.a.release('tagged', one!, { holdId: held.holdId });
    await pair.b.hold('tagged', two!, { keepPlace: true });
    seen.push(await etagOf(pair.b, 'tagged'));
    expect(await etagOf(pair.a, 'tagged')).toBe(seen[2]);
    expect(new Set(seen).size).toBe(3);
    for (const etag of seen) expect(etag).toMatch(/^(W\/)?"[^"]*"$/);
  });

  it('is refused without its double quotes, in place of a wait that would not wait', async () => {
    await using replica = await startReplica();
    const etag = (await etagOf(replica, 'quoted')).replace(/^W\//, '').slice(1, -1);
    expect((await poll(replica, 'quoted', etag, 20_000)).body).toMatchObject({
      status: 422,
      errors: [{ field: 'If-None-Match' }],
    });
  });

  it('answers 304 without a body while it is still the state, and 200 when it is not', async () => {
    await using pair = await startPair();
    const free = await etagOf(pair.a, 'cached');
    const unchanged = await poll(pair.b, 'cached', free);
    expect(unchanged.status).toBe(304);
    expect(unchanged.body).toBeUndefined();
    expect(unchanged.headers['etag']).toBe(free);
    const lease = await pair.a.createLease({ ttlMs: 20_000 });
    await pair.a.hold('cached', lease);
    const changed = await poll(pair.b, 'cached', free);
    expect(changed.status).toBe(200);
    expect(changed.body).toMatchObject({ holders: [{ leaseId: lease.leaseId }] });
    expect(changed.headers['etag']).not.toBe(free);
    expect(changed.headers['cache-control']).toBe('private, no-cache');
  });

  it('is recognised in the weak form that proxies make of it, and in a list', async () => {
    await using pair = await startPair();
    const lease = await pair.a.createLease({ ttlMs: 20_000 });
    await pair.a.hold('weakened', lease);
    const etag = await etagOf(pair.a, 'weakened');
    for (const form of [`W/${etag.replace(/^W\//, '')}`, `"something-else", ${etag}`]) {
      expect((await poll(pair.b, 'weakened', form)).status, form).toBe(304);
      const sentAt = performance.now();
      expect((await poll(pair.b, 'weakened', form, 400)).status, form).toBe(304);
      expect(performance.now() - sentAt, form).toBeGreaterThanOrEqual(300);
    }
    expect((await poll(pair.b, 'weakened', '"something-else"')).status).toBe(200);
  });
});

describe('a long poll', () => {
  it('answers when the lock changes hands at the other replica, with the new holder', async () => {
    await using pair = await startPair();
    const [one, two] = await Promise.all([
      pair.a.createLease({ ttlMs: 20_000 }),
      pair.a.createLease({ ttlMs: 20_000 }),
    ]);
    await pair.a.hold('handed', one);
    const etag = await etagOf(pair.b, 'handed');
    const polling = pair.b.expect(200, 'GET', '/v1/locks/handed?waitMs=20000', { headers: { 'if-none-match': etag } });
    await throughout('it waits', () => isPending(polling));
    await pair.a.release('handed', one);
    expect(await polling).toMatchObject({ holders: [] });

    await pair.a.hold('handed', two);
    const held = await etagOf(pair.b, 'handed');
    const second = poll(pair.b, 'handed', held, 20_000);
    await pair.a.endLease(two);
    expect((await second).body).toMatchObject({ holders: [] });
  });

  it('answers when a free lock is taken', async () => {
    await using pair = await startPair();
    const lease = await pair.a.createLease({ ttlMs: 20_000 });
    const polling = poll(pair.b, 'taken', await etagOf(pair.b, 'taken'), 20_000);
    await throughout('it waits', () => isPending(polling));
    await pair.a.hold('taken', lease);
    const { status, body } = await polling;
    expect(status).toBe(200);
    expect(body).toMatchObject({ holders: [{ leaseId: lease.leaseId }] });
  });

  it('is not woken by a newcomer in line, nor by one who leaves it', async () => {
    await using pair = await startPair();
    const [holder, waiter] = await Promise.all([
      pair.a.createLease({ ttlMs: 20_000 }),
      pair.b.createLease({ ttlMs: 20_000 }),
    ]);
    await pair.a.hold('undisturbed', holder);
    const polling = poll(pair.b, 'undisturbed', await etagOf(pair.b, 'undisturbed'), 20_000);
    expect((await pair.a.acquire('undisturbed', waiter, { keepPlace: true })).status).toBe(202);
    await throughout('it waits on', () => isPending(polling));
    expect((await pair.a.release('undisturbed', waiter)).status).toBe(204);
    expect((await pair.a.hold('undisturbed', holder)).alreadyHeld).toBe(true);
    await throughout('it waits on', () => isPending(polling));
    await pair.a.release('undisturbed', holder);
    expect((await polling).body).toMatchObject({ holders: [] });
  });

  it('answers 304 with the ETag when nothing changed in time, not before', async () => {
    await using pair = await startPair();
    const etag = await etagOf(pair.a, 'quiet');
    const sentAt = performance.now();
    const { status, headers } = await poll(pair.b, 'quiet', etag, 500);
    expect(status).toBe(304);
    expect(headers['etag']).toBe(etag);
    const waited = performance.now() - sentAt;
    expect(waited).toBeGreaterThanOrEqual(400);
    expect(waited).toBeLessThan(500 + scaled(2_000));
  });

  it('answers at once when the state is another one already', async () => {
    await using pair = await startPair();
    const before = await etagOf(pair.a, 'outdated');
    const lease = await pair.a.createLease({ ttlMs: 20_000 });
    await pair.a.hold('outdated', lease);
    const sentAt = performance.now();
    expect((await poll(pair.b, 'outdated', before, 20_000)).body).toMatchObject({
      holders: [{ leaseId: lease.leaseId }],
    });
    expect(performance.now() - sentAt).toBeLessThan(5_000);
  });

  it('refuses a waitMs beyond the longest wait and one that is no whole number', async () => {
    await using replica = await startReplica({ settings: { POSTERN_MAX_WAIT_MS: '2000' } });
    for (const waitMs of ['2001', '-1', '1.5', 'long', '']) {
      const { status, body } = await replica.call('GET', `/v1/locks/any?waitMs=${waitMs}`, {
        headers: { 'if-none-match': '"x"' },
      });
      expect(status, waitMs).toBe(422);
      expect(body, waitMs).toMatchObject({ code: 'invalid', field: 'waitMs', outcome: 'not-applied' });
    }
    expect((await poll(replica, 'any', '"x"', 2_000)).status).toBe(200);
  });
});

async function isPending(promise: Promise<unknown>): Promise<boolean> {
  const pending = Symbol('pending');
  return (await Promise.race([promise, Promise.resolve(pending)])) === pending;
}
