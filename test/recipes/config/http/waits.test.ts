/** Waiting for a configuration key: to change, to exist (a rendezvous), and by event stream, also of a prefix. */
import { describe, expect, it } from 'vitest';
import { eventually, throughout } from '../../../support/eventually.js';
import { EventReader } from '../../../support/http/event-stream.js';
import { startPair, startReplica } from '../../../support/start-gateway.js';
import { etagOfPut, get, put, remove, write } from '../client.js';

describe('a long poll', () => {
  it('answers when the key is changed at the other replica, with the new value', async () => {
    await using pair = await startPair();
    const etag = await etagOfPut(pair.a, 'polled', 'before');
    const polling = get(pair.b, 'polled', '?waitMs=20000', { 'if-none-match': etag });
    await throughout('it waits', () => isPending(polling));
    const next = await etagOfPut(pair.a, 'polled', 'after');
    expect(await polling).toMatchObject({ status: 200, body: 'after', headers: { etag: next } });
  });

  it('answers 404 when the key is deleted', async () => {
    await using pair = await startPair();
    const etag = await etagOfPut(pair.a, 'polled', 'before');
    const polling = get(pair.b, 'polled', '?waitMs=20000', { 'if-none-match': etag });
    await throughout('it waits', () => isPending(polling));
    await remove(pair.a, 'polled');
    expect(await polling).toMatchObject({ status: 404, body: { code: 'not-found', key: 'polled' } });
  });

  it('answers 304 when nothing changed in time, also to a put of another key above, below and beside', async () => {
    await using pair = await startPair();
    const etag = await etagOfPut(pair.a, 'a/b', 'same');
    const sentAt = performance.now();
    const polling = get(pair.b, 'a/b', '?waitMs=700', { 'if-none-match': etag });
    for (const key of ['a', 'a/b/c', 'a/x']) await put(pair.a, key, 'other');
    expect(await polling).toMatchObject({ status: 304, headers: { etag }, body: undefined });
    expect(performance.now() - sentAt).toBeGreaterThanOrEqual(600);
    expect((await get(pair.b, 'a/b', '', { 'if-none-match': `"x", W/${etag}` })).status).toBe(304);
    expect((await get(pair.b, 'a/b', '', { 'if-none-match': '"x"' })).status).toBe(200);
  });

  it('that begins behind a write is never answered with what was there before it', async () => {
    await using pair = await startPair();
    const older = await etagOfPut(pair.a, 'newest', 'older');
    await using stream = await EventReader.open(pair.b.url, '/v1/config/newest');
    await stream.next();
    // The replica has looked at the key for somebody else, and does not hear of what happens to it now.
    const { watches } = pair.b.gateway.context.control;
    const held: Parameters<typeof watches.dispatch>[] = [];
    watches.dispatch = (...notification) => void held.push(notification);
    const newer = await etagOfPut(pair.a, 'newest', 'newer');
    expect((await get(pair.b, 'newest', '?waitMs=300', { 'if-none-match': newer })).status).toBe(304);
    expect((await get(pair.b, 'newest', '?waitMs=300', { 'if-none-match': older })).body).toBe('newer');
    await remove(pair.a, 'newest');
    expect((await get(pair.b, 'newest', '?waitMs=300')).status).toBe(404);
    expect(held.length).toBeGreaterThan(0);
    Reflect.deleteProperty(watches, 'dispatch');
    for (const notification of held) watches.dispatch(...notification);
    expect((await stream.next()).data).toMatchObject({ exists: false });
  });

  it('is told to go elsewhere by a replica that shuts down', async () => {
    await using pair = await startPair();
    const leaving = await startReplica({ root: pair.root });
    const etag = await etagOfPut(pair.a, 'drained', 'x');
    const polling = get(leaving, 'drained', '?waitMs=20000', { 'if-none-match': etag });
    await eventually('it waits', async () => (await leaving.metric('postern_watches')) > 1);
    await leaving.gateway.stop();
    expect(await polling).toMatchObject({ status: 503, body: { code: 'draining', retryable: true } });
    await leaving[Symbol.asyncDispose]();
  });
});

