/** Configuration keys: what is put is what is read, under conditions that hold when it is written. */
import { request } from 'undici';
import { describe, expect, it } from 'vitest';
import { startPair } from '../../../support/start-gateway.js';
import { etagOfPut, get, keysOf, put, remove } from '../client.js';

describe('a configuration key', () => {
  it('is read at any replica byte for byte, with the type it was put with, and is harmless in a browser', async () => {
    await using pair = await startPair();
    const bytes = Buffer.from(Array.from({ length: 256 }, (_, i) => i));
    expect((await put(pair.a, 'logo', bytes, { type: 'image/png' })).status).toBe(201);
    const answer = await request(`${pair.b.url}/v1/config/logo`);
    expect(Buffer.from(await answer.body.arrayBuffer()).equals(bytes)).toBe(true);
    expect(answer.headers).toMatchObject({
      'content-type': 'image/png',
      'content-security-policy': 'sandbox',
      'x-content-type-options': 'nosniff',
      'cache-control': 'private, no-cache',
    });
    const json = await put(pair.a, 'json', '{"a":1}', { type: 'application/json; charset=utf-8' });
    expect(json).toMatchObject({ status: 201, body: { key: 'json' } });
    expect((await get(pair.b, 'json')).body).toEqual({ a: 1 });
    expect((await put(pair.a, 'json', '', { type: '' })).status).toBe(200);
    expect(await get(pair.b, 'json')).toMatchObject({
      status: 200,
      body: undefined,
      headers: { 'content-type': 'application/octet-stream', 'content-length': '0' },
    });
  });

  it('that is not there is 404, to read and to delete, and HEAD says of one that is what GET does', async () => {
    await using pair = await startPair();
    for (const reply of [await get(pair.a, 'none'), await remove(pair.a, 'none'), await remove(pair.a, 'none/below')])
      expect(reply).toMatchObject({ status: 404, body: { code: 'not-found' } });
    const etag = await etagOfPut(pair.a, 'some', 'value');
    expect(await pair.b.call('HEAD', '/v1/config/some')).toMatchObject({
      status: 200,
      headers: { etag, 'content-length': '5' },
    });
    expect((await remove(pair.b, 'some')).status).toBe(204);
    expect((await get(pair.a, 'some')).status).toBe(404);
  });

  it('may have slashes, written as they are or encoded, and be called like a path of ours', async () => {
    await using pair = await startPair();
    for (const [written, key] of [
      ['app/db/host', 'app/db/host'],
      ['app%2Fdb%2Fport', 'app/db/port'],
      ['app/events', 'app/events'],
      ['%61pp/x', 'app/x'],
    ] as const) {
      expect((await put(pair.a, written, key)).status).toBe(201);
      expect((await get(pair.b, key)).body).toBe(key);
      expect((await get(pair.b, encodeURIComponent(key))).body).toBe(key);
    }
    expect(await keysOf(pair.b)).toEqual(['app/db/host', 'app/db/port', 'app/events', 'app/x']);
  });

  it('of one namespace is not seen in another', async () => {
    await using pair = await startPair();
    await put(pair.a, 'shared', 'here', { headers: { namespace: 'one' } });
    expect((await get(pair.b, 'shared')).status).toBe(404);
    expect((await get(pair.b, 'shared', '', { namespace: 'one' })).body).toBe('here');
    const lease = (await pair.a.expect(201, 'POST', '/v1/leases', { body: {}, headers: { namespace: 'one' } })) as {
      leaseToken: string;
    };
    expect((await put(pair.a, 'shared', 'of the lease', lease)).status).toBe(200);
    expect((await get(pair.b, 'shared', '', { namespace: 'one' })).body).toBe('of the lease');
  });

  it('takes the largest value that is promised and none that is larger', async () => {
    await using pair = await startPair();
    const max = 960 * 1024;
    const deep = Array.from({ length: 32 }, () => 'a'.repeat(31)).join('/');
    const largest = Buffer.alloc(max, 7);
    for (let i = 0; i < 40; i += 1) await put(pair.a, deep, 'small', { headers: { 'idempotency-key': `k-${i}` } });
    expect((await put(pair.a, deep, largest, { headers: { 'idempotency-key': 'x'.repeat(64) } })).status).toBe(200);
    expect((await remove(pair.a, deep)).status).toBe(204);
    expect((await put(pair.b, `${deep.slice(0, -1)}b`, largest, { type: `text/${'x'.repeat(195)}` })).status).toBe(201);
    expect(await put(pair.a, 'large', Buffer.alloc(max + 1))).toMatchObject({
      status: 413,
      body: { code: 'too-large', maxBytes: max, outcome: 'not-applied' },
    });
    expect((await get(pair.b, 'large')).status).toBe(404);
  });
});

