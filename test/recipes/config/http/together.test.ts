/** Values of several keys in one answer: read by name, or listed. */
import { expect, test } from 'vitest';
import type { Client, Reply } from '../../../support/http/client.js';
import { makeApiKeys } from '../../../support/http/api-keys.js';
import { startPair } from '../../../support/start-gateway.js';
import { etagOfPut, get, put, readTogether, remove, write } from '../client.js';

const MIB = 1024 * 1024;
const VALUE_BYTES_MAX = 960 * 1024;
const JSON_TYPE = { type: 'application/json' };

interface Item {
  key: string;
  exists?: boolean;
  etag?: string;
  value?: unknown;
  valueBase64?: string;
}

function itemsOf({ status, body }: Reply): Item[] {
  expect(status, JSON.stringify(body).slice(0, 300)).toBe(200);
  return (body as { items: Item[] }).items;
}

function list(client: Client, query: string, headers: Record<string, string> = {}): Promise<Reply> {
  return client.call('GET', `/v1/config?values=true&${query}`, { headers });
}

/** The items of all pages, page by page. */
async function pagesOf(client: Client, query: string): Promise<Item[][]> {
  const pages: Item[][] = [];
  for (let token = ''; ;) {
    const reply = await list(client, `${query}${token}`);
    pages.push(itemsOf(reply));
    const { nextPageToken } = reply.body as { nextPageToken?: string };
    if (nextPageToken === undefined) return pages;
    token = `&pageToken=${nextPageToken}`;
  }
}

test('named keys are read in the order in which they are named, with what a conditional write needs', async () => {
  await using pair = await startPair();
  const json = await etagOfPut(pair.a, 'app/json', '{ "host": "db1" }', JSON_TYPE);
  await put(pair.a, 'app/text', 'text');
  await put(pair.a, 'app/gone', 'x');
  await remove(pair.a, 'app/gone');
  const keys = ['app/text', 'app/none', 'app/gone', 'app', 'app/json'];
  const items = itemsOf(await readTogether(pair.b, keys));
  const modifiedAt = expect.any(String) as string;
  const etag = expect.stringMatching(/^\d+-0$/) as string;
  const text = { key: 'app/text', exists: true, contentType: 'text/plain', bytes: 4, etag, modifiedAt };
  expect(items).toEqual([
    { ...text, valueBase64: Buffer.from('text').toString('base64') },
    { key: 'app/none', exists: false },
    { key: 'app/gone', exists: false },
    { key: 'app', exists: false },
    {
      key: 'app/json',
      exists: true,
      contentType: 'application/json',
      bytes: 17,
      etag: json.slice(1, -1),
      modifiedAt,
      value: { host: 'db1' },
    },
  ]);
  const operations = [
    { put: 'app/json', value: 2, ifMatch: items[4]?.etag },
    { put: 'app/none', value: 2, ifAbsent: true },
  ];
  expect((await write(pair.a, operations)).status).toBe(200);
  expect((await write(pair.a, operations)).status).toBe(412);
  expect(itemsOf(await readTogether(pair.b, ['app/json', 'app/none'])).map(({ value }) => value)).toEqual([2, 2]);
});

test('JSON that would not come back the same is given as its bytes', async () => {
  await using pair = await startPair();
  const deep = '['.repeat(100_000) + ']'.repeat(100_000);
  const cases: [text: string | Buffer, type: string, isJson: boolean][] = [
    ['{"a":[1,null,"ä"]}', 'application/json', true],
    ['null', 'application/json; charset=utf-8', true],
    ['12345678901234567890', 'application/json', false],
    ['{"a":1,"a":2}', 'application/json', false],
    ['{"__proto__":1}', 'application/json', false],
    ['1e999', 'application/json', false],
    ['[1e17]', 'application/json', true],
    ['[1e2, 1.5e300]', 'application/json', true],
    ['no JSON', 'application/json', false],
    ['', 'application/json', false],
    [deep, 'application/json', false],
    [`[${'1,'.repeat(30_000)}1]`, 'application/json', false],
    [Buffer.from([0x22, 0xff, 0x22]), 'application/json', false],
    ['{"a":1}', 'application/jsonlines', false],
    ['{"a":1}', 'text/plain', false],
  ];
  for (const [i, [text, type]] of cases.entries())
    expect((await put(pair.a, `j/${i}`, text, { type })).status).toBe(201);
  const items = itemsOf(
    await readTogether(
      pair.b,
      cases.map((_, i) => `j/${i}`),
    ),
  );
  for (const [i, [text, , isJson]] of cases.entries()) {
    const { value, valueBase64, ...others } = items[i] as Item;
    const shown = JSON.stringify([i, others]);
    expect(valueBase64, shown).toBe(isJson ? undefined : Buffer.from(text).toString('base64'));
    if (isJson) expect(value, shown).toEqual(JSON.parse(String(text)));
    else expect(value, shown).toBeUndefined();
  }
});

