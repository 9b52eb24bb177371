/** A lease whose answer was lost: the same request finds the first try (protocol C14). */
import { describe, expect, it } from 'vitest';
import { eventually } from '../../support/eventually.js';
import { makeApiKeys } from '../../support/http/api-keys.js';
import type { LeaseHandle } from '../../support/http/client.js';
import { expireSession, startPair } from '../../support/start-gateway.js';
import { startZooKeeper, type TestZooKeeper } from '../../support/start-zookeeper.js';

/** Every session that the server knows, with or without a connection. */
async function sessionsOf(zookeeper: TestZooKeeper): Promise<Set<string>> {
  const [, sets = ''] = /Session Sets.*?:\n([^]*?)\nephemeral nodes dump/i.exec(await zookeeper.word('dump')) ?? [];
  return new Set(sets.match(/0x[0-9a-f]+/g));
}

describe('a lease with a requestId', () => {
  it('is the same one when the request is repeated at the other replica', async () => {
    await using pair = await startPair();
    const body = { ttlMs: 10_000, requestId: 'boot-4711-000000000000', label: 'job' };
    const first = await pair.a.createLease(body);
    for (const replica of [pair.a, pair.b]) {
      const again = await replica.createLease(body);
      expect(again).toMatchObject({ leaseId: first.leaseId, leaseToken: first.leaseToken, ttlMs: 10_000 });
    }
    expect((await pair.b.heartbeat(first)).status).toBe(200);
    expect((await pair.a.expect(200, 'GET', '/v1/leases')).items).toHaveLength(1);
  });

  it('is refused when somebody else might make the requestId up, and when it names another label', async () => {
    await using pair = await startPair();
    for (const requestId of ['nightly', 'x'.repeat(21)]) {
      const body = { ttlMs: 10_000, requestId };
      expect((await pair.a.call('POST', '/v1/leases', { body })).body).toMatchObject({
        status: 422,
        field: 'requestId',
        minLength: 22,
      });
    }
    const requestId = 'nightly-00000000000000';
    const first = await pair.a.createLease({ ttlMs: 10_000, requestId, label: 'one' });
    const other = await pair.b.call('POST', '/v1/leases', { body: { ttlMs: 10_000, requestId, label: 'two' } });
    expect(other.body).toMatchObject({ status: 409, code: 'conflict', label: 'one' });
    expect(JSON.stringify(other.body)).not.toContain(first.leaseToken);
  });

  it('is found again by a label that was cut in the middle of a character', async () => {
    await using pair = await startPair();
    const body = { ttlMs: 10_000, requestId: 'cut-label-000000000000', label: 'job \ud83d' };
    const first = await pair.a.createLease(body);
    for (const replica of [pair.a, pair.b])
      expect(await replica.createLease(body)).toMatchObject({ leaseId: first.leaseId });
  });

  it('may be named by the header Idempotency-Key as well', async () => {
    await using pair = await startPair();
    const headers = { 'idempotency-key': 'by-header-000000000000' };
    const first = await pair.a.expect(201, 'POST', '/v1/leases', { body: { ttlMs: 10_000 }, headers });
    const again = await pair.b.expect(201, 'POST', '/v1/leases', { body: { ttlMs: 10_000 }, headers });
    const inBody = await pair.b.createLease({ ttlMs: 10_000, requestId: 'by-header-000000000000' });
    expect([again.leaseId, inBody.leaseId]).toEqual([first.leaseId, first.leaseId]);
  });

  it('is one lease and leaves one session behind when it is asked for many times at once at both replicas', async () => {
    await using zookeeper = await startZooKeeper();
    await using pair = await startPair({ zookeeper: zookeeper.connectString });
    await pair.a.createLease({ ttlMs: 60_000 }); // whatever is made once, is made now
    const before = await sessionsOf(zookeeper);
    expect(before.size).toBe(3); // of each replica, and this lease
    const answers: LeaseHandle[] = await Promise.all(
      Array.from({ length: 12 }, (_, index) =>
        [pair.a, pair.b][index % 2]!.createLease({ ttlMs: 60_000, requestId: 'at-once-00000000000000' }),
      ),
    );
    expect(new Set(answers.map(({ leaseId }) => leaseId)).size).toBe(1);
    expect(new Set(answers.map(({ leaseToken }) => leaseToken)).size).toBe(1);
    await eventually(
      'one session more than before',
      async () => (await sessionsOf(zookeeper)).size === before.size + 1,
    );
    expect((await pair.b.heartbeat(answers[0]!)).status).toBe(200);
  });

  it('is a new one when the first has ended', async () => {
    await using pair = await startPair();
    const first = await pair.a.createLease({ ttlMs: 10_000, requestId: 'again-0000000000000000' });
    expect((await pair.b.endLease(first)).status).toBe(204);
    const second = await pair.b.createLease({ ttlMs: 10_000, requestId: 'again-0000000000000000' });
    expect(second.leaseId).not.toBe(first.leaseId);
    const third = await pair.a.createLease({ ttlMs: 10_000, requestId: 'brief-0000000000000000' });
    await expireSession(pair.a, third.leaseId);
    const fourth = await pair.b.createLease({ ttlMs: 10_000, requestId: 'brief-0000000000000000' });
    expect(fourth.leaseId).not.toBe(third.leaseId);
  });

  it('is another one for another requestId, namespace or principal', async () => {
    await using keys = await makeApiKeys({ alice: '*', bob: '*' });
    await using pair = await startPair({ settings: { POSTERN_AUTH_FILE: keys.file } });
    await using alice = keys.as('alice', pair.a.url);
    await using bob = keys.as('bob', pair.b.url);
    const body = { ttlMs: 10_000, requestId: 'shared-000000000000000' };
    const leases = [
      await alice.createLease(body),
      await bob.createLease(body),
      await alice.createLease({ ...body, requestId: 'Shared-000000000000000' }),
      await alice.expect(201, 'POST', '/v1/leases', { body, headers: { namespace: 'elsewhere' } }),
    ] as LeaseHandle[];
    expect(new Set(leases.map(({ leaseId }) => leaseId)).size).toBe(4);
  });
});