describe('the list of keys', () => {
  it('shows those of a prefix, page by page, in the order of the tree, at both replicas', async () => {
    await using pair = await startPair();
    const keys = ['a', 'a/b', 'a/b/c', 'a/d', 'a-b', 'a.b/c', 'b/x/y', 'ab'];
    for (const key of [...keys].reverse()) await put(pair.a, key, key);
    const order = ['a', 'a/b', 'a/b/c', 'a/d', 'a-b', 'a.b/c', 'ab', 'b/x/y'];
    for (const limit of [1, 2, 3, 8, 100]) expect(await keysOf(pair.b, '', limit), String(limit)).toEqual(order);
    for (const [prefix, expected] of [
      ['a', order.slice(0, 7)],
      ['a/', ['a/b', 'a/b/c', 'a/d']],
      ['a/b', ['a/b', 'a/b/c']],
      ['a%2Fb%2F', ['a/b/c']],
      ['b/x', ['b/x/y']],
      ['b/x/y/', []],
      ['c/', []],
      ['.', []],
    ] as const)
      expect(await keysOf(pair.a, prefix, 2), prefix).toEqual(expected);
  });

  it('tells what there is of each key, but not its value', async () => {
    await using pair = await startPair();
    const etag = await etagOfPut(pair.a, 'told', 'value', { type: 'text/x-secret' });
    const { items } = (await pair.b.expect(200, 'GET', '/v1/config')) as { items: unknown[] };
    expect(items).toEqual([
      {
        key: 'told',
        etag: etag.slice(1, -1),
        contentType: 'text/x-secret',
        bytes: 5,
        modifiedAt: expect.any(String) as string,
      },
    ]);
    expect(await pair.b.expect(200, 'GET', '/v1/config?consistency=stale')).toEqual({ items });
  });
});

describe('a condition', () => {
  it('If-Match writes and deletes only the value that it names', async () => {
    await using pair = await startPair();
    const first = await etagOfPut(pair.a, 'matched', '1');
    const second = await etagOfPut(pair.b, 'matched', '2', { headers: { 'if-match': first } });
    for (const tags of [first, '"x"', `W/${first}, "y"`]) {
      const refused = await put(pair.a, 'matched', '3', { headers: { 'if-match': tags } });
      expect(refused).toMatchObject({
        status: 412,
        body: { code: 'version-mismatch', key: 'matched', etag: second.slice(1, -1), outcome: 'not-applied' },
      });
      expect((await remove(pair.b, 'matched', { 'if-match': tags })).status).toBe(412);
    }
    expect((await get(pair.a, 'matched')).body).toBe('2');
    // A proxy that compresses marks it as weak.
    const third = await etagOfPut(pair.a, 'matched', '3', { headers: { 'if-match': `"x", W/${second}` } });
    expect((await remove(pair.b, 'matched', { 'if-match': third })).status).toBe(204);
    for (const tags of ['*', third]) {
      expect(await put(pair.a, 'matched', '4', { headers: { 'if-match': tags } })).toMatchObject({
        status: 412,
        body: { etag: null },
      });
      expect((await remove(pair.a, 'matched', { 'if-match': tags })).status).toBe(412);
    }
  });

  it('If-None-Match: * makes a key once, whoever tries at the same time', async () => {
    await using pair = await startPair();
    const tries = await Promise.all(
      Array.from({ length: 20 }, (_, i) =>
        put([pair.a, pair.b][i % 2]!, 'once/made', String(i), { headers: { 'if-none-match': '*' } }),
      ),
    );
    const statuses = tries.map(({ status }) => status);
    expect(statuses.filter((status) => status === 201)).toHaveLength(1);
    expect(statuses.filter((status) => status === 412)).toHaveLength(19);
    expect((await get(pair.a, 'once/made')).body).toBe(String(statuses.indexOf(201)));
  });

  it('lets no update be lost among many that read, change and write', async () => {
    await using pair = await startPair();
    await put(pair.a, 'sum', '0');
    const add = async (i: number): Promise<void> => {
      const replica = [pair.a, pair.b][i % 2]!;
      for (;;) {
        const { body, headers } = await get(replica, 'sum');
        const etag = String(headers['etag']);
        const reply = await put(replica, 'sum', String(Number(body) + 1), { headers: { 'if-match': etag } });
        if (reply.status === 200) return;
        expect(reply.status).toBe(412);
      }
    };
    await Promise.all(Array.from({ length: 12 }, (_, i) => add(i)));
    expect((await get(pair.b, 'sum')).body).toBe('12');
  });

  it('is not met by a key that was deleted and made anew, whose ETags are never used again (C31)', async () => {
    await using pair = await startPair();
    const seen = new Set<string>();
    const first = await etagOfPut(pair.a, 'again', 'same');
    for (let round = 0; round < 5; round += 1) {
      const etag = round === 0 ? first : await etagOfPut(pair.b, 'again', 'same');
      expect(seen.has(etag)).toBe(false);
      seen.add(etag);
      await remove(pair.a, 'again');
    }
    await put(pair.a, 'again', 'same');
    expect((await put(pair.b, 'again', 'stale', { headers: { 'if-match': first } })).status).toBe(412);
    // A long poll with the old ETag answers at once.
    expect(await get(pair.a, 'again', '?waitMs=20000', { 'if-none-match': first })).toMatchObject({
      status: 200,
      body: 'same',
    });
  });
});

describe('a tree of keys', () => {
  it('has no key where only keys below it were put, and keeps those when one above is deleted (C33)', async () => {
    await using pair = await startPair();
    const below = await etagOfPut(pair.a, 'a/b', 'below');
    expect((await get(pair.b, 'a')).status).toBe(404);
    expect((await remove(pair.b, 'a')).status).toBe(404);
    expect((await put(pair.b, 'a', 'x', { headers: { 'if-match': '*' } })).status).toBe(412);
    expect((await put(pair.b, 'a', 'above', { headers: { 'if-none-match': '*' } })).status).toBe(201);
    expect((await remove(pair.a, 'a')).status).toBe(204);
    expect((await get(pair.b, 'a')).status).toBe(404);
    expect(await get(pair.b, 'a/b')).toMatchObject({ body: 'below', headers: { etag: below } });
    expect(await keysOf(pair.b)).toEqual(['a/b']);
    expect((await put(pair.b, 'a', 'above', { headers: { 'if-none-match': '*' } })).status).toBe(201);
    expect(await keysOf(pair.a)).toEqual(['a', 'a/b']);
  });
});