test('an answer has an ETag of its own: as long as none of its keys has changed it is not sent again', async () => {
  await using pair = await startPair();
  await put(pair.a, 'a', '1');
  const first = await readTogether(pair.a, ['a', 'b']);
  const etag = String(first.headers['etag']);
  const again = (headers = { 'if-none-match': etag }, keys = ['a', 'b']): Promise<Reply> =>
    readTogether(pair.b, keys, headers);
  expect(await again()).toMatchObject({ status: 304, headers: { etag } });
  expect((await again({ 'if-none-match': `"other", W/${etag}` })).status).toBe(304);
  expect((await again(undefined, ['b', 'a'])).status).toBe(200);
  const page = await list(pair.a, 'prefix=');
  const pageEtag = String(page.headers['etag']);
  const listed = (): Promise<Reply> => list(pair.b, 'prefix=', { 'if-none-match': pageEtag });
  expect(await listed()).toMatchObject({ status: 304, headers: { etag: pageEtag } });
  await put(pair.a, 'b', '1');
  expect((await again()).status).toBe(200);
  expect((await listed()).status).toBe(200);
  await remove(pair.a, 'b');
  // It is as it was: there is no such key, and the other has not changed.
  expect((await again()).status).toBe(304);
  await put(pair.a, 'a', '1');
  expect((await again()).status).toBe(200);
  // Without values a list has none, and does not care.
  const plain = await pair.a.call('GET', '/v1/config', { headers: { 'if-none-match': '*' } });
  expect(plain).toMatchObject({ status: 200 });
  expect(plain.headers['etag']).toBeUndefined();
});

test('what is asked for must be 1 to 64 different keys', async () => {
  await using pair = await startPair();
  const many = Array.from({ length: 65 }, (_, i) => `many/${i}`);
  for (const [body, field] of [
    [{ keys: many }, 'keys'],
    [{ keys: [] }, 'keys'],
    [{}, 'keys'],
    [{ keys: ['a', 'b', 'a'] }, 'keys'],
    [{ keys: ['a', 'b//c'] }, 'keys[1]'],
    [{ keys: ['a', 'x'.repeat(1_025)] }, 'keys[1]'],
    [{ keys: ['a'], waitMs: 5 }, 'waitMs'],
  ] as const) {
    const reply = await pair.a.call('POST', '/v1/config/read', { body });
    expect(reply, JSON.stringify(body).slice(0, 60)).toMatchObject({ status: 422, body: { code: 'invalid', field } });
  }
  // As long and as deep as keys may be, and as many.
  const long = `${'a'.repeat(200)}/${'b'.repeat(200)}/${'c'.repeat(200)}/${'d'.repeat(200)}/${'e'.repeat(200)}/`;
  const longest = Array.from({ length: 64 }, (_, i) => `${long}${String(i).padStart(1_024 - long.length, '0')}`);
  const deepest = Array.from({ length: 32 }, () => 'd').join('/');
  await write(pair.a, [
    { put: longest[63], value: 'long' },
    { put: deepest, value: 'deep' },
  ]);
  expect(itemsOf(await readTogether(pair.b, longest)).filter(({ exists }) => exists)).toMatchObject([
    { value: 'long' },
  ]);
  expect(itemsOf(await readTogether(pair.b, [deepest]))).toMatchObject([{ key: deepest, value: 'deep' }]);
});

test('keys called "read", and keys below it, stay keys', async () => {
  await using pair = await startPair();
  for (const key of ['read', 'read/below']) {
    await put(pair.a, key, key);
    expect((await get(pair.b, key)).body, key).toBe(key);
    expect((await remove(pair.b, key)).status, key).toBe(204);
  }
  expect((await pair.a.call('POST', '/v1/config/other', { body: {} })).status).toBe(405);
});

