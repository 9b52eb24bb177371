/** Names of locks: what they may consist of, and that nothing else reaches a lock. */
import { describe, expect, it } from 'vitest';
import { rawRequest } from '../../../support/http/raw-request.js';
import { startPair, startReplica } from '../../../support/start-gateway.js';

const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._~-';

describe('the name of a lock', () => {
  it('may have every allowed character, be 1 to 200 long, and look like something else', async () => {
    await using pair = await startPair();
    const lease = await pair.a.createLease({ ttlMs: 20_000 });
    const names = [
      'x',
      ALPHABET,
      'n'.repeat(200),
      '...',
      '.hidden',
      '-',
      '~',
      '_c_',
      'acquire',
      'release',
      'events',
      'waiters',
      'self',
      'constructor',
      '__proto__',
      'a-lock-0000000000',
      '0',
      'null',
    ];
    for (const [index, name] of names.entries()) {
      const replica = [pair.a, pair.b][index % 2]!;
      expect(await replica.hold(name, lease), name).toMatchObject({ name, held: true, alreadyHeld: false });
      expect(await pair.a.showLock(name), name).toMatchObject({ name, holders: [{ leaseId: lease.leaseId }] });
    }
    const { items } = (await pair.b.expect(200, 'GET', '/v1/locks')) as { items: { name: string }[] };
    expect(items.map(({ name }) => name)).toEqual([...names].sort());
    expect((await pair.b.showLease(lease)).body.holds).toHaveLength(names.length);
    for (const name of names) expect((await pair.b.release(name, lease)).status, name).toBe(204);
  });

  it('is the same percent-encoded', async () => {
    await using pair = await startPair();
    const lease = await pair.a.createLease({ ttlMs: 20_000 });
    const headers = { 'lease-token': lease.leaseToken };
    const encoded = await rawRequest(pair.b.url, 'POST', '/v1/locks/%41b%7e%2D%2e/acquire', { headers });
    expect(encoded.body).toMatchObject({ name: 'Ab~-.', held: true });
    expect(await pair.a.hold('Ab~-.', lease)).toMatchObject({ holdId: encoded.body.holdId, alreadyHeld: true });
    expect((await rawRequest(pair.a.url, 'GET', '/v1/locks/Ab%7E-.')).body).toMatchObject({
      name: 'Ab~-.',
      holders: [{ leaseId: lease.leaseId }],
    });
    // Encoded twice.
    expect((await rawRequest(pair.a.url, 'POST', '/v1/locks/%2541b/acquire', { headers })).status).toBe(422);
  });

  it('is case-sensitive', async () => {
    await using pair = await startPair();
    const [one, two] = await Promise.all([
      pair.a.createLease({ ttlMs: 20_000 }),
      pair.b.createLease({ ttlMs: 20_000 }),
    ]);
    await pair.a.hold('Case', one);
    await pair.b.hold('case', two);
    expect(await pair.a.showLock('Case')).toMatchObject({ holders: [{ leaseId: one.leaseId }] });
  });

  it('is refused with 422 when it has anything else in it, is too long, or is . or ..', async () => {
    await using replica = await startReplica();
    const lease = await replica.createLease({ ttlMs: 20_000 });
    const headers = { 'lease-token': lease.leaseToken };
    for (const name of [
      'a%2Fb',
      'a%2fb',
      '%2F',
      '%20',
      'a+b',
      'a:b',
      'a@b',
      'a%5Cb',
      '%C3%A9',
      '%00',
      'a%0Ab',
      '%25',
      'a,b',
      "a'b",
      'a*',
      '.',
      '..',
      '%2e',
      '%2E%2e',
      'n'.repeat(201),
    ]) {
      for (const [method, suffix] of [
        ['POST', '/acquire'],
        ['POST', '/release'],
        ['GET', ''],
        ['GET', '/waiters'],
        ['GET', '/events'],
      ] as const) {
        const { status, body } = await rawRequest(replica.url, method, `/v1/locks/${name}${suffix}`, { headers });
        expect(status, `${method} ${name}${suffix}`).toBe(422);
        expect(body, name).toMatchObject({ code: 'invalid', field: 'name', retryable: false, outcome: 'not-applied' });
      }
    }
    expect((await replica.expect(200, 'GET', '/v1/locks')).items).toEqual([]);
    expect((await replica.showLease(lease)).body.holds).toEqual([]);
  });

  it('that cannot be decoded is 400, and an empty one is no lock', async () => {
    await using replica = await startReplica();
    const lease = await replica.createLease({ ttlMs: 20_000 });
    const headers = { 'lease-token': lease.leaseToken };
    for (const name of ['%', '%4', '%zz', '%ff', '%c3%28']) {
      const { status, body } = await rawRequest(replica.url, 'POST', `/v1/locks/${name}/acquire`, { headers });
      expect(status, name).toBe(400);
      expect(body, name).toMatchObject({ code: 'malformed' });
    }
    for (const target of ['/v1/locks//acquire', '/v1/locks/a/b/acquire', '/v1/locks/a/acquire/']) {
      expect([404, 422], target).toContain((await rawRequest(replica.url, 'POST', target, { headers })).status);
    }
    expect((await replica.expect(200, 'GET', '/v1/locks')).items).toEqual([]);
  });
});

describe('the name of a namespace', () => {
  it('follows the same rule', async () => {
    await using replica = await startReplica();
    for (const namespace of ['a/b', 'a b', '.', '..', 'n'.repeat(201), 'a%2Fb']) {
      const { status, body } = await rawRequest(replica.url, 'GET', '/v1/locks/any', { headers: { namespace } });
      expect(status, namespace).toBe(422);
      expect(String(body.field).toLowerCase(), namespace).toBe('namespace');
    }
    expect((await rawRequest(replica.url, 'GET', '/v1/locks/any', { headers: { namespace: ALPHABET } })).status).toBe(
      200,
    );
  });
});
