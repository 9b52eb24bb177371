/** What everybody may see of locks: one, all of them, and who waits. */
import { describe, expect, it } from 'vitest';
import { makeApiKeys } from '../../../support/http/api-keys.js';
import type { CallOptions, Client } from '../../../support/http/client.js';
import { startPair, startReplica } from '../../../support/start-gateway.js';

/** What these tests look at of a lock, or of one who waits. */
interface Item {
  name: string;
  position: number;
}

/** All pages of a list, one array each. */
async function pagesOf(replicas: readonly Client[], path: string, query: string): Promise<Item[][]> {
  const pages: Item[][] = [];
  let pageToken: string | undefined;
  do {
    const from = pageToken === undefined ? '' : `&pageToken=${encodeURIComponent(pageToken)}`;
    const page = await replicas[pages.length % replicas.length]!.expect(200, 'GET', `${path}?${query}${from}`);
    pages.push(page.items as Item[]);
    pageToken = page.nextPageToken as string | undefined;
  } while (pageToken !== undefined);
  return pages;
}

describe('a lock', () => {
  it('that nobody ever used is empty, not missing', async () => {
    await using pair = await startPair();
    expect(await pair.a.showLock('never-used')).toEqual({
      name: 'never-used',
      holders: [],
      holderCount: 0,
      waiters: [],
      waiterCount: 0,
    });
    expect(await pair.b.expect(200, 'GET', '/v1/locks/never-used/waiters')).toEqual({ items: [] });
  });

  it('shows its holder and who waits, in order, the same at both replicas', async () => {
    await using pair = await startPair();
    const [holder, one, two] = await Promise.all(
      ['holder', 'one', 'two'].map((label) => pair.a.createLease({ ttlMs: 20_000, label })),
    );
    const before = Date.now();
    const hold = await pair.a.hold('shown', holder!, { data: { host: 'db-1', tries: [1, 2.5, null, 'ü'] } });
    await pair.a.acquire('shown', one, { keepPlace: true });
    await pair.b.acquire('shown', two, { keepPlace: true });
    const lock = await pair.a.showLock('shown');
    expect(lock.holders).toEqual([
      {
        holdId: hold.holdId,
        leaseId: holder!.leaseId,
        principal: 'anonymous',
        label: 'holder',
        fencingToken: hold.fencingToken,
        mode: 'exclusive',
        since: lock.holders[0].since,
        data: { host: 'db-1', tries: [1, 2.5, null, 'ü'] },
        revocable: lock.holders[0].revocable,
        external: false,
      },
    ]);
    const since = Date.parse(lock.holders[0].since as string);
    expect(since).toBeGreaterThan(before - 2_000);
    expect(since).toBeLessThan(Date.now() + 2_000);
    expect(lock.waiterCount).toBe(2);
    expect(lock.waiters).toMatchObject([
      { leaseId: one!.leaseId, principal: 'anonymous', label: 'one', position: 1, external: false },
      { leaseId: two!.leaseId, principal: 'anonymous', label: 'two', position: 2, external: false },
    ]);
    expect(await pair.b.showLock('shown')).toEqual(lock);
    expect(await pair.b.expect(200, 'GET', '/v1/locks/shown?consistency=stale')).toMatchObject({ name: 'shown' });
  });

  it('shows any JSON that the holder gave as data, and null without', async () => {
    await using pair = await startPair();
    const lease = await pair.a.createLease({ ttlMs: 20_000 });
    for (const data of ['text', 0, false, [], { nested: { deep: [{}] } }, 'x'.repeat(4_094)]) {
      await pair.a.hold('with-data', lease, { data });
      expect((await pair.b.showLock('with-data')).holders[0].data).toEqual(data);
      await pair.b.release('with-data', lease);
    }
    await pair.a.hold('with-data', lease);
    expect((await pair.b.showLock('with-data')).holders[0].data).toBeNull();
  });

  it('shows a client that stands in the same line without Postern as external', async () => {
    await using pair = await startPair();
    const { control, layout } = pair.a.gateway.context;
    const lease = await pair.a.createLease({ ttlMs: 20_000 });
    const directory = layout.line('lock', 'default', 'shared');
    await pair.a.hold('shared', lease);
    await pair.a.release('shared', lease);
    const { path } = await control.create(
      `${directory}/_c_6f1d4b3e-57a8-4a4f-9d0c-1d2f3a4b5c6d-lock-`,
      Buffer.from('10.0.0.7'),
      { mode: 'ephemeral-sequential' },
    );
    const lock = await pair.b.showLock('shared');
    expect(lock.holders).toMatchObject([{ holdId: null, leaseId: null, principal: null, label: null, external: true }]);
    expect((await pair.b.acquire('shared', lease)).body).toMatchObject({ code: 'lock-held' });
    const waiting = pair.b.acquire('shared', lease, { waitMs: 20_000 });
    await pair.a.untilWaiting('shared', 1);
    const behind = await control.create(`${directory}/_c_7f1d4b3e-57a8-4a4f-9d0c-1d2f3a4b5c6d-lock-`, Buffer.alloc(0), {
      mode: 'ephemeral-sequential',
    });
    expect((await pair.b.showLock('shared')).waiters).toMatchObject([
      { leaseId: lease.leaseId, position: 1, external: false },
      { leaseId: null, principal: null, label: null, position: 2, external: true },
    ]);
    await control.delete(path);
    expect((await waiting).body).toMatchObject({ held: true, leaseId: lease.leaseId });
    await control.delete(behind.path);
  });

  it('shows the first hundred who wait and their count; all of them are paged at the sub-path', async () => {
    await using pair = await startPair();
    const [holder, crowd] = await Promise.all([
      pair.a.createLease({ ttlMs: 60_000 }),
      pair.a.createLease({ ttlMs: 60_000, label: 'crowd' }),
    ]);
    await pair.a.hold('crowded', holder);
    await Promise.all(
      Array.from({ length: 105 }, (_, index) =>
        pair.a.acquire('crowded', crowd, { keepPlace: true, requestId: `r${index}` }),
      ),
    );
    const lock = await pair.b.showLock('crowded');
    expect(lock.waiterCount).toBe(105);
    expect((lock.waiters as Item[]).map(({ position }) => position)).toEqual(
      Array.from({ length: 100 }, (_, index) => index + 1),
    );
    const pages = await pagesOf([pair.a, pair.b], '/v1/locks/crowded/waiters', 'limit=50');
    expect(pages.map((page) => page.length)).toEqual([50, 50, 5]);
    expect(pages.flat().map(({ position }) => position)).toEqual(Array.from({ length: 105 }, (_, index) => index + 1));
    expect(pages.flat().slice(0, 100)).toEqual(lock.waiters);
    expect((await pagesOf([pair.b], '/v1/locks/crowded/waiters', 'limit=105')).map((page) => page.length)).toEqual([
      105,
    ]);
    expect((await pagesOf([pair.b], '/v1/locks/crowded/waiters', '')).map((page) => page.length)).toEqual([100, 5]);
  });
});