describe('a rendezvous', () => {
  it('answers when the key exists, however deep, and at once when it does already', async () => {
    await using pair = await startPair();
    for (const key of ['here', 'deep/below/nothing/yet']) {
      const waiting = [pair.a, pair.b].map((replica) => get(replica, key, '?waitMs=20000'));
      await throughout('it waits', async () => (await Promise.all(waiting.map(isPending))).every(Boolean));
      await put(pair.a, key, 'met');
      for (const reply of await Promise.all(waiting)) expect(reply).toMatchObject({ status: 200, body: 'met' });
      expect(await get(pair.b, key, '?waitMs=20000')).toMatchObject({ status: 200, body: 'met' });
    }
  });

  it('waits on for a key that was deleted, and where there are only keys below it', async () => {
    await using pair = await startPair();
    await put(pair.a, 'gone', 'x');
    await remove(pair.a, 'gone');
    const waiting = get(pair.b, 'gone', '?waitMs=20000');
    await throughout('it waits', () => isPending(waiting));
    await put(pair.a, 'gone/below', 'y');
    await throughout('it waits', () => isPending(waiting));
    await put(pair.a, 'gone', 'back');
    expect((await waiting).body).toBe('back');
  });

  it('is 404 when the key does not come in time, not before', async () => {
    await using pair = await startPair();
    const sentAt = performance.now();
    expect((await get(pair.b, 'never', '?waitMs=500')).status).toBe(404);
    expect(performance.now() - sentAt).toBeGreaterThanOrEqual(400);
  });
});

describe('the stream of a key', () => {
  it('tells its state and every change, also that there is none, with small values and without large ones', async () => {
    await using pair = await startPair();
    await using stream = await EventReader.open(pair.b.url, '/v1/config/app/streamed');
    expect(await stream.next()).toMatchObject({
      event: 'state',
      id: 'absent',
      data: { key: 'app/streamed', exists: false },
    });
    const etag = (await etagOfPut(pair.a, 'app/streamed', 'value')).slice(1, -1);
    expect(await stream.next()).toEqual({
      event: 'state',
      id: etag,
      data: {
        key: 'app/streamed',
        exists: true,
        etag,
        contentType: 'text/plain',
        bytes: 5,
        modifiedAt: expect.any(String) as string,
        valueBase64: Buffer.from('value').toString('base64'),
      },
    });
    await put(pair.a, 'app/streamed', Buffer.alloc(16_385));
    const { data } = await stream.next();
    expect(data).toMatchObject({ exists: true, bytes: 16_385 });
    expect(data).not.toHaveProperty('valueBase64');
    await remove(pair.a, 'app/streamed');
    expect((await stream.next()).data).toEqual({ key: 'app/streamed', exists: false });
  });
});

describe('the stream of a prefix', () => {
  it('tells all keys, then each that is new, changed or deleted, and nothing of others', async () => {
    await using pair = await startPair();
    for (const key of ['app/a', 'app/b/c', 'apple', 'other']) await put(pair.a, key, key);
    await using stream = await EventReader.open(pair.b.url, '/v1/config?prefix=app/');
    const state = await stream.next();
    expect(state).toMatchObject({ event: 'state', data: { prefix: 'app/' } });
    expect(keysIn(state.data)).toEqual(['app/a', 'app/b/c']);
    const step = async (change: () => Promise<unknown>, event: string, data: object): Promise<void> => {
      await change();
      expect(await stream.next()).toMatchObject({ event, data });
    };
    await step(() => put(pair.a, 'app/a', 'longer'), 'changed', { key: 'app/a', bytes: 6 });
    await step(() => put(pair.b, 'app/new/deep', 'x'), 'changed', { key: 'app/new/deep', bytes: 1 });
    await step(() => remove(pair.a, 'app/b/c'), 'deleted', { key: 'app/b/c' });
    await put(pair.a, 'apple', 'not seen');
    await put(pair.a, 'other', 'not seen');
    await step(() => put(pair.a, 'app/last', 'x'), 'changed', { key: 'app/last' });
    expect(stream.pending).toEqual([]);
    await using later = await EventReader.open(pair.b.url, '/v1/config?prefix=app/');
    expect(keysIn((await later.next()).data)).toEqual(['app/a', 'app/last', 'app/new/deep']);
  });

  it('of an incomplete name, of nothing yet, and of everything', async () => {
    await using pair = await startPair();
    await using part = await EventReader.open(pair.b.url, '/v1/config?prefix=svc/db-');
    await using all = await EventReader.open(pair.a.url, '/v1/config');
    for (const stream of [part, all]) expect(keysIn((await stream.next()).data)).toEqual([]);
    await write(pair.a, [
      { put: 'svc/db-1', value: 1 },
      { put: 'svc/web-1', value: 2 },
    ]);
    expect((await part.next()).data).toMatchObject({ key: 'svc/db-1' });
    expect([(await all.next()).data.key, (await all.next()).data.key].sort()).toEqual(['svc/db-1', 'svc/web-1']);
    expect(part.pending).toEqual([]);
  });
});

function keysIn(data: { items: { key: string }[] }): string[] {
  return data.items.map(({ key }) => key).sort();
}

async function isPending(promise: Promise<unknown>): Promise<boolean> {
  const pending = Symbol('pending');
  return (await Promise.race([promise, Promise.resolve(pending)])) === pending;
}
