/** What a stream of many things may cost: others, its replica, and its reader. */
import { setImmediate as nextTurn } from 'node:timers/promises';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { ManyThings, THINGS_MAX } from '../../src/http/routes/many-things.js';
import type { ServerEvent } from '../../src/http/frame/exchange.js';
import { Turns } from '../../src/recipes/observing/turns.js';
import { Watched } from '../../src/recipes/observing/watched.js';
import { put } from '../recipes/config/client.js';
import { makeApiKeys } from '../support/http/api-keys.js';
import { EventReader } from '../support/http/event-stream.js';
import { eventually } from '../support/eventually.js';
import { startReplica, type Replica } from '../support/start-gateway.js';

const open = (replica: Replica, watch: string, headers: Record<string, string> = {}): Promise<EventReader> =>
  EventReader.open(replica.url, `/v1/events?watch=${watch}`, { headers });

async function add(replica: Pick<Replica, 'expect'>, counter: string): Promise<void> {
  await replica.expect(200, 'POST', `/v1/counters/${counter}/add`, { body: { by: 1 } });
}

/** Nodes that the replica has read with a watch, or without. */
async function readsOf(replica: Replica): Promise<number> {
  const page = String(await replica.expect(200, 'GET', '/metrics'));
  return Number(/^postern_zookeeper_request_duration_seconds_count\{op="getData"\} (\d+)$/m.exec(page)?.[1] ?? 0);
}

describe('what is watched', () => {
  it('is given once, whatever is given twice or covered by a shorter prefix', async () => {
    // Half of it, for one principal: a prefix, and three counters.
    await using replica = await startReplica({ settings: { POSTERN_MAX_WATCHED_KEYS: '8' } });
    for (const name of ['a1', 'a2', 'b']) await add(replica, name);
    const watch = [...Array.from({ length: 200 }, () => 'counter:*'), 'counter:a*', 'counter:a1*'].join(',');
    await using stream = await open(replica, watch);
    expect((await stream.next()).data.items).toHaveLength(3);
  });

  it('has at most 256 entries, and not more characters than a request target', async () => {
    await using replica = await startReplica();
    const many = await replica.call('GET', `/v1/events?watch=${Array.from({ length: 257 }, () => 'lock:a').join(',')}`);
    expect(many).toMatchObject({ status: 422, body: { field: 'watch', maxEntries: 256 } });
    expect((many.body as { detail: string }).detail).toContain('257');
    await using most = await open(replica, Array.from({ length: 256 }, (_, i) => `lock:a${i}`).join(','));
    expect((await most.next()).data.items).toHaveLength(256);
    const long = await replica.call('GET', `/v1/events?watch=${'lock:a,'.repeat(1_143)}`);
    expect(long).toMatchObject({ status: 422, body: { field: 'watch' } });
  });

  it('is looked at as a whole once, and then only where it changes', async () => {
    await using replica = await startReplica();
    for (const name of ['a', 'b', 'c']) await add(replica, name);
    const { layout } = replica.gateway.context;
    const path = layout.counter('default', 'any');
    const told: string[][] = [];
    const unsubscribe = replica.gateway.recipes.names.observers.subscribe(
      { path: path.slice(0, path.lastIndexOf('/')) },
      ({ names, changed }) => told.push(told.length === 0 ? [...names].sort() : [...changed]),
    );
    await eventually('the names are known', () => told.length === 1);
    await add(replica, 'd');
    await eventually('one more has come', () => told.length === 2);
    unsubscribe();
    expect(told).toEqual([['a', 'b', 'c'], ['d']]);
  });
});

describe('what a principal may watch', () => {
  it('is half of what there is, so that another one has room, and comes back when its streams end', async () => {
    await using keys = await makeApiKeys({ root: '*', greedy: '*' });
    await using replica = await startReplica({
      settings: { POSTERN_AUTH_FILE: keys.file, POSTERN_MAX_WATCHED_KEYS: '8' },
    });
    await using root = keys.as('root', replica.url);
    await using greedy = keys.as('greedy', replica.url);
    for (const name of ['a', 'b', 'c', 'd', 'e']) await add(root, name);
    const as = ({ key }: { key: string }): Record<string, string> => ({ authorization: `Bearer ${key}` });
    const refusal = { code: 'overloaded', limit: 'maxWatchedKeys', maxWatchedKeys: 4 };
    {
      await using taken = await open(replica, 'lock:a,lock:b,lock:c,lock:d', as(greedy));
      await taken.next();
      // Known at once, it is refused before the stream begins.
      expect(await greedy.call('GET', '/v1/events?watch=lock:e')).toMatchObject({ status: 503, body: refusal });
      await using others = await open(replica, 'lock:a,lock:b,lock:c,lock:d', as(root));
      expect((await others.next()).event).toBe('state');
    }
    await eventually('there is room again', async () => (await greedyOpens()) === 'state');
    async function greedyOpens(): Promise<string> {
      await using stream = await open(replica, 'counter:a*,counter:b*', as(greedy));
      return (await stream.next()).event;
    }
  });

  it('is refused before any of it is watched, and browsers are told not to come back at once', async () => {
    await using replica = await startReplica({ settings: { POSTERN_MAX_WATCHED_KEYS: '40' } });
    for (let i = 0; i < 30; i += 1) await add(replica, `c${i}`);
    const before = await readsOf(replica);
    const answer = await fetch(`${replica.url}/v1/events?watch=counter:*`, {
      headers: { accept: 'text/event-stream' },
    });
    const text = await answer.text();
    expect(text).toMatch(/^retry: 10000\nevent: problem\n/m);
    expect(text).toContain('"maxWatchedKeys":20');
    // What a replica reads by itself meanwhile is beside it.
    expect((await readsOf(replica)) - before).toBeLessThan(10);
  });

  it('counts the keys under a prefix as well, of which all principals keep one copy', async () => {
    await using keys = await makeApiKeys({ root: '*', greedy: '*' });
    await using replica = await startReplica({
      settings: { POSTERN_AUTH_FILE: keys.file, POSTERN_MAX_WATCHED_KEYS: '40' },
    });
    await using root = keys.as('root', replica.url);
    await using greedy = keys.as('greedy', replica.url);
    for (let i = 0; i < 8; i += 1) await root.expect(201, 'PUT', `/v1/config/app/${i}`, { body: '1' });
    const path = '/v1/config?prefix=app/';
    const as = (key: string): { headers: Record<string, string> } => ({ headers: { authorization: `Bearer ${key}` } });
    await using first = await EventReader.open(replica.url, path, as(greedy.key));
    await using second = await EventReader.open(replica.url, path, as(greedy.key));
    for (const stream of [first, second]) expect((await stream.next()).data.items).toHaveLength(8);
    await using third = await EventReader.open(replica.url, path, as(greedy.key));
    const refused = await third.next();
    expect(refused).toMatchObject({ event: 'problem', data: { code: 'overloaded', maxWatchedKeys: 20 } });
    await using others = await EventReader.open(replica.url, path, as(root.key));
    expect((await others.next()).event).toBe('state');
  });
});

