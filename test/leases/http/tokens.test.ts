/** What a lease token opens, where, for whom, and that nothing happens when it does not. */
import { randomBytes, randomUUID } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { makeApiKeys } from '../../support/http/api-keys.js';
import type { CallOptions, Client, Reply } from '../../support/http/client.js';
import { startPair, startReplica } from '../../support/start-gateway.js';
import { freshRoot } from '../../support/start-zookeeper.js';

/** Everything that a lease token is sent with. */
async function everythingWith(client: Client, leaseToken: string, options: CallOptions = {}): Promise<Reply[]> {
  const send = (method: 'GET' | 'POST' | 'DELETE', path: string, body?: unknown): Promise<Reply> =>
    client.call(method, path, { ...options, leaseToken, ...(body !== undefined && { body }) });
  return [
    await send('POST', '/v1/leases/self/heartbeat'),
    await send('GET', '/v1/leases/self'),
    await send('GET', '/v1/leases/self/events'),
    await send('POST', '/v1/locks/other/acquire', {}),
    await send('POST', '/v1/locks/other/acquire', { waitMs: 5_000, keepPlace: true }),
    await send('POST', '/v1/locks/held/release', {}),
    await send('DELETE', '/v1/leases/self'),
  ];
}

function expectRefused(replies: readonly Reply[], leaseToken: string): void {
  for (const { status, body } of replies) {
    expect(status).toBe(403);
    expect(body).toMatchObject({ code: 'invalid-lease-token', retryable: false, outcome: 'not-applied' });
    expect(JSON.stringify(body)).not.toContain(leaseToken);
  }
}

describe('a lease token', () => {
  it('that was changed, cut, lengthened or made up is 403 everywhere, and nothing happens', async () => {
    await using pair = await startPair();
    const lease = await pair.a.createLease({ ttlMs: 20_000 });
    await pair.a.hold('held', lease);
    const token = lease.leaseToken;
    const changedAt = (index: number): string =>
      token.slice(0, index) + (token[index] === 'A' ? 'B' : 'A') + token.slice(index + 1);
    const wrong = [
      ...[3, 10, Math.floor(token.length / 2), token.length - 6].map(changedAt),
      token.slice(0, -4),
      token.slice(4),
      `${token}AAAA`,
      `x${token}`,
      // What decoders skip, and bits that they drop: one token has one spelling.
      `${token}=`,
      `${token}====!!`,
      `${token.slice(0, 20)}!${token.slice(20)}`,
      token.replaceAll('_', '/').replaceAll('-', '+').concat('='),
      token.slice(0, token.indexOf('.') + 1),
      'hello',
      `${token.slice(0, token.indexOf('.'))}.${randomBytes(120).toString('base64url')}`,
    ];
    for (const leaseToken of wrong) {
      expect(leaseToken).not.toBe(token);
      expectRefused(await everythingWith(pair.b, leaseToken), leaseToken);
    }
    expect(await pair.a.showLock('other')).toMatchObject({ holders: [], waiterCount: 0 });
    expect(await pair.a.showLock('held')).toMatchObject({ holders: [{ leaseId: lease.leaseId }] });
    expect((await pair.b.heartbeat(lease)).status).toBe(200);
  });

  it('is needed: without it the answer is 400 lease-token-required', async () => {
    await using replica = await startReplica();
    for (const [method, path] of [
      ['POST', '/v1/leases/self/heartbeat'],
      ['GET', '/v1/leases/self'],
      ['GET', '/v1/leases/self/events'],
      ['DELETE', '/v1/leases/self'],
      ['POST', '/v1/locks/free/acquire'],
      ['POST', '/v1/locks/free/release'],
    ] as const) {
      const { status, body } = await replica.call(method, path);
      expect(status, `${method} ${path}`).toBe(400);
      expect(body).toMatchObject({ code: 'lease-token-required', retryable: false, outcome: 'not-applied' });
    }
  });

  it('works for the principal it was issued to and nobody else, who has a key as good', async () => {
    await using keys = await makeApiKeys({ alice: '*', bob: '*' });
    await using pair = await startPair({ settings: { POSTERN_AUTH_FILE: keys.file } });
    await using alice = keys.as('alice', pair.a.url);
    await using bob = keys.as('bob', pair.b.url);
    const lease = await alice.createLease({ ttlMs: 20_000 });
    await alice.hold('held', lease);
    expectRefused(await everythingWith(bob, lease.leaseToken), lease.leaseToken);
    expect(await bob.showLock('other')).toMatchObject({ holders: [], waiterCount: 0 });
    expect(await bob.showLock('held')).toMatchObject({ holders: [{ leaseId: lease.leaseId, principal: 'alice' }] });
    expect((await alice.heartbeat(lease)).status).toBe(200);
    const unknown = await pair.a.heartbeat(lease);
    expect(unknown.body).toMatchObject({ status: 401, code: 'unauthenticated' });
    expect(unknown.headers['www-authenticate']).toMatch(/^Bearer/);
  });

  it('brings its namespace along, and is refused in any other', async () => {
    await using pair = await startPair();
    const here = { namespace: 'team-a' };
    const lease = (await pair.a.expect(201, 'POST', '/v1/leases', { body: { ttlMs: 20_000 }, headers: here })) as {
      leaseToken: string;
      leaseId: string;
    };
    await pair.b.hold('held', lease); // no Namespace header: the token's
    expectRefused(
      await everythingWith(pair.b, lease.leaseToken, { headers: { namespace: 'team-b' } }),
      lease.leaseToken,
    );
    expectRefused(
      await everythingWith(pair.b, lease.leaseToken, { headers: { namespace: 'default' } }),
      lease.leaseToken,
    );
    expect(await pair.a.expect(200, 'GET', '/v1/locks/held', { headers: here })).toMatchObject({
      holders: [{ leaseId: lease.leaseId }],
    });
    expect(await pair.a.showLock('held')).toMatchObject({ holders: [] });
    expect(
      (await pair.a.call('POST', '/v1/leases/self/heartbeat', { leaseToken: lease.leaseToken, headers: here })).status,
    ).toBe(200);
  });

  it('needs the scope use in its namespace', async () => {
    await using keys = await makeApiKeys({ reader: { default: ['read'] }, user: { default: ['use'] } });
    await using replica = await startReplica({ settings: { POSTERN_AUTH_FILE: keys.file } });
    await using reader = keys.as('reader', replica.url);
    await using user = keys.as('user', replica.url);
    expect((await reader.call('POST', '/v1/leases', { body: {} })).body).toMatchObject({
      status: 403,
      code: 'forbidden',
    });
    const oneCall = await reader.acquire('free', undefined, { lease: {}, requestId: 'r-00000000000000000000' });
    expect(oneCall.body).toMatchObject({ status: 403, code: 'forbidden' });
    expect((await user.call('GET', '/v1/locks/free')).body).toMatchObject({ status: 403, code: 'forbidden' });
    expect(await reader.showLock('free')).toMatchObject({ holders: [], waiterCount: 0 });
    expect((await user.call('POST', '/v1/leases', { body: {}, headers: { namespace: 'elsewhere' } })).status).toBe(403);
    await user.hold('free', await user.createLease({ ttlMs: 10_000 }));
  });
});

