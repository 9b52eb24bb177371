/** Arguments: the gateway's address, a name, and bytes in hexadecimal. Prints what it was told. */
import { randomUUID } from 'node:crypto';
import createClient from 'openapi-fetch';
import type { paths } from './contract.js';

const [baseUrl = '', name = '', hex = ''] = process.argv.slice(2);
const bytes = Buffer.from(hex, 'hex');
const client = createClient<paths>({ baseUrl });
/** As it is, and not as JSON. */
const raw = { headers: { 'Content-Type': 'application/octet-stream' }, bodySerializer: () => bytes };

const acquire = (label: string) =>
  client.POST('/v1/locks/{name}/acquire', {
    params: { path: { name } },
    body: { lease: { ttlMs: 15_000, label }, requestId: randomUUID() },
  });

const held = await acquire('held');
if (held.data === undefined || !('fencingToken' in held.data)) throw new Error(JSON.stringify(held.error));
const refused = await acquire('refused');

const pushed = await client.POST('/v1/queues/{name}/messages/raw', { params: { path: { name } }, body: bytes, ...raw });
if (pushed.data === undefined) throw new Error(pushed.error.detail);

const put = await client.PUT('/v1/config/{key}', {
  params: { path: { key: `${name}/primary` }, header: { 'If-None-Match': '*' } },
  body: bytes,
  ...raw,
});
if (put.data === undefined) throw new Error(put.error.detail);

const { fencingToken } = held.data;
console.log(
  JSON.stringify({ fencingToken, refused: refused.error?.code, pushed: pushed.data.status, etag: put.data.etag }),
);
