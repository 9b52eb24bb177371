/** The contract as pages: everything is there, every link leads somewhere, and no text is anything but text. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ERROR_CODES } from '../../../src/errors.js';
import { openApi, type OpenApi } from '../../../src/http/contract/openapi.js';
import { docsSite } from '../../../src/http/pages/docs/site.js';
import { slugOf } from '../../../src/http/pages/docs/places.js';
import { curlLine } from '../../../src/http/pages/docs/curl.js';
import { send } from '../client.js';
import { startFrame, type Frame } from '../harness.js';

const PAGE_BYTES_MAX = 180_000;
const NO_CLOSING_TAG = ['meta', 'link', 'br', 'input'];
const api = openApi();
const TAGS = api.document.tags.map(({ name }) => slugOf(name));
const PATHS = ['/docs', ...['introduction', ...TAGS, 'objects', 'problems'].map((name) => `/docs/${name}`)];

let frame: Frame;
const texts = new Map<string, string>();
beforeAll(async () => {
  frame = await startFrame();
  for (const path of PATHS) texts.set(path, (await send(frame.url, 'get', path)).text);
});
afterAll(() => frame[Symbol.asyncDispose]());

const textOf = (path: string): string => texts.get(path) ?? '';
const idsOf = (path: string): string[] => [...textOf(path).matchAll(/ id="([^"]+)"/g)].map(([, id]) => id ?? '');

describe.each(PATHS)('%s', (path) => {
  it('has links that all lead somewhere, and ids that are its own', async () => {
    const ids = idsOf(path);
    expect(ids.filter((id, at) => ids.indexOf(id) !== at)).toEqual([]);
    const targets = new Set([...textOf(path).matchAll(/(?:href|src)="([^"]*)"/g)].map(([, target = '']) => target));
    expect(targets.size).toBeGreaterThan(api.operations.length);
    for (const target of targets) {
      const [page = '', anchor] = target.split('#');
      const at = page === '' ? path : page;
      if (!texts.has(at)) {
        const { status, text } = await send(frame.url, 'get', at);
        expect([at, status]).toEqual([at, 200]);
        texts.set(at, text);
      }
      if (anchor !== undefined) expect([target, idsOf(at).includes(anchor)]).toEqual([target, true]);
    }
  });

  it('is small, well-formed, and has nothing inline or from elsewhere', () => {
    const text = textOf(path);
    expect(Buffer.byteLength(text)).toBeLessThan(PAGE_BYTES_MAX);
    expect(text).not.toMatch(/<style|<img|<iframe|<script>|style="| on\w+="|@import|url\(/);
    expect([...text.matchAll(/(?:href|src)="(?![/#])[^"]*"/g)]).toEqual([]);
    const open: string[] = [];
    for (const [, slash, name = ''] of text.matchAll(/<(\/?)([a-z0-9]+)[^>]*>/g)) {
      if (NO_CLOSING_TAG.includes(name)) continue;
      if (slash === '') open.push(name);
      else expect(open.pop()).toBe(name);
    }
    expect(open).toEqual([]);
  });

  it('shows the text of the contract as text', () => {
    expect(textOf(path)).not.toMatch(/undefined|\[object|\*\*|```/);
  });

  it('is found with a slash behind it, too', async () => {
    const response = await send(frame.url, 'get', path);
    const moved = await fetch(`${frame.url}${path}/`, { redirect: 'manual' });
    expect([moved.status, moved.headers.get('location')]).toEqual([308, path]);
    expect(response.headers['content-type']).toBe('text/html; charset=utf-8');
  });
});

describe('all pages together', () => {
  it('show every operation on the page of its tag, and every object once', () => {
    for (const { operationId, template, source } of api.operations) {
      const text = textOf(`/docs/${slugOf(source.tags[0] ?? '')}`);
      expect(text).toContain(`<article class="operation" id="${operationId}">`);
      expect(text).toContain(template);
    }
    const places = PATHS.filter((path) => path !== '/docs').flatMap(idsOf);
    const objects = places.filter((id) => id.startsWith('schema-'));
    expect(new Set(objects).size).toBe(objects.length);
    expect(objects).toContain('schema-Problem');
  });

  it('list every operation, so that it can be found from each of them', () => {
    for (const path of PATHS)
      for (const { operationId, source } of api.operations)
        expect(textOf(path)).toContain(`href="/docs/${slugOf(source.tags[0] ?? '')}#${operationId}"`);
  });

  it('are still found by what a link to a part of the one page said', () => {
    const ids = idsOf('/docs');
    for (const { operationId } of api.operations) expect(ids).toContain(operationId);
    for (const id of ['objects', 'schema-Problem', 'schema-Lease']) expect(ids).toContain(id);
  });

  it('name every problem', () => {
    for (const code of Object.keys(ERROR_CODES)) expect(textOf('/docs/problems')).toContain(`href="/problems/${code}"`);
  });
});

describe('a request to try', () => {
  it('asks first if it takes something away, needs an administrator or is not to be repeated, and only then', () => {
    const asking = PATHS.flatMap((path) => [
      ...textOf(path).matchAll(/data-method="(\w+)" data-path="([^"]*)"[^>]* data-asks/g),
    ]).map(([, method, path]) => `${method} ${path}`);
    expect(asking).toEqual(
      expect.arrayContaining([
        'DELETE /v1/leases/self',
        'POST /v1/queues/orders/purge',
        'POST /v1/queues/orders/pop',
        'POST /v1/locks/backup/revoke',
      ]),
    );
    for (const plain of ['POST /v1/leases', 'POST /v1/locks/backup/acquire', 'GET /v1/locks'])
      expect(asking).not.toContain(plain);
    const deletes = api.operations.filter(({ method }) => method === 'DELETE').length;
    expect(asking.filter((line) => line.startsWith('DELETE'))).toHaveLength(deletes);
  });

  it('is a line that a shell reads as it was meant', () => {
    const line = { origin: 'http://127.0.0.1:7070', method: 'PUT', isRaw: true, isStream: false };
    expect(curlLine({ ...line, path: '/v1/x?a=b&c=*', headers: ['Lease-Token: $TOKEN'], body: "it's" })).toBe(
      `curl -X PUT 'http://127.0.0.1:7070/v1/x?a=b&c=*' -H "Lease-Token: $TOKEN" --data-binary 'it'\\''s'`,
    );
  });
});

it.each(['nothing', 'Locks', 'constructor', '__proto__', '%2e%2e'])(
  '/docs/%s is not found, and told which pages there are',
  async (name) => {
    const response = await send(frame.url, 'get', `/docs/${name}`);
    expect(response.status).toBe(404);
    expect(response.body).toMatchObject({
      code: 'not-found',
      pages: ['introduction', ...TAGS, 'objects', 'problems'],
      detail: expect.stringContaining('read-write-locks') as string,
    });
  },
);

it.each(['/nowhere/', '/docs//', '//evil.example/', '/v1/locks/'])(
  '%s is no page with a slash behind it',
  async (path) => {
    expect((await fetch(frame.url + path, { redirect: 'manual' })).status).toBe(404);
  },
);

it('shows markup in the contract as text', () => {
  const evil = `<img src=x onerror="alert(1)">'&`;
  const document = JSON.parse(JSON.stringify(api.document)) as OpenApi['document'];
  const [tag] = document.tags;
  if (tag === undefined) throw new Error('the contract has no tag');
  tag.description = document.info.description = document.info.title = evil;
  const operations = api.operations.map((one) => ({
    ...one,
    body: 'json' as const,
    template: `/v1/${evil}`,
    source: {
      ...one.source,
      summary: evil,
      description: `| ${evil} |\n|---|\n| ${evil} |`,
      requestBody: { description: evil, content: { 'application/json': { example: { [evil]: evil } } } },
    },
    parameters: [{ name: evil, in: 'query' as const, required: true, description: evil, schema: { 'x-rule': evil } }],
    responses: { '200': { description: evil, headers: { [evil]: { description: evil, schema: {} } } } },
  }));
  for (const [name, make] of docsSite({ ...api, document, operations })) {
    const { body } = make();
    expect([name, body.includes('<img')]).toEqual([name, false]);
    expect(body).toContain('&lt;img src=x onerror=&quot;alert(1)&quot;&gt;');
  }
});
