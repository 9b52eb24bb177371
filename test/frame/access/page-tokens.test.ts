/** The tokens of pages tell nothing of what their reader may not read, however much of that has to be passed over. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { makeApiKeys, type ApiKeys, type KeyedClient } from '../../support/http/api-keys.js';
import { startPair, type Pair } from '../../support/start-gateway.js';
import { scaled } from '../../support/timing.js';
import { begin } from '../../recipes/transaction/client.js';

interface Listed {
  items: { key?: string; transactionId?: string }[];
  nextPageToken?: string;
}

const LONG_MS = scaled(60_000);

let keys: ApiKeys;
let pair: Pair;
/** May read what is called `mine`, or begins with `mine.` or `mine/`; through one replica and the other. */
let reader: [KeyedClient, KeyedClient];
let root: KeyedClient;

beforeAll(async () => {
  const names = ['mine', 'mine.*', 'mine/*'];
  keys = await makeApiKeys({
    reader: { default: { '*': { scopes: ['read'], names } }, other: { '*': { scopes: ['read'], names } } },
    root: '*',
  });
  pair = await startPair({ settings: { POSTERN_AUTH_FILE: keys.file } });
  reader = [keys.as('reader', pair.a.url), keys.as('reader', pair.b.url)];
  root = keys.as('root', pair.a.url);
});

afterAll(async () => {
  for (const client of [...reader, root]) await client[Symbol.asyncDispose]();
  await pair[Symbol.asyncDispose]();
  await keys[Symbol.asyncDispose]();
});

/** All pages, each asked of the other replica. */
async function pagesOf(path: string, namespace = 'default'): Promise<Listed[]> {
  const pages: Listed[] = [];
  for (let token = ''; ;) {
    const page = (await reader[pages.length % 2 === 0 ? 0 : 1].expect(200, 'GET', `${path}${token}`, {
      headers: { namespace },
    })) as Listed;
    pages.push(page);
    if (page.nextPageToken === undefined) return pages;
    token = `&pageToken=${page.nextPageToken}`;
  }
}

async function putAll(names: readonly string[], namespace: string): Promise<void> {
  for (let i = 0; i < names.length; i += 100) {
    const operations = names.slice(i, i + 100).map((name) => ({ put: name, value: 1 }));
    await root.expect(200, 'POST', '/v1/config', { body: { operations }, headers: { namespace } });
  }
}

test('a page that is full ends at the last key that it shows, not at one behind it that its reader may not read', async () => {
  await putAll(['mine.1', 'mine.2', 'minea-payroll', 'mine/below', 'minf', 'mine.3'], 'default');
  const pages = await pagesOf('/v1/config?limit=1');
  expect(pages.flatMap(({ items }) => items.map(({ key }) => key))).toEqual(
    ['mine/below', 'mine.1', 'mine.2', 'mine.3'].sort((a, b) =>
      (a.split('/')[0] as string) < (b.split('/')[0] as string) ? -1 : 1,
    ),
  );
  for (const { items, nextPageToken } of pages)
    if (nextPageToken !== undefined) expect(Buffer.from(nextPageToken, 'base64url').toString()).toBe(items.at(-1)?.key);
});

test(
  'a page that ends among keys that its reader may not read has a token that tells nothing, and goes on at any replica',
  async () => {
    const hidden = (count: number, name: (i: number) => string): string[] =>
      Array.from({ length: count }, (_, i) => name(i));
    await putAll(
      [
        ...hidden(1_000, (i) => `hidden-${String(i).padStart(4, '0')}`),
        ...hidden(1_100, (i) => `long/${'x'.repeat(150)}-${String(i).padStart(4, '0')}`),
        'mine/last',
      ],
      'other',
    );
    const pages = await pagesOf('/v1/config?limit=1000', 'other');
    expect(pages.flatMap(({ items }) => items.map(({ key }) => key))).toEqual(['mine/last']);
    const tokens = pages.flatMap(({ nextPageToken }) => nextPageToken ?? []);
    expect(tokens).toHaveLength(2);
    // One stands for a name of eleven characters, the other for one of 160.
    expect(new Set(tokens.map(({ length }) => length)).size).toBe(1);
    for (const token of tokens)
      expect(Buffer.from(token.replace(/^pt1\./, ''), 'base64url').toString('latin1')).not.toMatch(/hidden|xxx/);
    for (const [path, namespace] of [
      ['/v1/config', 'default'],
      ['/v1/transactions', 'other'],
    ] as const)
      expect(
        await reader[1].call('GET', `${path}?pageToken=${tokens[0]}`, { headers: { namespace } }),
        path,
      ).toMatchObject({ status: 422, body: { field: 'pageToken' } });
  },
  LONG_MS,
);

test(
  'so does a page of transactions that ends among those of others',
  async () => {
    // 24 KB each: a page looks at 4 MiB of them.
    const theirs = Array.from({ length: 100 }, (_, i) => `theirs-${i}-`.padEnd(190, 'x'));
    for (let i = 0; i < 260; i += 20)
      await Promise.all(
        Array.from({ length: 20 }, () => begin(root, theirs, { data: 'd'.repeat(3_900), deadlineMs: 600_000 })),
      );
    const own = await Promise.all(Array.from({ length: 3 }, () => begin(root, ['mine'], { deadlineMs: 600_000 })));
    const pages = await pagesOf('/v1/transactions?limit=1000');
    expect(pages.flatMap(({ items }) => items.map(({ transactionId }) => transactionId)).sort()).toEqual(own.sort());
    const tokens = pages.flatMap(({ nextPageToken }) => nextPageToken ?? []);
    expect(tokens.length).toBeGreaterThan(0);
    for (const token of tokens) expect(token).toMatch(/^pt1\./);
  },
  LONG_MS,
);
