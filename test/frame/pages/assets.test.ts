/** What is served as a file: in which encoding, to whom it is 304, and that all share it. */
import { brotliDecompressSync, gunzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { request } from 'undici';
import { acceptedEncoding, asset } from '../../../src/http/pages/asset.js';
import { expectContract } from '../../support/http/contract.js';
import { startFrame, type Frame } from '../harness.js';

const PATHS = [
  '/docs',
  '/docs/queues',
  '/docs/objects',
  '/docs/docs.js',
  '/docs/docs.css',
  '/openapi.yaml',
  '/openapi.json',
];
const DECODE = { br: brotliDecompressSync, gzip: gunzipSync };
const COMPRESSED_MAX = 75_000;

let frame: Frame;
beforeAll(async () => (frame = await startFrame()));
afterAll(() => frame[Symbol.asyncDispose]());

interface Got {
  status: number;
  headers: Record<string, string | string[] | undefined>;
  bytes: Buffer;
}

/** Undici asks for no encoding of its own accord. */
async function get(path: string, headers: Record<string, string> = {}): Promise<Got> {
  const { statusCode: status, headers: got, body } = await request(frame.url + path, { headers });
  const bytes = Buffer.from(await body.arrayBuffer());
  const isJson = /json/.test(String(got['content-type'])) && got['content-encoding'] === undefined;
  const content: unknown = isJson ? JSON.parse(bytes.toString()) : bytes.toString();
  if (got['content-encoding'] === undefined) expectContract('get', path, { status, headers: got, body: content });
  return { status, headers: got, bytes };
}

describe.each(PATHS)('%s', (path) => {
  it.each(['br', 'gzip'] as const)('is sent as %s to whoever accepts that, and is then small', async (encoding) => {
    const plain = await get(path);
    expect(plain.headers).toMatchObject({ vary: 'Accept-Encoding', etag: expect.any(String) as string });
    expect(plain.headers['content-encoding']).toBeUndefined();
    const { status, headers, bytes } = await get(path, { 'accept-encoding': encoding });
    expect(status).toBe(200);
    expect(headers).toMatchObject({
      'content-encoding': encoding,
      vary: 'Accept-Encoding',
      'content-type': plain.headers['content-type'],
      'content-length': String(bytes.length),
    });
    expect(bytes.length).toBeLessThan(COMPRESSED_MAX);
    expect(DECODE[encoding](bytes)).toEqual(plain.bytes);
  });

  it('is 304 for whoever has that encoding of it, and for nobody else', async () => {
    const seen = new Set<string>();
    for (const encoding of ['br', 'gzip', 'identity']) {
      const { headers } = await get(path, { 'accept-encoding': encoding });
      const etag = String(headers['etag']);
      expect(seen.has(etag)).toBe(false);
      for (const other of seen)
        expect((await get(path, { 'accept-encoding': encoding, 'if-none-match': other })).status).toBe(200);
      seen.add(etag);
      const again = await get(path, { 'accept-encoding': encoding, 'if-none-match': `"other", W/${etag}` });
      expect([again.status, again.bytes.length]).toEqual([304, 0]);
      expect(again.headers).toMatchObject({ etag, vary: 'Accept-Encoding' });
    }
  });

  it('is refused to whoever accepts no encoding of ours, with those there are', async () => {
    const { status, bytes } = await get(path, { 'accept-encoding': 'zstd, identity;q=0' });
    expect(status).toBe(406);
    expect(JSON.parse(bytes.toString())).toMatchObject({
      code: 'not-acceptable',
      encodings: ['br', 'gzip', 'identity'],
    });
  });
});

it.each([
  [undefined, 'identity'],
  ['', 'identity'],
  ['gzip, deflate, br, zstd', 'br'],
  ['GZIP', 'gzip'],
  ['x-gzip', 'gzip'],
  ['gzip;q=1.0, br;q=0.5', 'gzip'],
  ['br;q=0, gzip;q=0.001', 'gzip'],
  ['br; q=0.2 , gzip ;q=0.1', 'br'],
  ['identity, gzip;q=0.5', 'identity'],
  ['gzip;q=0', 'identity'],
  ['*', 'br'],
  ['br;q=0, *', 'gzip'],
  ['gzip, *;q=0', 'gzip'],
  ['zstd', 'identity'],
  ['gzip;q=nonsense', 'identity'],
  ['gzip;q=2', 'identity'],
  ['*;q=0', undefined],
  ['identity;q=0', undefined],
  ['identity;q=0, zstd', undefined],
  ['identity;q=0, gzip', 'gzip'],
  ['*;q=0, identity', 'identity'],
])('Accept-Encoding %j is answered with %j', (header, encoding) => {
  expect(acceptedEncoding(header)).toBe(encoding);
});

it('is made once, and its bytes are shared, also by those who ask at the same moment', async () => {
  let made = 0;
  const serve = asset(() => ({ status: 200, contentType: 'text/plain', body: `made ${++made} times` }));
  const ask = { headers: { 'accept-encoding': 'br' } };
  const answers = await Promise.all([serve(ask), serve(ask), serve({ headers: {} }), serve(ask)]);
  expect(made).toBe(1);
  expect(answers[1]?.body).toBe(answers[0]?.body);
  expect(answers[3]?.body).toBe(answers[0]?.body);
  expect(answers.every(({ isShared }) => isShared === true)).toBe(true);
});

it('says that it depends on the origin as well, where pages of others may read it', async () => {
  await using open = await startFrame({ config: { corsOrigins: ['https://ops.example'] } });
  const { headers, body } = await request(`${open.url}/docs`);
  await body.dump();
  expect(headers['vary']).toBe('Origin, Accept-Encoding');
});