describe('the namespace of a look', () => {
  it('is that of the Namespace header, else that of the lease token that comes along, else default', async () => {
    await using pair = await startPair();
    const headers = { namespace: 'team-a' };
    const lease = await pair.a.expect(201, 'POST', '/v1/leases', { body: { ttlMs: 20_000 }, headers });
    const { fencingToken } = await pair.a.hold('somewhere', lease);
    const looks = (options: CallOptions): Promise<unknown[]> =>
      Promise.all([
        pair.b.expect(200, 'GET', '/v1/locks/somewhere', options).then(({ holders }) => holders.length),
        pair.b.expect(200, 'GET', '/v1/locks', options).then(({ items }) => items.length),
        pair.b
          .expect(200, 'POST', '/v1/locks/somewhere/check', { ...options, body: { fencingToken } })
          .then(({ current }) => Number(current)),
      ]);
    expect(await looks({ headers })).toEqual([1, 1, 1]);
    expect(await looks({ leaseToken: lease.leaseToken })).toEqual([1, 1, 1]);
    expect(await looks({ leaseToken: lease.leaseToken, headers: { namespace: 'default' } })).toEqual([0, 0, 0]);
    expect(await looks({})).toEqual([0, 0, 0]);
  });
});

describe('the list of locks', () => {
  it('shows by name every lock that is held or waited for, and no other', async () => {
    await using pair = await startPair();
    const [one, two] = await Promise.all([
      pair.a.createLease({ ttlMs: 20_000, label: 'one' }),
      pair.b.createLease({ ttlMs: 20_000 }),
    ]);
    const hold = await pair.a.hold('b-held', one);
    await pair.b.acquire('b-held', two, { keepPlace: true });
    await pair.b.hold('a-held', two);
    await pair.a.hold('c-freed', one);
    await pair.b.release('c-freed', one);
    await pair.a.hold('d-waited-for', one);
    await pair.a.acquire('d-waited-for', two, { keepPlace: true });
    await pair.a.release('d-waited-for', one);
    for (const replica of [pair.a, pair.b]) {
      const { items, nextPageToken } = await replica.expect(200, 'GET', '/v1/locks');
      expect(nextPageToken).toBeUndefined();
      expect((items as Item[]).map(({ name }) => name)).toEqual(['a-held', 'b-held', 'd-waited-for']);
      expect(items[0]).toMatchObject({ waiterCount: 0, oldestWaitSince: null });
      expect(items[1]).toMatchObject({
        holders: [{ leaseId: one.leaseId, label: 'one', holdId: hold.holdId }],
        waiterCount: 1,
      });
      expect(items[1].oldestWaitSince).toBe((await replica.showLock('b-held')).waiters[0].since);
      expect(items[2]).toMatchObject({ holders: [], waiterCount: 1 });
    }
  });

  it('is paged and narrowed by a prefix', async () => {
    await using pair = await startPair();
    const lease = await pair.a.createLease({ ttlMs: 20_000 });
    const names = ['app.a', 'app.b', 'app.c', 'app~d', 'other'];
    await Promise.all(names.map((name) => pair.a.hold(name, lease)));
    const namesOf = (pages: Item[][]): string[][] => pages.map((page) => page.map(({ name }) => name));
    expect(namesOf(await pagesOf([pair.a, pair.b], '/v1/locks', 'limit=2'))).toEqual([
      ['app.a', 'app.b'],
      ['app.c', 'app~d'],
      ['other'],
    ]);
    expect(namesOf(await pagesOf([pair.b, pair.a], '/v1/locks', 'limit=2&prefix=app.'))).toEqual([
      ['app.a', 'app.b'],
      ['app.c'],
    ]);
    expect(namesOf(await pagesOf([pair.b], '/v1/locks', 'prefix=zzz'))).toEqual([[]]);
    expect(namesOf(await pagesOf([pair.b], '/v1/locks', 'limit=1000'))).toEqual([names]);
  });

  it('refuses limits, page tokens, prefixes and parameters that break their rule', async () => {
    await using replica = await startReplica();
    for (const path of ['/v1/locks', '/v1/locks/some/waiters']) {
      for (const [query, field] of [
        ['limit=0', 'limit'],
        ['limit=1001', 'limit'],
        ['limit=1.5', 'limit'],
        ['pageToken=nonsense', 'pageToken'],
        ['consistency=maybe', 'consistency'],
        ['page=2', 'page'],
      ]) {
        const { status, body } = await replica.call('GET', `${path}?${query}`);
        expect(status, `${path}?${query}`).toBe(422);
        expect(body, `${path}?${query}`).toMatchObject({ code: 'invalid', field });
      }
    }
    expect((await replica.call('GET', '/v1/locks?prefix=a%2Fb')).body).toMatchObject({ status: 422, field: 'prefix' });
  });

  it('needs the scope read, and shows the principal of a holder', async () => {
    await using keys = await makeApiKeys({ alice: { default: ['use'] }, reader: { default: ['read'] } });
    await using replica = await startReplica({ settings: { POSTERN_AUTH_FILE: keys.file } });
    await using alice = keys.as('alice', replica.url);
    await using reader = keys.as('reader', replica.url);
    await alice.hold('hers', await alice.createLease({ ttlMs: 20_000 }));
    expect(await reader.showLock('hers')).toMatchObject({ holders: [{ principal: 'alice' }] });
    for (const path of ['/v1/locks', '/v1/locks/hers', '/v1/locks/hers/waiters', '/v1/locks/hers/events']) {
      expect((await alice.call('GET', path)).body).toMatchObject({ status: 403, code: 'forbidden' });
      expect((await replica.call('GET', path)).body).toMatchObject({ status: 401, code: 'unauthenticated' });
    }
    expect((await alice.call('POST', '/v1/locks/hers/check', { body: { fencingToken: 1 } })).status).toBe(403);
  });
});