test('more bytes than one answer may have are refused by name, and a list is continued on the next page', async () => {
  await using pair = await startPair();
  const sizes = [VALUE_BYTES_MAX, MIB - VALUE_BYTES_MAX, 1, 0, VALUE_BYTES_MAX];
  const keys = sizes.map((_, i) => `large/${i}`);
  for (const [i, size] of sizes.entries()) await put(pair.a, keys[i] as string, Buffer.alloc(size, i));
  const read = (...named: number[]): Promise<Reply> =>
    readTogether(
      pair.b,
      named.map((i) => keys[i] as string),
    );
  expect(itemsOf(await read(0, 1, 3)).map(({ valueBase64 = '' }) => Buffer.from(valueBase64, 'base64').length)).toEqual(
    [VALUE_BYTES_MAX, MIB - VALUE_BYTES_MAX, 0],
  );
  for (const named of [
    [0, 1, 2],
    [0, 4],
  ])
    expect(await read(...named)).toMatchObject({ status: 413, body: { code: 'too-large', maxBytes: MIB } });
  expect((await pagesOf(pair.b, 'prefix=large/')).map((page) => page.map(({ key }) => key))).toEqual([
    ['large/0', 'large/1'],
    ['large/2', 'large/3', 'large/4'],
  ]);
});

test('a page has at most 64 keys, and all pages together have them all, in order', async () => {
  await using pair = await startPair();
  const keys = Array.from({ length: 70 }, (_, i) => `many/${String(i).padStart(2, '0')}`);
  await write(pair.a, keys.map((key, i) => ({ put: key, value: i }))); // prettier-ignore
  const pages = await pagesOf(pair.b, 'prefix=many/&limit=1000');
  expect(pages.map(({ length }) => length)).toEqual([64, 6]);
  expect(pages.flat().map(({ key, value }) => [key, value])).toEqual(keys.map((key, i) => [key, i]));
  expect((await pagesOf(pair.b, 'prefix=many/&limit=40')).map(({ length }) => length)).toEqual([40, 30]);
  expect(await pagesOf(pair.b, 'prefix=none/')).toEqual([[]]);
  const plain = await pair.b.call('GET', '/v1/config?prefix=many/&values=false');
  expect(itemsOf(plain).every((item) => !('value' in item) && !('valueBase64' in item))).toBe(true);
  expect((await list(pair.b, 'values=maybe')).status).toBe(422);
});

test('nothing is read for a caller that may not read one of the keys; a list leaves those out', async () => {
  await using keys = await makeApiKeys({
    all: '*',
    some: { default: { config: [{ scopes: ['read'], names: ['open/*'] }] } },
    writer: { default: { config: ['use'] } },
  });
  await using pair = await startPair({ settings: { POSTERN_AUTH_FILE: keys.file } });
  await using all = keys.as('all', pair.a.url);
  await using some = keys.as('some', pair.b.url);
  await using writer = keys.as('writer', pair.b.url);
  await write(all, [
    { put: 'open/a', value: 1 },
    { put: 'closed/b', value: 2 },
  ]);
  expect(itemsOf(await readTogether(some, ['open/a']))).toMatchObject([{ value: 1 }]);
  const refused = await readTogether(some, ['open/a', 'closed/b', 'closed/c']);
  expect(refused).toMatchObject({ status: 403, body: { code: 'forbidden' } });
  expect(refused.body.detail).toContain('"closed/b"');
  expect((await readTogether(some, ['open/a', 'closed/none'])).status).toBe(403);
  expect((await readTogether(writer, ['open/a'])).status).toBe(403);
  expect((await readTogether(some, ['open/a'], { namespace: 'other' })).status).toBe(403);
  expect((await pagesOf(some, 'prefix=')).flat().map(({ key }) => key)).toEqual(['open/a']);
});

test('keys of a namespace, also that of the lease, are read there', async () => {
  await using pair = await startPair();
  await put(pair.a, 'k', 'there', { headers: { namespace: 'one' } });
  const isThere = async (headers: Record<string, string>): Promise<boolean | undefined> =>
    itemsOf(await readTogether(pair.b, ['k'], headers))[0]?.exists;
  expect(await isThere({})).toBe(false);
  expect(await isThere({ namespace: 'one' })).toBe(true);
  const lease = await pair.a.expect(201, 'POST', '/v1/leases', { body: {}, headers: { namespace: 'one' } });
  expect(await isThere({ 'lease-token': (lease as { leaseToken: string }).leaseToken })).toBe(true);
  const stale = await pair.b.call('POST', '/v1/config/read?consistency=stale', { body: { keys: ['k'] } });
  expect(itemsOf(stale)).toEqual([{ key: 'k', exists: false }]);
});
