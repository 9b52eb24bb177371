import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { HoldLostError, Postern, PosternError, type PosternOptions } from '../../src/client/index.js';
import { eventually, throughout } from '../support/eventually.js';
import { startPair, type Pair } from '../support/start-gateway.js';
import { scaled } from '../support/timing.js';

const TTL_MS = 3_000;
/** Renewed many times; a busy machine keeps this process from its heartbeats for some hundred milliseconds. */
const SHORT_MS = scaled(1_000);

let pair: Pair;
beforeAll(async () => {
  pair = await startPair();
});
afterAll(() => pair[Symbol.asyncDispose]());

const client = (options: Partial<PosternOptions> = {}): Postern =>
  new Postern({ urls: [pair.a.url, pair.b.url], ttlMs: TTL_MS, ...options });

const codeOf = (error: unknown): unknown => (error as PosternError).code;

test('holds the lock while the function runs, and releases it afterwards', async () => {
  await using postern = client({ label: 'backup job' });
  const name = randomUUID();
  const result = await postern.lock(name).using({}, async ({ fencingToken, signal }) => {
    const { holders } = await pair.b.showLock(name);
    expect(holders).toMatchObject([{ fencingToken, label: 'backup job' }]);
    expect(signal.aborted).toBe(false);
    return 7;
  });
  expect(result).toBe(7);
  expect((await postern.lock(name).show()).holderCount).toBe(0);
});

test('releases the lock when the function throws, and throws that', async () => {
  await using postern = client();
  const name = randomUUID();
  const failing = postern.lock(name).using({}, () => Promise.reject(new Error('no disk')));
  await expect(failing).rejects.toThrow('no disk');
  expect((await pair.a.showLock(name)).holderCount).toBe(0);
});

test('keeps the lease alive for many times its TTL', async () => {
  await using postern = client({ ttlMs: SHORT_MS });
  const hold = await postern.lock(randomUUID()).acquire();
  await throughout('it is held', () => hold.ok() && hold.leftMs > 0 && hold.leftMs <= SHORT_MS * 0.7, {
    forMs: 3 * SHORT_MS,
  });
  await hold.release();
  expect(hold.ok()).toBe(false);
  expect(hold.leftMs).toBe(0);
  expect(hold.signal.aborted).toBe(false);
  expect(() => hold.assertHeld()).toThrow(HoldLostError);
});

test('waits in line longer than one request may wait, and keeps its place', async () => {
  await using holder = client();
  await using waiter = client({ ttlMs: SHORT_MS }); // a request of its waits for no longer than that
  const name = randomUUID();
  const held = await holder.lock(name).acquire();
  const waiting = waiter.lock(name).acquire({ waitMs: Infinity });
  await pair.a.untilWaiting(name, 1);
  const since = ((await pair.a.showLock(name)) as { waiters: { since: string }[] }).waiters[0]?.since;
  await throughout(
    'it stands where it stood',
    async () => ((await pair.a.showLock(name)) as { waiters: { since: string }[] }).waiters[0]?.since === since,
    { forMs: 2.5 * SHORT_MS },
  );
  await held.release();
  const hold = await waiting;
  expect(hold.fencingToken).toBeGreaterThan(held.fencingToken);
});

test('says who holds it when it is not granted in time', async () => {
  await using holder = client({ label: 'the other' });
  await using late = client();
  const name = randomUUID();
  await holder.lock(name).acquire();
  for (const waitMs of [0, 200]) {
    const error: unknown = await late
      .lock(name)
      .acquire({ waitMs })
      .catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(PosternError);
    expect(error).toMatchObject({ code: 'lock-held', status: 409, retryable: true, outcome: 'not-applied' });
    expect((error as PosternError).problem?.holder).toMatchObject({ label: 'the other' });
  }
});

