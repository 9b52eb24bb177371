/** What somebody with the scope `admin` sees and does: list, show and end any lease of a namespace. */
import { describe, expect, it } from 'vitest';
import { eventually } from '../../support/eventually.js';
import { makeApiKeys } from '../../support/http/api-keys.js';
import { startPair, startReplica } from '../../support/start-gateway.js';

interface Summary {
  leaseId: string;
}

describe('the list of leases', () => {
  it('shows every living lease in the order of ids, through either replica, and none that has ended', async () => {
    await using pair = await startPair();
    const living = await Promise.all([
      pair.a.createLease({ ttlMs: 10_000, label: 'one' }),
      pair.b.createLease({ ttlMs: 20_000 }),
      pair.a.createLease({ ttlMs: 10_000 }),
    ]);
    const ended = await pair.a.createLease({ ttlMs: 10_000 });
    expect((await pair.a.endLease(ended)).status).toBe(204);
    for (const replica of [pair.a, pair.b]) {
      const { items, nextPageToken } = await replica.expect(200, 'GET', '/v1/leases');
      expect((items as Summary[]).map(({ leaseId }) => leaseId)).toEqual(living.map(({ leaseId }) => leaseId).sort());
      expect(nextPageToken).toBeUndefined();
      const one = (items as Summary[]).find(({ leaseId }) => leaseId === living[0].leaseId);
      expect(one).toMatchObject({ label: 'one', ttlMs: 10_000, namespace: 'default' });
    }
  });

  it('is paged: every lease once, and a page token works at the other replica', async () => {
    await using pair = await startPair();
    const leases = await Promise.all(Array.from({ length: 5 }, () => pair.a.createLease({ ttlMs: 10_000 })));
    const pages: string[][] = [];
    let query = '?limit=2';
    for (let turn = 0; query !== ''; turn++) {
      const { items, nextPageToken } = await [pair.a, pair.b][turn % 2]!.expect(200, 'GET', `/v1/leases${query}`);
      pages.push((items as Summary[]).map(({ leaseId }) => leaseId));
      query = nextPageToken === undefined ? '' : `?limit=2&pageToken=${encodeURIComponent(nextPageToken as string)}`;
    }
    expect(pages.map((page) => page.length)).toEqual([2, 2, 1]);
    expect(pages.flat()).toEqual(leases.map(({ leaseId }) => leaseId).sort());
  });

  it('is narrowed by a prefix of the id', async () => {
    await using pair = await startPair();
    const leases = await Promise.all(Array.from({ length: 4 }, () => pair.a.createLease({ ttlMs: 10_000 })));
    const { leaseId } = leases[0]!;
    const { items } = await pair.b.expect(200, 'GET', `/v1/leases?prefix=${leaseId.slice(0, 12)}`);
    expect((items as Summary[]).map((item) => item.leaseId)).toEqual([leaseId]);
    expect((await pair.b.expect(200, 'GET', '/v1/leases?prefix=zzzz')).items).toEqual([]);
  });

  it('refuses limits and page tokens that break their rule', async () => {
    await using replica = await startReplica();
    for (const [query, field] of [
      ['limit=0', 'limit'],
      ['limit=1001', 'limit'],
      ['limit=two', 'limit'],
      ['pageToken=%00nonsense', 'pageToken'],
      ['prefix=a/b', 'prefix'],
      ['consistency=eventual', 'consistency'],
      ['page=2', 'page'],
    ]) {
      const { status, body } = await replica.call('GET', `/v1/leases?${query}`);
      expect(status, query).toBe(422);
      expect(body, query).toMatchObject({ code: 'invalid', field });
    }
    expect((await replica.call('GET', '/v1/leases?limit=1000&consistency=stale')).status).toBe(200);
  });
});

