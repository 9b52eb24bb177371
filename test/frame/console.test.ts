/** How the console, and what else is the same for everybody, is served. */
import { brotliDecompressSync, gunzipSync } from 'node:zlib';
import { request } from 'undici';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { securityComplaints } from '../support/http/security-headers.js';
import { startFrame, type Frame } from './harness.js';

const BYTES_MAX = 150_000;
const FILES: readonly (readonly [path: string, type: string, operation: string])[] = [
  ['/console', 'text/html; charset=utf-8', 'console'],
  ['/console/app.js', 'text/javascript; charset=utf-8', 'consoleAsset'],
  ['/console/app.css', 'text/css; charset=utf-8', 'consoleAsset'],
];

interface Got {
  status: number;
  headers: Record<string, string | string[] | undefined>;
  body: Buffer;
}

async function get(frame: Frame, path: string, headers: Record<string, string> = {}): Promise<Got> {
  const answer = await request(frame.url + path, { headers });
  return {
    status: answer.statusCode,
    headers: answer.headers,
    body: Buffer.from(await answer.body.arrayBuffer()),
  };
}

describe('the console', () => {
  let frame: Frame;
  beforeAll(async () => (frame = await startFrame()));
  afterAll(() => frame[Symbol.asyncDispose]());

  it.each(FILES)('%s is %s, needs no credentials, and lets nothing else be loaded', async (path, type, operation) => {
    const { status, headers } = await get(frame, path);
    expect([status, headers['content-type']]).toEqual([200, type]);
    expect(securityComplaints(operation, { status, headers })).toEqual([]);
    expect(String(headers['content-security-policy'])).not.toMatch(/unsafe|https?:|\*/);
  });

  it('has no script, style or handler in the page itself', async () => {
    const html = (await get(frame, '/console')).body.toString();
    expect(html).not.toMatch(/<style|<script(?![^>]* src=)|\son\w+=|\sstyle=/);
    const loaded = [...html.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, address]) => address);
    expect(loaded.sort()).toEqual(['console/app.css', 'console/app.js', 'data:,']);
  });

  it('is small: everything that the page loads, compressed', async () => {
    const sizes = await Promise.all(
      FILES.map(async ([path]) => (await get(frame, path, { 'accept-encoding': 'gzip, br' })).body.length),
    );
    expect(sizes.reduce((sum, size) => sum + size, 0)).toBeLessThanOrEqual(BYTES_MAX);
  });

  it('leads from a final slash to the page', async () => {
    const { status, headers } = await get(frame, '/console/');
    expect([status, headers['location']]).toEqual([308, '/console']);
  });

  it.each(['/console/none.js', '/console/licences.txt', '/console/..%2Fmain.js', '/console/a/b'])(
    'has nothing at %s',
    async (path) => {
      const { status, headers } = await get(frame, path);
      expect([status, headers['content-type']]).toEqual([404, 'application/problem+json']);
    },
  );

  it('is answered to HEAD, and to nothing that writes', async () => {
    const head = await request(`${frame.url}/console`, { method: 'HEAD' });
    expect([head.statusCode, await head.body.text()]).toEqual([200, '']);
    const post = await request(`${frame.url}/console`, { method: 'POST' });
    await post.body.dump();
    expect(post.statusCode).toBe(405);
  });
});

describe('POSTERN_CONSOLE', () => {
  it('false: there is none, and the rest is as it was', async () => {
    await using frame = await startFrame({ config: { console: false } });
    for (const [path] of FILES) expect([path, (await get(frame, path)).status]).toEqual([path, 404]);
    expect((await get(frame, '/docs')).status).toBe(200);
  });

  it('is not at the port for operations', async () => {
    await using frame = await startFrame({ config: { opsPort: 0 } });
    const ops = await request(`http://127.0.0.1:${frame.server.opsPort}/console`);
    await ops.body.dump();
    expect(ops.statusCode).toBe(404);
    expect((await get(frame, '/console')).status).toBe(200);
  });
});

describe('what is the same for everybody', () => {
  let frame: Frame;
  beforeAll(async () => (frame = await startFrame()));
  afterAll(() => frame[Symbol.asyncDispose]());

  it.each(['/console/app.js', '/docs', '/openapi.json'])('%s is compressed for whoever reads that', async (path) => {
    const plain = await get(frame, path);
    const [brotli, gzip] = [
      await get(frame, path, { 'accept-encoding': 'gzip, deflate, br' }),
      await get(frame, path, { 'accept-encoding': 'gzip' }),
    ];
    expect([plain, brotli, gzip].map(({ headers }) => headers['content-encoding'])).toEqual([undefined, 'br', 'gzip']);
    expect(brotliDecompressSync(brotli.body).equals(plain.body)).toBe(true);
    expect(gunzipSync(gzip.body).equals(plain.body)).toBe(true);
    for (const { headers } of [plain, brotli, gzip]) expect(headers['vary']).toBe('Accept-Encoding');
    expect(new Set([plain, brotli, gzip].map(({ headers }) => headers['etag'])).size).toBe(3);
  });

  it('is 304 for whoever has it in that form', async () => {
    const encoding = { 'accept-encoding': 'br' };
    const { headers } = await get(frame, '/console/app.js', encoding);
    const etag = String(headers['etag']);
    const again = await get(frame, '/console/app.js', { ...encoding, 'if-none-match': etag });
    expect([again.status, again.body.length, again.headers['etag']]).toEqual([304, 0, etag]);
    expect(again.headers['vary']).toBe('Accept-Encoding');
    expect((await get(frame, '/console/app.js', { 'if-none-match': etag })).status).toBe(200);
  });

  it('differs by origin too where other origins may read it', async () => {
    await using open = await startFrame({ config: { corsOrigins: ['https://ops.example'] } });
    expect((await get(open, '/console')).headers['vary']).toBe('Origin, Accept-Encoding');
  });
});
