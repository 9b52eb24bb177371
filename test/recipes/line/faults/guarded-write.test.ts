/**
 * Writes that depend on a hold. The first two tests are one story, with and without the guard: a holder is stopped for
 * longer than its lease lives, another one takes the lock and writes, and then the first one wakes and writes what it
 * had in hand.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { describe, expect, test } from 'vitest';
import { expireSession, startPair, type Pair } from '../../../support/start-gateway.js';
import { get, keysOf, put, remove, write } from '../../config/client.js';
import { scaled } from '../../../support/timing.js';
import { beforeMulti } from '../../../support/scene.js';

/** Of the lease that ends: a client that is only slow must not lose it. */
const TTL_MS = scaled(2_000);

/**
 * A client of its own process: it takes a lease and the lock, heartbeats, reads the balance, says so, and at the next
 * line of its input writes the balance plus ten, under the guard if it has been told to.
 */
const HOLDER = `
const [url, guarded] = process.argv.slice(1);
const send = (method, path, headers, body) => fetch(url + path, { method, headers: { 'content-type': 'text/plain', ...headers }, body });
const json = async (path, token, body) => (await send('POST', path, { 'content-type': 'application/json', ...(token && { 'lease-token': token }) }, JSON.stringify(body))).json();
const lease = await json('/v1/leases', undefined, { ttlMs: ${TTL_MS}, label: 'paused' });
const { fencingToken } = await json('/v1/locks/account/acquire', lease.leaseToken, {});
const heartbeats = setInterval(() => json('/v1/leases/self/heartbeat', lease.leaseToken, {}), ${TTL_MS / 5});
const balance = Number(await (await send('GET', '/v1/config/account/balance')).text());
console.log(JSON.stringify({ leaseId: lease.leaseId, balance }));
process.stdin.once('data', async () => {
  const guard = guarded === 'guarded' ? { guard: 'lock=account;token=' + fencingToken } : {};
  const answer = await send('PUT', '/v1/config/account/balance', guard, String(balance + 10));
  console.log(JSON.stringify({ status: answer.status, code: (await answer.json()).code }));
  clearInterval(heartbeats);
  process.exit(0);
});
`;

interface Story {
  /** What the holder was told that had been stopped. */
  answer: { status: number; code?: string };
  balance: unknown;
}

/** A balance of 100; the stopped holder adds 10, the one who holds meanwhile adds 50. */
async function tellStory(pair: Pair, guarded: boolean): Promise<Story> {
  await put(pair.a, 'account/balance', '100');
  const child = spawn(
    process.execPath,
    ['--input-type=module', '-e', HOLDER, pair.a.url, guarded ? 'guarded' : 'bare'],
    {
      stdio: ['pipe', 'pipe', 'inherit'],
    },
  );
  try {
    const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
    const next = async (): Promise<unknown> => JSON.parse((await lines.next()).value as string) as unknown;
    const holder = (await next()) as { leaseId: string; balance: number };
    expect(holder.balance).toBe(100);
    child.kill('SIGSTOP');
    const successor = await pair.b.createLease({ ttlMs: 20_000 });
    // Granted when the lease of the stopped one has ended, not before.
    const { fencingToken } = await pair.b.hold('account', successor, { waitMs: 20_000 });
    const { body } = await get(pair.b, 'account/balance');
    const guard = `lock=account;token=${fencingToken}`;
    const written = await put(pair.b, 'account/balance', String(Number(body) + 50), { headers: { guard } });
    expect(written.status).toBe(200);
    child.kill('SIGCONT');
    child.stdin.write('\n');
    const answer = (await next()) as Story['answer'];
    return { answer, balance: (await get(pair.b, 'account/balance')).body };
  } finally {
    if (child.exitCode === null && child.signalCode === null) {
      const gone = once(child, 'exit');
      child.kill('SIGKILL');
      await gone;
    }
  }
}

describe('a holder that is stopped for longer than its lease lives, and then writes', () => {
  test('is refused, when its write has the guard (C19)', { timeout: scaled(60_000) }, async () => {
    await using pair = await startPair();
    const { answer, balance } = await tellStory(pair, true);
    expect(answer).toEqual({ status: 412, code: 'fencing-token-stale' });
    expect(balance).toBe('150');
  });

  test(
    'undoes what the next holder wrote, when it has none: this is what the guard is for',
    { timeout: scaled(60_000) },
    async () => {
      await using pair = await startPair();
      const { answer, balance } = await tellStory(pair, false);
      expect(answer.status).toBe(200);
      // The 50 of the second holder are lost.
      expect(balance).toBe('110');
    },
  );
});