test('leaves no place behind when the caller gives up', async () => {
  await using holder = client();
  await using waiter = client();
  const name = randomUUID();
  await holder.lock(name).acquire();
  const tired = new AbortController();
  const waiting = waiter.lock(name).acquire({ waitMs: Infinity, signal: tired.signal });
  await pair.a.untilWaiting(name, 1);
  tired.abort(new Error('enough'));
  await expect(waiting).rejects.toThrow('enough');
  await eventually('nobody waits', async () => (await pair.a.showLock(name)).waiterCount === 0);
});

test('is counted within one chain of calls, and exclusive between two', async () => {
  await using postern = client();
  const name = randomUUID();
  const lock = postern.lock(name);
  const tokens: number[] = [];
  let inside = 0;
  let most = 0;
  const work = (): Promise<void> =>
    lock.using({ waitMs: 10_000 }, async (outer) => {
      most = Math.max(most, (inside += 1));
      await postern.lock(name).using({}, async (inner) => {
        expect(inner).toBe(outer);
        await pair.a.showLock(name);
      });
      expect(outer.ok()).toBe(true);
      tokens.push(outer.fencingToken);
      inside -= 1;
    });
  await Promise.all([work(), work(), work()]);
  expect(most).toBe(1);
  expect(new Set(tokens).size).toBe(3);
  expect(tokens).toEqual([...tokens].sort((one, other) => one - other));
});

test('aborts with the cause when the hold is revoked, broken, or its lease is ended', async () => {
  await using postern = client({ ttlMs: SHORT_MS });
  const causeOf = async (loss: (name: string) => Promise<unknown>, onRevoke?: () => void): Promise<string> => {
    const name = randomUUID();
    const hold = await postern.lock(name).acquire(onRevoke ? { onRevoke } : {});
    await loss(name);
    await eventually('the signal aborts', () => hold.signal.aborted);
    expect(hold.signal.reason).toBeInstanceOf(HoldLostError);
    await hold.release();
    return (hold.signal.reason as HoldLostError).cause;
  };
  const revoke = (body: object) => (name: string) => pair.a.expect(200, 'POST', `/v1/locks/${name}/revoke`, { body });

  expect(await causeOf(revoke({ reason: 'maintenance' }))).toBe('revoked');
  let asked = 0;
  expect(await causeOf(revoke({ graceMs: SHORT_MS }), () => (asked += 1))).toBe('revoked');
  expect(asked).toBe(1);
  const endLease = async (name: string): Promise<void> => {
    const { holders } = (await pair.b.showLock(name)) as { holders: { leaseId: string }[] };
    await pair.b.expect(204, 'DELETE', `/v1/leases/${holders[0]?.leaseId}`);
  };
  expect(await causeOf(endLease)).toBe('lease-expired');
  // The next one stands under a lease of its own.
  await postern.lock(randomUUID()).using({}, ({ signal }) => expect(signal.aborted).toBe(false));
});

test('throws the reason of a hold that was lost while the function ran', async () => {
  await using postern = client({ ttlMs: SHORT_MS });
  const name = randomUUID();
  const working = postern.lock(name).using({}, async ({ signal }) => {
    await pair.a.expect(200, 'POST', `/v1/locks/${name}/revoke`, { body: { graceMs: 0 } });
    await eventually('it is told', () => signal.aborted);
  });
  await expect(working).rejects.toMatchObject({ name: 'HoldLostError', cause: 'revoked' });
});

test.each(['lost', 'released'])('runs nothing within a function whose lock was %s', async (how) => {
  await using postern = client({ ttlMs: SHORT_MS });
  const name = randomUUID();
  let ran = false;
  const working = postern.lock(name).using({}, async (hold) => {
    if (how === 'released') await hold.release();
    else {
      await pair.a.expect(200, 'POST', `/v1/locks/${name}/revoke`, { body: { graceMs: 0 } });
      await eventually('it is told', () => hold.signal.aborted);
    }
    await postern.lock(name).using({ waitMs: Infinity }, () => (ran = true));
  });
  await expect(working).rejects.toThrow(HoldLostError);
  expect(ran).toBe(false);
});