describe('what a reader is sent', () => {
  it('begins with as much as fits into one event, and the rest follows as changes', async () => {
    await using replica = await startReplica();
    const keys = Array.from({ length: 40 }, (_, i) => `k${i}`);
    await Promise.all(keys.map((key) => put(replica, key, key.padEnd(16_000))));
    await using stream = await open(replica, keys.map((key) => `config:${key}`).join(','));
    const { event, data } = await stream.next();
    expect(event).toBe('state');
    expect(JSON.stringify(data).length).toBeLessThan(300_000);
    const told = (data.items as { name: string }[]).map(({ name }) => name);
    expect(told.length).toBeGreaterThan(1);
    expect(data.more).toBe(40 - told.length);
    await eventually('the rest has come', () => stream.pending.length === data.more);
    expect(stream.pending.every((one) => one.event === 'changed')).toBe(true);
    expect([...told, ...stream.pending.map((one) => one.data.name as string)].sort()).toEqual(keys.sort());
  });
});

describe('what the streams of a replica watch together', () => {
  it('is counted once, also where it is kept for them', () => {
    const watched = new Watched(10, () => undefined);
    expect(watched.share('one').take(5)).toBeUndefined();
    expect(watched.take(5, 0)).toBeUndefined();
    expect(watched.share('other').take(5)).toBeUndefined();
    expect(watched.share('third').take(1)).toMatchObject({ code: 'overloaded' });
    expect(watched.take(11, 5)).toMatchObject({ code: 'overloaded' });
  });
});

describe('the end of a stream', () => {
  afterEach(() => void vi.useRealTimers());

  const things = (told: ServerEvent[], failed: Error[], watched = new Watched(2 * THINGS_MAX, () => undefined)) => {
    const sink = {
      send: (event: ServerEvent) => told.push(structuredClone(event)) > 0,
      caughtUp: () => undefined,
      signal: new AbortController().signal,
      lastEventId: undefined,
    };
    return new ManyThings({
      sink,
      share: watched.share('some'),
      turns: new Turns(),
      onFail: (error) => failed.push(error),
    });
  };

  it('comes with one problem, at once, when it has more than it may have', () => {
    const failed: Error[] = [];
    const many = things([], failed);
    expect(many.take(THINGS_MAX)).toBe(true);
    expect(many.take(1)).toBe(false);
    expect(many.take(1)).toBe(false);
    expect(many.isClosed).toBe(true);
    expect(failed).toMatchObject([{ code: 'invalid', members: { maxThings: THINGS_MAX } }]);
  });

  it('takes its subscriptions a little at a time, and only then is there room again', async () => {
    const watched = new Watched(4_000, () => undefined);
    const many = things([], [], watched);
    let left = 0;
    expect(many.take(2_000)).toBe(true);
    for (let i = 0; i < 2_000; i += 1)
      many.watch({ kind: 'lock', name: `n${i}` }, () => () => {
        const until = performance.now() + 0.02;
        while (performance.now() < until);
        left += 1;
      });
    many.close();
    expect(left).toBe(0);
    expect(watched.refusal('some', 1)).toBeDefined();
    let turns = 0;
    for (; left < 2_000; turns += 1) await nextTurn();
    expect(turns).toBeGreaterThan(4);
    await eventually('there is room again', () => watched.refusal('some', 2_000) === undefined);
  });

  it('comes with a problem when what is told at the latest moment cannot be told', () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    const failed: Error[] = [];
    const many = things([], failed);
    expect(many.take(2)).toBe(true);
    many.watch({ kind: 'lock', name: 'late' }, () => () => undefined);
    many.watch({ kind: 'lock', name: 'a' }, (tell) => {
      tell({ etag: '1', state: { value: 1n } }); // no JSON
      return () => undefined;
    });
    many.listed();
    expect(failed).toEqual([]);
    vi.advanceTimersByTime(5_000);
    expect(failed).toHaveLength(1);
  });
});