describe('any one lease', () => {
  it('is shown with its holds by its id, without the token', async () => {
    await using pair = await startPair();
    const lease = await pair.a.createLease({ ttlMs: 10_000, label: 'job', metadata: { host: 'db-1' } });
    const { holdId, fencingToken } = await pair.a.hold('shown-to-admin', lease);
    const shown = await pair.b.expect(200, 'GET', `/v1/leases/${lease.leaseId}`);
    expect(shown).toMatchObject({ leaseId: lease.leaseId, label: 'job', metadata: { host: 'db-1' }, ttlMs: 10_000 });
    expect(shown.holds).toMatchObject([{ kind: 'lock', name: 'shown-to-admin', held: true, holdId, fencingToken }]);
    expect(JSON.stringify(shown)).not.toContain(lease.leaseToken);
  });

  it('is not kept alive by being looked at', async () => {
    await using pair = await startPair();
    const lease = await pair.a.createLease({ ttlMs: 3_000 });
    await pair.a.hold('looked-at', lease);
    await eventually(
      'it has ended although it is looked at all the time',
      async () => (await pair.b.call('GET', `/v1/leases/${lease.leaseId}`)).status === 404,
    );
    expect((await pair.a.heartbeat(lease)).status).toBe(410);
  });

  it('is ended by its id, which frees what it held at once, and ending it again is 204', async () => {
    await using pair = await startPair();
    const lease = await pair.a.createLease({ ttlMs: 60_000 });
    const next = await pair.a.createLease({ ttlMs: 60_000 });
    await pair.a.hold('ended-by-admin', lease);
    expect((await pair.b.call('DELETE', `/v1/leases/${lease.leaseId}`)).status).toBe(204);
    await pair.a.hold('ended-by-admin', next);
    expect((await pair.a.heartbeat(lease)).status).toBe(410);
    expect((await pair.b.call('DELETE', `/v1/leases/${lease.leaseId}`)).status).toBe(204);
    expect((await pair.a.call('GET', `/v1/leases/${lease.leaseId}`)).body).toMatchObject({
      status: 404,
      code: 'not-found',
    });
  });

  it('is not found under an id that nobody has', async () => {
    await using replica = await startReplica();
    expect((await replica.call('GET', '/v1/leases/0123456789abcdef0123456789abcdef')).status).toBe(404);
    expect((await replica.call('GET', '/v1/leases/no.such~lease')).status).toBe(422);
    expect((await replica.call('DELETE', '/v1/leases/no.such~lease')).status).toBe(422);
    expect((await replica.call('GET', '/v1/leases/a%2Fb')).status).toBe(422);
  });
});

describe('who may not', () => {
  it('list, show or end leases of others without the scope admin, or in another namespace', async () => {
    await using keys = await makeApiKeys({
      user: { default: ['read', 'use'] },
      chief: { default: ['read', 'use', 'admin'] },
    });
    await using replica = await startReplica({ settings: { POSTERN_AUTH_FILE: keys.file } });
    await using user = keys.as('user', replica.url);
    await using chief = keys.as('chief', replica.url);
    const lease = await user.createLease({ ttlMs: 10_000 });
    for (const reply of [
      await user.call('GET', '/v1/leases'),
      await user.call('GET', `/v1/leases/${lease.leaseId}`),
      await user.call('DELETE', `/v1/leases/${lease.leaseId}`),
      await chief.call('GET', '/v1/leases', { headers: { namespace: 'elsewhere' } }),
      await chief.call('DELETE', `/v1/leases/${lease.leaseId}`, { headers: { namespace: 'elsewhere' } }),
    ]) {
      expect(reply.body).toMatchObject({ status: 403, code: 'forbidden' });
    }
    expect((await user.heartbeat(lease)).status).toBe(200);
    expect((await chief.expect(200, 'GET', '/v1/leases')).items).toMatchObject([
      { leaseId: lease.leaseId, principal: 'user' },
    ]);
    expect((await chief.call('DELETE', `/v1/leases/${lease.leaseId}`)).status).toBe(204);
    expect((await user.heartbeat(lease)).status).toBe(410);
  });

  it('see a lease of one namespace in another', async () => {
    await using pair = await startPair();
    const lease = await pair.a.expect(201, 'POST', '/v1/leases', {
      body: { ttlMs: 10_000 },
      headers: { namespace: 'team-a' },
    });
    expect((await pair.b.expect(200, 'GET', '/v1/leases', { headers: { namespace: 'team-a' } })).items).toHaveLength(1);
    expect((await pair.b.expect(200, 'GET', '/v1/leases')).items).toEqual([]);
    expect((await pair.b.call('GET', `/v1/leases/${lease.leaseId}`)).status).toBe(404);
    await pair.b.call('DELETE', `/v1/leases/${lease.leaseId}`, { headers: { namespace: 'team-b' } });
    expect((await pair.a.heartbeat(lease)).status).toBe(200);
  });
});