test('close loses every hold, frees it at the gateway, and ends every wait', async () => {
  const postern = client();
  const [held, other] = [randomUUID(), randomUUID()];
  await using elsewhere = client();
  await elsewhere.lock(other).acquire();
  const hold = await postern.lock(held).acquire();
  const waiting = postern.lock(other).acquire({ waitMs: Infinity }).catch(codeOf);
  await pair.a.untilWaiting(other, 1);
  await postern.close();
  expect(hold.signal.reason).toMatchObject({ cause: 'closed' });
  expect(await waiting).toBe('closed');
  expect((await pair.a.showLock(held)).holderCount).toBe(0);
  await eventually('nobody waits', async () => (await pair.a.showLock(other)).waiterCount === 0);
  expect(await postern.lock(held).acquire().catch(codeOf)).toBe('closed');
});

test('any operation of the contract can be asked for', async () => {
  await using postern = client({ namespace: 'staging' });
  const { body } = await postern.request('PUT /v1/counters/{name}', { path: { name: 'visits' }, body: { value: 5 } });
  expect(body).toEqual({ name: 'visits', value: 5 });
  const added = await postern.request('POST /v1/counters/{name}/add', { path: { name: 'visits' }, body: { by: 2 } });
  expect(added.body.value).toBe(7);
  const lease = await postern.request('GET /v1/leases/self', { lease: true });
  expect(lease.body).toMatchObject({ namespace: 'staging', ttlMs: TTL_MS });
  const missing = postern.request('GET /v1/leases/{leaseId}', { path: { leaseId: '0'.repeat(32) } });
  expect(await missing.catch(codeOf)).toBe('not-found');
  // @ts-expect-error -- there is no such operation
  void (() => postern.request('GET /v1/lock/{name}', { path: { name: 'x' } }));
  // @ts-expect-error -- it needs a path
  void (() => postern.request('GET /v1/locks/{name}'));
  // @ts-expect-error -- the body has no such member
  void (() => postern.request('POST /v1/leases', { body: { ttl: 5 } }));
});

test('refuses options that cannot be used', () => {
  expect(() => new Postern({ urls: [] })).toThrow('urls is empty');
  expect(() => new Postern({ urls: ['localhost:7070'] })).toThrow('begins with neither');
  expect(() => client({ ttlMs: 5_000, marginMs: 5_000 })).toThrow('marginMs is 5000');
});

test('acquires several locks or none, each with a hold of its own', async () => {
  await using postern = client();
  await using other = client({ ttlMs: SHORT_MS }); // a request of its waits for no longer than that
  const [a, b] = [`a-${randomUUID()}`, `b-${randomUUID()}`];
  const holds = await postern.locks([b, a]).acquire();
  expect(holds.map(({ name }) => name)).toEqual([b, a]);
  for (const { name, fencingToken, holdId } of holds)
    expect((await pair.b.showLock(name)).holders).toMatchObject([{ fencingToken, holdId }]);
  expect(await other.locks([a, b]).acquire().catch(codeOf)).toBe('lock-held');
  const waiting = other.locks([a, b]).acquire({ waitMs: Infinity });
  await holds[0]?.release();
  await pair.a.untilWaiting(a, 1);
  await holds[1]?.release();
  expect((await waiting).map(({ name }) => name)).toEqual([a, b]);
});

test('leaves none of several locks behind when the wait for them is given up', async () => {
  await using holder = client();
  await using postern = client();
  const [a, b] = [`a-${randomUUID()}`, `b-${randomUUID()}`];
  await holder.lock(b).acquire();
  const control = new AbortController();
  const waiting = postern.locks([a, b]).acquire({ waitMs: Infinity, signal: control.signal });
  await pair.a.untilWaiting(b, 1);
  control.abort(new Error('enough'));
  await expect(waiting).rejects.toThrow('enough');
  await eventually('nothing is held', async () => (await pair.a.showLock(a)).holderCount === 0);
});