describe('the keys that seal', () => {
  const [one, two] = [randomBytes(32).toString('base64'), randomBytes(32).toString('base64')];
  const start = (root: string, keys: string): ReturnType<typeof startReplica> =>
    startReplica({ root, settings: { POSTERN_LEASE_KEYS: keys } });

  it('are rotated: every key of the ring opens, the first one seals, and a heartbeat hands out the token sealed anew', async () => {
    const root = freshRoot();
    await using before = await start(root, `${one},${two}`);
    await using after = await start(root, `${two},${one}`);
    await using end = await start(root, two);
    const lease = await before.createLease({ ttlMs: 20_000 });
    const { fencingToken } = await before.hold('held', lease);

    expect((await before.heartbeat(lease)).body.leaseToken).toBeUndefined();
    expect((await end.heartbeat(lease)).body).toMatchObject({ status: 403, code: 'invalid-lease-token' });
    const renewed = (await after.heartbeat(lease)).body as { leaseToken: string; leaseId: string };
    expect(renewed.leaseToken).toMatch(/\S/);
    expect(renewed.leaseToken).not.toBe(lease.leaseToken);
    expect(renewed.leaseId).toBe(lease.leaseId);

    expect((await after.heartbeat(renewed)).body.leaseToken).toBeUndefined();
    expect((await end.heartbeat(renewed)).body).toMatchObject({ leaseId: lease.leaseId });
    expect((await before.heartbeat(lease)).status).toBe(200); // the old one opens as long as its key is in the ring
    expect(await end.hold('held', renewed)).toMatchObject({ fencingToken, alreadyHeld: true });
    expect((await before.heartbeat(renewed)).body.leaseToken).toMatch(/\S/); // sealed with its first key again
  });

  it('may be dropped after that: what looks for a lease without its token finds it (C14)', async () => {
    const root = freshRoot();
    await using before = await start(root, one);
    await using after = await start(root, `${two},${one}`);
    await using end = await start(root, two);
    const repeated = { ttlMs: 20_000, requestId: randomUUID() };
    const oneCall = { lease: { ttlMs: 20_000 }, requestId: randomUUID() };
    const lease = await before.createLease(repeated);
    await before.hold('held', lease);
    const { body: acquired } = await before.acquire('one-call', undefined, oneCall);
    for (const leaseToken of [lease.leaseToken, acquired.leaseToken as string])
      expect((await after.heartbeat({ leaseToken })).body.leaseToken).toMatch(/\S/);

    const again = await end.createLease(repeated);
    expect(again.leaseId).toBe(lease.leaseId);
    expect((await end.heartbeat(again)).body).toMatchObject({ leaseId: lease.leaseId });
    const { status, body } = await end.acquire('one-call', undefined, oneCall);
    expect(status).toBe(200);
    expect(body).toMatchObject({ leaseId: acquired.leaseId, alreadyHeld: true });
    expect((await end.heartbeat({ leaseToken: body.leaseToken as string })).status).toBe(200);

    const shown = await end.expect(200, 'GET', `/v1/leases/${lease.leaseId}`);
    expect(shown.holds).toMatchObject([{ kind: 'lock', name: 'held' }]);
    expect((await end.call('DELETE', `/v1/leases/${lease.leaseId}`)).status).toBe(204);
    expect((await before.heartbeat(lease)).status).toBe(410);
    expect(await before.showLock('held')).toMatchObject({ holders: [] });
  });

  it('leave a lease that no heartbeat came for meanwhile as it is when they are dropped, and say so', async () => {
    const root = freshRoot();
    await using before = await start(root, one);
    await using end = await start(root, two);
    const repeated = { ttlMs: 20_000, requestId: randomUUID() };
    const lease = await before.createLease(repeated);
    for (const { body } of [
      await end.call('GET', `/v1/leases/${lease.leaseId}`),
      await end.call('DELETE', `/v1/leases/${lease.leaseId}`),
      await end.call('POST', '/v1/leases', { body: repeated }),
    ])
      expect(body).toMatchObject({ status: 409, code: 'conflict', retryable: false, outcome: 'not-applied' });
    expect((await before.heartbeat(lease)).status).toBe(200);
  });

  it('renew the token in a batch of heartbeats too', async () => {
    const root = freshRoot();
    await using before = await start(root, one);
    await using after = await start(root, `${two},${one}`);
    const lease = await before.createLease({ ttlMs: 20_000 });
    const fresh = await after.createLease({ ttlMs: 20_000 });
    const { items } = (await after.expect(200, 'POST', '/v1/leases/heartbeat', {
      body: { leaseTokens: [lease.leaseToken, fresh.leaseToken] },
    })) as { items: { status: number; leaseToken?: string }[] };
    expect(items.map(({ status }) => status)).toEqual([200, 200]);
    expect(items[0]?.leaseToken).toMatch(/\S/);
    expect(items[1]?.leaseToken).toBeUndefined();
    expect((await after.heartbeat({ leaseToken: items[0]?.leaseToken as string })).body).toMatchObject({
      leaseId: lease.leaseId,
    });
  });

  it('are one key that replicas of a root share when none is configured, also one that comes later', async () => {
    await using pair = await startPair(); // both start at once on a root that is not there yet
    const [ofA, ofB] = [await pair.a.createLease({ ttlMs: 20_000 }), await pair.b.createLease({ ttlMs: 20_000 })];
    await using later = await startReplica({ root: pair.root });
    for (const lease of [ofA, ofB]) {
      for (const replica of [pair.a, pair.b, later]) {
        const { status, body } = await replica.heartbeat(lease);
        expect(status).toBe(200);
        expect(body.leaseToken).toBeUndefined();
      }
    }
    await using stranger = await startReplica(); // another root, another key
    expect((await stranger.heartbeat(ofA)).body).toMatchObject({ status: 403, code: 'invalid-lease-token' });
  });

  it('never show the session in the clear', async () => {
    await using replica = await startReplica();
    const lease = await replica.createLease({ ttlMs: 20_000 });
    const { control } = replica.gateway.context;
    const record = await replica.gateway.context.leases.records.find(
      'default',
      lease.leaseId,
      performance.now() + 5_000,
    );
    expect(record?.leaseId).toBe(lease.leaseId);
    const { stat } = await control.getData(replica.gateway.context.layout.lease('default', lease.leaseId));
    const sealed = Buffer.from(lease.leaseToken.slice(lease.leaseToken.indexOf('.') + 1), 'base64url');
    const session = Buffer.alloc(8);
    session.writeBigInt64BE(stat.ephemeralOwner);
    expect(stat.ephemeralOwner).not.toBe(0n);
    expect(sealed.includes(session)).toBe(false);
    expect(lease.leaseToken).not.toContain(stat.ephemeralOwner.toString(16));
  });
});
