/** Streams of many prefixes in one directory: one look for all of them, and none hears of the keys of another. */
import { expect, test } from 'vitest';
import { makeApiKeys } from '../../../support/http/api-keys.js';
import { EventReader } from '../../../support/http/event-stream.js';
import { startPair, startReplica, type Replica } from '../../../support/start-gateway.js';
import { put, remove, write } from '../client.js';

/** Znodes that the replica has looked at. */
async function looksOf(replica: Replica): Promise<number> {
  const page = String(await replica.expect(200, 'GET', '/metrics'));
  return Number(/^postern_zookeeper_request_duration_seconds_count\{op="exists"\} (\d+)$/m.exec(page)?.[1] ?? 0);
}

function keysIn(data: { items: { key: string }[] }): string[] {
  return data.items.map(({ key }) => key).sort();
}

const open = (replica: Replica, prefix: string): Promise<EventReader> =>
  EventReader.open(replica.url, `/v1/config?prefix=${prefix}`);

test('each is told its own, also when others with shorter and longer prefixes come and go', async () => {
  await using pair = await startPair();
  for (const key of ['app-1', 'app-2', 'apple', 'app/below', 'bee']) await put(pair.a, key, key);
  await using long = await open(pair.b, 'app-1');
  expect(keysIn((await long.next()).data)).toEqual(['app-1']);
  {
    await using short = await open(pair.b, 'app');
    expect(keysIn((await short.next()).data)).toEqual(['app-1', 'app-2', 'app/below', 'apple']);
    await using other = await open(pair.b, 'b');
    expect(keysIn((await other.next()).data)).toEqual(['bee']);
    await put(pair.a, 'app-2', 'changed');
    expect(await short.next()).toMatchObject({ event: 'changed', data: { key: 'app-2' } });
    await remove(pair.a, 'bee');
    expect(await other.next()).toMatchObject({ event: 'deleted', data: { key: 'bee' } });
    expect(short.pending).toEqual([]);
  }
  await put(pair.a, 'app-2', 'not seen');
  await put(pair.a, 'app-1', 'changed');
  expect(await long.next()).toMatchObject({ event: 'changed', data: { key: 'app-1' } });
  expect(long.pending).toEqual([]);
});

test('the ids of events do not tell how many keys have changed that are not shown', async () => {
  await using keys = await makeApiKeys({
    root: '*',
    reader: { default: { config: { scopes: ['read'], names: ['mine/*'] } } },
  });
  await using replica = await startReplica({ settings: { POSTERN_AUTH_FILE: keys.file } });
  await using root = keys.as('root', replica.url);
  const headers = { authorization: `Bearer ${keys.as('reader', replica.url).key}` };
  await using stream = await EventReader.open(replica.url, '/v1/config?prefix=m', { headers });
  const before = await stream.next();
  for (let i = 0; i < 10; i += 1) await put(root, 'mhidden', String(i));
  await put(root, 'mine/own', 'shown');
  const ids = [before, await stream.next()].map(({ id }) => id);
  for (const id of ids) expect(id).toMatch(/^\d{4}-\d\d-\d\dT/);
});

test('a change costs one look, however many prefixes its key begins with', async () => {
  await using pair = await startPair();
  const name = 'p'.repeat(30);
  await put(pair.a, name, 'first');
  const streams: EventReader[] = [];
  try {
    for (let i = 1; i <= name.length; i += 1) streams.push(await open(pair.b, name.slice(0, i)));
    for (const stream of streams) expect(keysIn((await stream.next()).data)).toEqual([name]);
    const before = await looksOf(pair.b);
    await put(pair.a, name, 'second');
    for (const stream of streams) expect((await stream.next()).data).toMatchObject({ key: name, bytes: 6 });
    // What a replica looks at by itself meanwhile is beside it.
    expect((await looksOf(pair.b)) - before).toBeLessThan(10);
  } finally {
    for (const stream of streams) await stream[Symbol.asyncDispose]();
  }
});

test('a stream that would take more keys than the replica keeps is refused with the limit, and the others go on', async () => {
  await using pair = await startPair({ settings: { POSTERN_MAX_WATCHED_KEYS: '30' } });
  await write(
    pair.a,
    Array.from({ length: 40 }, (_, i) => ({ put: `many-${i}`, value: i })),
  );
  await using few = await open(pair.b, 'many-1');
  expect(keysIn((await few.next()).data)).toHaveLength(11);
  await using all = await open(pair.b, 'many');
  expect(await all.next()).toMatchObject({
    event: 'problem',
    data: { code: 'overloaded', status: 503, maxWatchedKeys: 30 },
  });
  await put(pair.a, 'many-1', 'changed');
  expect(await few.next()).toMatchObject({ event: 'changed', data: { key: 'many-1' } });
  await using again = await open(pair.b, 'many-4');
  expect(keysIn((await again.next()).data)).toEqual(['many-4']);
});

test('each worker of a replica keeps its share of the keys that the replica may keep', async () => {
  await using replica = await startReplica({
    settings: { POSTERN_MAX_WATCHED_KEYS: '20', POSTERN_WORKERS: '2' },
  });
  await write(
    replica,
    Array.from({ length: 11 }, (_, i) => ({ put: `many-${i}`, value: i })),
  );
  await using all = await open(replica, 'many');
  expect(await all.next()).toMatchObject({ event: 'problem', data: { code: 'overloaded', maxWatchedKeys: 10 } });
});
