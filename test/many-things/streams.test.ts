/** `GET /v1/events` and lists as streams: many things in one stream, each change told once. */
import { describe, expect, it } from 'vitest';
import { makeApiKeys } from '../support/http/api-keys.js';
import { EventReader, type StreamedEvent } from '../support/http/event-stream.js';
import { eventually } from '../support/eventually.js';
import { startPair, startReplica, type Replica } from '../support/start-gateway.js';

const open = (replica: Replica, watch: string, headers: Record<string, string> = {}): Promise<EventReader> =>
  EventReader.open(replica.url, `/v1/events?watch=${encodeURIComponent(watch)}`, { headers });

interface Thing {
  kind: string;
  name: string;
  state: unknown;
}

/** What an event is about. */
function about({ event, data }: StreamedEvent): string {
  return `${event} ${data.kind}:${data.name}`;
}

function thingsIn({ data }: StreamedEvent): string[] {
  return (data.items as Thing[]).map(({ kind, name }) => `${kind}:${name}`).sort();
}

async function add(replica: Replica, counter: string): Promise<void> {
  await replica.expect(200, 'POST', `/v1/counters/${counter}/add`, { body: { by: 1 } });
}

describe('a stream of many things', () => {
  it('begins with the state of each, and tells of every change once, whichever replica made it', async () => {
    await using pair = await startPair();
    const lease = await pair.a.createLease({ ttlMs: 10_000 });
    await pair.a.acquire('backup', lease);
    await pair.a.expect(201, 'PUT', '/v1/config/app/a', { body: '1' });
    await using stream = await open(
      pair.b,
      'lock:backup,lock:free,rwlock:r,semaphore:s,election:e,group:g,barrier:b,double-barrier:d,queue:q,counter:c,config:app/a,config:none',
    );
    const first = await stream.next();
    expect(first.event).toBe('state');
    expect(first.data.items).toHaveLength(11); // there is no queue
    const stateOf = (kind: string, name: string): unknown =>
      (first.data.items as Thing[]).find((item) => item.kind === kind && item.name === name)?.state;
    expect(stateOf('lock', 'backup')).toMatchObject({ name: 'backup', holders: [{ leaseId: lease.leaseId }] });
    expect(stateOf('lock', 'free')).toEqual({ name: 'free', holders: [] });
    expect(stateOf('counter', 'c')).toEqual({ name: 'c', value: 0 });
    expect(stateOf('config', 'app/a')).toMatchObject({ key: 'app/a', exists: true });
    expect(stateOf('config', 'none')).toEqual({ key: 'none', exists: false });

    await pair.a.expect(201, 'PUT', '/v1/queues/q', { body: { order: 'fifo' } });
    const made = await stream.next();
    expect([about(made), made.data.state.name]).toEqual(['changed queue:q', 'q']);
    await add(pair.a, 'c');
    expect(await stream.next()).toMatchObject({ event: 'changed', data: { kind: 'counter', state: { value: 1 } } });
    await pair.a.endLease(lease);
    const freed = await stream.next();
    expect([about(freed), freed.data.state]).toEqual(['changed lock:backup', { name: 'backup', holders: [] }]);
    await pair.a.expect(204, 'DELETE', '/v1/queues/q');
    expect(about(await stream.next())).toBe('gone queue:q');
    await pair.a.expect(204, 'DELETE', '/v1/config/app/a');
    expect(await stream.next()).toMatchObject({ data: { name: 'app/a', state: { exists: false } } });
    expect(stream.pending).toEqual([]);
  });

  it('tells of all names that begin so, those that come, and those that are in use no more', async () => {
    await using pair = await startPair();
    const lease = await pair.a.createLease({ ttlMs: 10_000 });
    await pair.a.acquire('app-1', lease);
    await pair.a.acquire('other', lease);
    await add(pair.a, 'visits');
    await pair.a.expect(201, 'PUT', '/v1/config/app/a', { body: '1' });
    await using stream = await open(pair.b, 'lock:app-*,counter:*,election:*,config:app/*,lock:app-2');
    expect(thingsIn(await stream.next())).toEqual(['config:app/a', 'counter:visits', 'lock:app-1', 'lock:app-2']);

    await pair.a.acquire('app-3', lease);
    expect(about(await stream.next())).toBe('changed lock:app-3');
    await pair.a.release('app-1', lease);
    expect(about(await stream.next())).toBe('gone lock:app-1');
    await pair.a.acquire('app-1', lease);
    expect(about(await stream.next())).toBe('changed lock:app-1');
    await pair.a.expect(201, 'PUT', '/v1/config/app/b', { body: '2' });
    expect(await stream.next()).toMatchObject({ event: 'changed', data: { name: 'app/b', state: { bytes: 1 } } });
    await pair.a.expect(204, 'DELETE', '/v1/config/app/a');
    expect(about(await stream.next())).toBe('gone config:app/a');
    await pair.a.expect(204, 'DELETE', '/v1/counters/visits');
    expect(about(await stream.next())).toBe('gone counter:visits');
    expect(stream.pending).toEqual([]);
  });

  it('is the stream of a list as well', async () => {
    await using pair = await startPair();
    await add(pair.a, 'b1');
    await add(pair.a, 'a');
    await using stream = await EventReader.open(pair.b.url, '/v1/counters?prefix=b');
    expect(thingsIn(await stream.next())).toEqual(['counter:b1']);
    await add(pair.a, 'a2');
    await add(pair.a, 'b2');
    expect(about(await stream.next())).toBe('changed counter:b2');
  });

  it('resumes at another replica with the present state, and says since when it may have missed something', async () => {
    await using pair = await startPair();
    await add(pair.a, 'c');
    let last: StreamedEvent;
    {
      await using stream = await open(pair.a, 'counter:c');
      last = await stream.next();
      expect(last.data).not.toHaveProperty('gapSince');
    }
    await add(pair.a, 'c');
    await using resumed = await open(pair.b, 'counter:c', { 'last-event-id': last.id as string });
    expect(await resumed.next()).toMatchObject({
      event: 'state',
      data: { gapSince: last.id, items: [{ state: { value: 2 } }] },
    });
  });

  it('has one observer for each thing in a replica, however many streams tell of it', async () => {
    await using replica = await startReplica();
    for (let i = 0; i < 20; i += 1) await add(replica, `c${i}`);
    await using first = await open(replica, 'counter:*');
    expect(thingsIn(await first.next())).toHaveLength(20);
    const observed = replica.gateway.observed();
    await using second = await open(replica, 'counter:*,counter:c1');
    expect(thingsIn(await second.next())).toHaveLength(20);
    expect(replica.gateway.observed()).toBe(observed);
  });
});

