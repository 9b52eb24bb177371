/** What configuration requests refuse, before anything is done. */
import { expect, test } from 'vitest';
import { startPair } from '../../../support/start-gateway.js';
import { get, keysOf, put, remove, write } from '../client.js';

test('a key, a prefix or a page that is none is refused by its name', async () => {
  await using pair = await startPair();
  const long = 'a'.repeat(201);
  for (const key of [
    'a%2F..',
    '/a',
    'a%2F',
    'a%2F.%2Fb',
    'a%2F..',
    'a%20b',
    'a/%C3%A4',
    long,
    `a/${long}`,
    Array.from({ length: 33 }, () => 'a').join('/'),
    Array.from({ length: 6 }, () => 'a'.repeat(190)).join('/'),
  ])
    for (const reply of [await put(pair.a, key, 'x'), await get(pair.a, key), await remove(pair.a, key)]) {
      expect(reply.status, key).toBe(422);
      expect(reply.body, key).toMatchObject({ code: 'invalid', field: 'key', outcome: 'not-applied' });
    }
  for (const [query, field] of [
    ['prefix=a//', 'prefix'],
    ['prefix=/', 'prefix'],
    ['prefix=../', 'prefix'],
    [`prefix=${long}`, 'prefix'],
    ['limit=0', 'limit'],
    ['limit=1001', 'limit'],
    ['pageToken=%2F', 'pageToken'],
    ['consistency=none', 'consistency'],
    ['unknown=1', 'unknown'],
  ] as const)
    expect((await pair.a.call('GET', `/v1/config?${query}`)).body, query).toMatchObject({ code: 'invalid', field });
  expect((await pair.a.call('DELETE', '/v1/config')).status).toBe(405);
  expect(await keysOf(pair.b)).toEqual([]);
});

test('a header of a write with something wrong in it is refused by its name', async () => {
  await using pair = await startPair();
  for (const [header, value] of [
    ['If-Match', ''],
    ['If-None-Match', ''],
    ['Guard', ''],
    ['If-Match', 'abc'],
    ['If-Match', '"a" "b"'],
    ['If-Match', '*, "a"'],
    ['If-None-Match', '"1-1"'],
    ['Idempotency-Key', 'not a name'],
    ['Idempotency-Key', 'x'.repeat(65)],
    ['Guard', 'lock=a'],
    ['Guard', 'lock=a;token='],
    ['Guard', 'lock=a;token=1;more'],
    ['Guard', 'lock=a;token=1, lock=b;token=2'],
    ['Guard', 'lock=..;token=1'],
    ['Guard', 'lock=a b;token=1'],
    ['Guard', 'queue=a;token=1'],
    ['Guard', 'lock=a;token=-1'],
    ['Guard', 'lock=a;token=9007199254740992'],
    ['Namespace', 'a/b'],
  ] as const) {
    const reply = await put(pair.a, 'kept', 'x', { headers: { [header]: value } });
    expect(reply.status, `${header}: ${value}`).toBe(422);
    expect(reply.body, `${header}: ${value}`).toMatchObject({ code: 'invalid', field: header });
  }
  for (const headers of [{ 'content-encoding': 'gzip' }, { 'content-type': 'none' }])
    expect((await put(pair.a, 'kept', 'x', { headers })).body).toMatchObject({ code: 'unsupported-media-type' });
  expect((await put(pair.a, 'kept', Buffer.alloc(1024 * 1024 + 1))).body).toMatchObject({ maxBytes: 1024 * 1024 });
  for (const query of ['?waitMs=-1', '?waitMs=55001', '?waitMs=x'])
    expect((await get(pair.a, 'kept', query)).body, query).toMatchObject({ field: 'waitMs' });
  expect(await keysOf(pair.b)).toEqual([]);
});

test('several writes with something wrong in one of them are refused, and the field named', async () => {
  await using pair = await startPair();
  const good = { put: 'kept', value: 1 };
  for (const [operations, field] of [
    [undefined, 'operations'],
    [[], 'operations'],
    ['put', 'operations'],
    [Array.from({ length: 101 }, (_, i) => ({ put: `k${i}`, value: 1 })), 'operations'],
    [[good, {}], 'operations[1]'],
    [[good, { put: 'a', delete: 'b', value: 1 }], 'operations[1]'],
    [[good, { put: 'kept', value: 2 }], 'operations[1]'],
    [[good, { check: 'kept' }], 'operations[1]'],
    [[good, { put: 'a' }], 'operations[1]'],
    [[good, { put: 'a', value: 1, valueBase64: '' }], 'operations[1]'],
    [[good, { put: 'a//b', value: 1 }], 'operations[1].put'],
    [[good, { put: 'a', valueBase64: '*' }], 'operations[1].valueBase64'],
    [[good, { put: 'a', valueBase64: 1 }], 'operations[1].valueBase64'],
    [[good, { put: 'a', value: 1, contentType: 'no type' }], 'operations[1].contentType'],
    [[good, { put: 'a', value: 1, ifMatch: 'x' }], 'operations[1].ifMatch'],
    [[good, { put: 'a', value: 1, ifMatch: '*', ifAbsent: true }], 'operations[1].ifAbsent'],
    [[good, { put: 'a', value: 1, ifAbsent: 'yes' }], 'operations[1].ifAbsent'],
    [[good, { delete: 'a', ifAbsent: true }], 'operations[1].ifAbsent'],
    [[good, { delete: 'a', value: 1 }], 'operations[1].value'],
    [[good, { check: 'a', contentType: 'a/b' }], 'operations[1].contentType'],
    [[good, { check: 'a', more: 1 }], 'operations[1].more'],
  ] as const) {
    const reply = await write(pair.a, operations);
    expect(reply.status, JSON.stringify(operations)).toBe(422);
    expect(reply.body, JSON.stringify(operations)).toMatchObject({ code: 'invalid', field, outcome: 'not-applied' });
  }
  expect((await pair.a.call('POST', '/v1/config', { body: { operations: [good], more: 1 } })).status).toBe(422);
  expect(await keysOf(pair.b)).toEqual([]);
});