describe('a guarded write', () => {
  test('is done for the holder of a lock, of permits, of a write lock, and for a leader; not for others (C19)', async () => {
    await using pair = await startPair();
    const [one, two] = await Promise.all([
      pair.a.createLease({ ttlMs: 20_000 }),
      pair.b.createLease({ ttlMs: 20_000 }),
    ]);
    const take = async (kind: string, verb: string, body: object, { leaseToken } = one): Promise<number> => {
      const held = (await pair.a.expect([200, 202], 'POST', `/v1/${kind}/g/${verb}`, { body, leaseToken })) as {
        fencingToken: number;
      };
      return held.fencingToken;
    };
    const guards = {
      lock: await take('locks', 'acquire', {}),
      rwlock: await take('rwlocks', 'acquire', { mode: 'write' }),
      semaphore: await take('semaphores', 'acquire', { limit: 2 }),
      election: await take('elections', 'campaign', {}),
    };
    const second = await take('semaphores', 'acquire', { limit: 2, requestId: 'second' });
    await take('locks', 'acquire', { keepPlace: true }, two);
    await take('elections', 'campaign', {}, two);
    const { candidates } = (await pair.b.expect(200, 'GET', '/v1/elections/g')) as {
      candidates: { leaseId: string }[];
    };
    expect(candidates).toHaveLength(2);
    const write = (kind: string, token: number, name = 'g'): ReturnType<typeof put> =>
      put(pair.b, 'guarded', 'x', { headers: { guard: `${kind}=${name};token=${token}` } });
    for (const [kind, token] of Object.entries(guards)) {
      expect((await write(kind, token)).status, kind).toBeLessThan(300);
      for (const [wrong, name] of [
        [token + 1, 'g'],
        [0, 'g'],
        [token, 'another'],
      ] as const)
        expect(await write(kind, wrong, name), kind).toMatchObject({
          status: 412,
          body: {
            code: 'fencing-token-stale',
            kind,
            name,
            fencingToken: wrong,
            latestFencingToken: name === 'g' ? (kind === 'semaphore' ? second : token) : null,
            outcome: 'not-applied',
          },
        });
    }
    expect((await write('semaphore', second)).status).toBe(200);
    await pair.a.endLease(one);
    for (const [kind, token] of Object.entries(guards)) expect((await write(kind, token)).status, kind).toBe(412);
  });

  test('is not done for who waits in line, though its node and its czxid are there for all to see (C19)', async () => {
    await using pair = await startPair();
    const [holder, waiter] = await Promise.all([1, 2].map(() => pair.a.createLease({ ttlMs: 20_000 })));
    await pair.a.hold('waited', holder!);
    await pair.b.acquire('waited', waiter, { keepPlace: true });
    const { control, layout } = pair.a.gateway.context;
    const directory = layout.line('lock', 'default', 'waited');
    const czxids = await Promise.all(
      (await control.getChildren(directory)).children.map(
        async (name) => (await control.getData(`${directory}/${name}`)).stat.czxid,
      ),
    );
    const token = Math.max(...czxids);
    const guard = { guard: `lock=waited;token=${token}` };
    expect((await put(pair.b, 'guarded', 'x', { headers: guard })).status).toBe(412);
    // At the head, but not told yet: its place is kept for a request that is not there.
    await pair.a.release('waited', holder!);
    expect((await put(pair.b, 'guarded', 'x', { headers: guard })).status).toBe(412);
    expect((await pair.b.hold('waited', waiter!)).fencingToken).toBe(token);
    expect((await put(pair.b, 'guarded', 'x', { headers: guard })).status).toBe(201);
  });

  test('is not done for readers', async () => {
    await using pair = await startPair();
    const lease = await pair.a.createLease({ ttlMs: 20_000 });
    const { fencingToken } = (await pair.a.expect(200, 'POST', '/v1/rwlocks/read/acquire', {
      body: { mode: 'read' },
      leaseToken: lease.leaseToken,
    })) as { fencingToken: number };
    const refused = await put(pair.b, 'guarded', 'x', { headers: { guard: `rwlock=read;token=${fencingToken}` } });
    expect(refused).toMatchObject({ status: 412, body: { code: 'fencing-token-stale' } });
    expect(refused.body.detail).toContain('reader');
  });

  test('is refused when the hold ends between the look at it and the write', async () => {
    await using pair = await startPair();
    const lease = await pair.a.createLease({ ttlMs: 20_000 });
    const { fencingToken } = await pair.a.hold('ending', lease);
    beforeMulti(pair.b, () => expireSession(pair.a, lease.leaseId));
    const refused = await put(pair.b, 'guarded', 'x', { headers: { guard: `lock=ending;token=${fencingToken}` } });
    expect(refused).toMatchObject({ status: 412, body: { latestFencingToken: null } });
    expect(await keysOf(pair.a)).toEqual([]);
  });

  test('is done though the holder writes to its own node meanwhile', async () => {
    await using pair = await startPair();
    const lease = await pair.a.createLease({ ttlMs: 20_000 });
    const campaign = { body: { value: 'one' }, leaseToken: lease.leaseToken };
    const { fencingToken } = (await pair.a.expect(200, 'POST', '/v1/elections/busy/campaign', campaign)) as {
      fencingToken: number;
    };
    beforeMulti(pair.b, () =>
      pair.a.expect(200, 'POST', '/v1/elections/busy/proclaim', { ...campaign, body: { value: 'two' } }),
    );
    const guard = `election=busy;token=${fencingToken}`;
    expect((await put(pair.b, 'guarded', 'x', { headers: { guard } })).status).toBe(201);
  });

  test('holds for deletions and several writes too, and a repeat is answered after the hold has ended (C32)', async () => {
    await using pair = await startPair();
    const lease = await pair.a.createLease({ ttlMs: 20_000 });
    const { fencingToken } = await pair.a.hold('all', lease);
    const guard = { guard: `lock=all;token=${fencingToken}` };
    await put(pair.a, 'a', '1');
    const both = { ...guard, 'idempotency-key': 'both' };
    const operations = [{ put: 'b', value: 1 }, { delete: 'a' }];
    const first = await write(pair.a, operations, both);
    expect(first.status).toBe(200);
    await pair.a.release('all', lease);
    expect((await write(pair.b, operations, both)).body).toEqual(first.body);
    expect((await write(pair.b, [{ put: 'c', value: 1 }], guard)).status).toBe(412);
    expect((await remove(pair.b, 'b', guard)).status).toBe(412);
    expect(await keysOf(pair.b)).toEqual(['b']);
  });
});