describe('what a stream may tell of', () => {
  it('is what its caller may read, until its credential may read less', async () => {
    await using keys = await makeApiKeys({
      root: '*',
      some: { default: { lock: [{ scopes: ['read'], names: ['mine-*'] }], counter: ['read'] } },
    });
    await using replica = await startReplica({ settings: { POSTERN_AUTH_FILE: keys.file } });
    await using root = keys.as('root', replica.url);
    await using some = keys.as('some', replica.url);
    const lease = await root.createLease({ ttlMs: 10_000 });
    for (const name of ['mine-1', 'mine-2', 'theirs']) await root.acquire(name, lease);
    const headers = { authorization: `Bearer ${some.key}` };
    const refused = async (watch: string): Promise<unknown> => some.call('GET', `/v1/events?watch=${watch}`);
    expect(await refused('lock:mine-1,lock:theirs')).toMatchObject({
      status: 403,
      body: { scope: 'read', kind: 'lock', name: 'theirs' },
    });
    expect(await refused('queue:*')).toMatchObject({ status: 403, body: { scope: 'read', kind: 'queue' } });
    await using stream = await open(replica, 'lock:*,counter:*', headers);
    expect(thingsIn(await stream.next())).toEqual(['lock:mine-1', 'lock:mine-2']);
    await keys.leave({
      root: '*',
      some: { default: { lock: [{ scopes: ['read'], names: ['mine-1'] }], counter: ['read'] } },
    });
    expect(await stream.next()).toMatchObject({ event: 'problem', data: { code: 'forbidden', name: 'mine-2' } });
    await eventually('the stream has ended', () => stream.ended);
    await root.endLease(lease);
  });

  it('is bounded for the replica, and what an ended stream watched is free again', async () => {
    // Half of it for one principal; each prefix counts, too.
    await using replica = await startReplica({ settings: { POSTERN_MAX_WATCHED_KEYS: '8' } });
    for (const name of ['a1', 'a2', 'b1', 'b2']) await add(replica, name);
    {
      await using all = await open(replica, 'counter:*');
      expect(await all.next()).toMatchObject({ event: 'problem', data: { code: 'overloaded', maxWatchedKeys: 4 } });
    }
    await using some = await open(replica, 'counter:a*');
    expect(thingsIn(await some.next())).toHaveLength(2);
    {
      await using more = await open(replica, 'counter:b*');
      expect(await more.next()).toMatchObject({ event: 'problem', data: { code: 'overloaded' } });
    }
    await eventually('there is room again', async () => {
      await using one = await open(replica, 'counter:b1');
      return (await one.next()).event === 'state';
    });
  });

  it.each([
    ['nothing', ''],
    ['lock', 'lock'],
    ['lock:', 'lock:'],
    ['an unknown kind', 'lease:x'],
    ['a name with a slash', 'lock:a/b'],
    ['a star in the middle', 'lock:a*b'],
    ['an empty entry', 'lock:a,,lock:b'],
  ])('is refused with the field and the value: %s', async (_, watch) => {
    await using replica = await startReplica();
    const answer = await replica.call('GET', `/v1/events?watch=${encodeURIComponent(watch)}`);
    expect(answer).toMatchObject({ status: 422, body: { errors: [{ field: 'watch' }] } });
  });
});
