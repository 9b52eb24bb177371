/** Bodies that are taken as the bytes that they are, and what such operations need of paths and types. */
import { createServer } from 'node:http';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { Readable } from 'node:stream';
import { request } from 'undici';
import { describe, expect, it } from 'vitest';
import { negotiate } from '../../../src/http/frame/accept.js';
import { readRawBody } from '../../../src/http/frame/body.js';
import type { Operation } from '../../../src/http/contract/openapi.js';
import { problemOf } from '../../../src/http/frame/problem.js';
import { Router } from '../../../src/http/contract/router.js';

const MAX_BYTES = 1024;

interface Read {
  status: number;
  code?: string;
  maxBytes?: number;
  type?: string;
  bytes?: string;
}

/** Sends one request to a server that answers what it has read of it. */
async function read(
  body: Buffer | string | Readable,
  headers: Record<string, string> = {},
  method: 'PUT' | 'POST' = 'PUT',
): Promise<Read> {
  const server = createServer((incoming, response) => {
    readRawBody(incoming, { maxBytes: MAX_BYTES, share: { grow: () => undefined } }).then(
      ({ bytes, contentType }) => response.end(JSON.stringify({ type: contentType, bytes: bytes.toString('hex') })),
      (error: unknown) => {
        const problem = problemOf(error, 'trace');
        response.writeHead(problem.status).end(JSON.stringify(problem.body));
      },
    );
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  try {
    const { port } = server.address() as AddressInfo;
    const answer = await request(`http://127.0.0.1:${port}/`, { method, headers, body });
    return { status: answer.statusCode, ...((await answer.body.json()) as object) };
  } finally {
    server.closeAllConnections();
    server.close();
  }
}

describe('a raw body', () => {
  it('keeps every byte, and its type as it was said', async () => {
    const bytes = Buffer.from(Array.from({ length: 256 }, (_, i) => i));
    for (const type of ['image/png', 'text/plain; charset=iso-8859-1', 'application/vnd.a+json;v="1;2"', 'X-A/b'])
      expect(await read(bytes, { 'content-type': type }), type).toEqual({
        status: 200,
        type,
        bytes: bytes.toString('hex'),
      });
  });

  it('may be empty, and has no type when none is said or when it is that of a form', async () => {
    expect(await read('')).toEqual({ status: 200, type: 'application/octet-stream', bytes: '' });
    for (const type of ['application/x-www-form-urlencoded', 'application/x-www-form-urlencoded; charset=UTF-8'])
      expect(await read('a=b', { 'content-type': type })).toMatchObject({ type: 'application/octet-stream' });
  });

  it('is not read in another coding, nor with a type that is none', async () => {
    for (const headers of [
      { 'content-encoding': 'gzip' },
      { 'content-type': 'text' },
      { 'content-type': 'text/' },
      { 'content-type': 'text/plain; charset' },
      { 'content-type': 'text/pl ain' },
      { 'content-type': `text/${'x'.repeat(200)}` },
      { 'content-type': `a/b${'; '.repeat(90)}!` },
    ])
      expect(await read('x', headers), JSON.stringify(headers)).toMatchObject({
        status: 415,
        code: 'unsupported-media-type',
      });
    expect(await read('x', { 'content-encoding': 'identity' })).toMatchObject({ status: 200 });
  });

  it('may be as large as the limit, and no larger, whether announced or not', async () => {
    expect(await read(Buffer.alloc(MAX_BYTES))).toMatchObject({ status: 200 });
    const refused = { status: 413, code: 'too-large', maxBytes: MAX_BYTES };
    expect(await read(Buffer.alloc(MAX_BYTES + 1))).toMatchObject(refused);
    expect(await read(Readable.from([Buffer.alloc(MAX_BYTES), Buffer.alloc(1)]))).toMatchObject(refused);
  });

  it('of a POST from a web page has a type that browsers ask about first', async () => {
    const origin = 'https://ops.example.org';
    for (const type of ['text/plain', 'multipart/form-data', 'application/x-www-form-urlencoded'])
      expect(await read('x', { origin, 'content-type': type }, 'POST'), type).toMatchObject({ status: 415 });
    expect(await read('x', { origin }, 'POST')).toMatchObject({ status: 415 });
    expect(await read('x', { origin, 'content-type': 'application/json' }, 'POST')).toMatchObject({ status: 200 });
    // Browsers ask before any PUT.
    expect(await read('x', { origin, 'content-type': 'text/plain' })).toMatchObject({ status: 200 });
  });
});

describe('a path whose last parameter takes the rest', () => {
  const operation = (method: string, template: string, rest?: string): Operation =>
    ({
      operationId: `${method} ${template}`,
      method,
      template,
      parameters: rest === undefined ? [] : [{ name: rest, in: 'path', schema: {}, 'x-rest': true }],
    }) as unknown as Operation;
  const router = new Router([
    operation('GET', '/v1/config'),
    operation('GET', '/v1/config/{key}', 'key'),
    operation('PUT', '/v1/config/{key}', 'key'),
    operation('GET', '/v1/locks/{name}'),
    operation('GET', '/v1/locks/{name}/events'),
  ]);

  it('finds the key however its slashes are written, also one that is called like a path', () => {
    for (const [segments, key] of [
      [['a'], 'a'],
      [['a', 'b', 'c'], 'a/b/c'],
      [['a/b', 'c'], 'a/b/c'],
      [['a', 'events'], 'a/events'],
      [['a', '', 'b'], 'a//b'],
    ] as const)
      expect(router.match('PUT', ['v1', 'config', ...segments])).toMatchObject({ params: { key } });
  });

  it('leaves other paths as they are', () => {
    expect(router.match('GET', ['v1', 'config'])).toMatchObject({ operation: { template: '/v1/config' } });
    expect(router.match('GET', ['v1', 'locks', 'a', 'events'])).toMatchObject({ params: { name: 'a' } });
    expect(router.match('GET', ['v1', 'locks', 'a', 'b'])).toBeUndefined();
    expect(router.match('DELETE', ['v1', 'config', 'a', 'b'])).toEqual({ allow: 'GET, HEAD, OPTIONS, PUT' });
  });
});

describe('an answer of any type', () => {
  const types = ['*/*', 'text/event-stream'];

  it('goes to everybody who does not ask for the stream by its name', () => {
    for (const accept of [
      undefined,
      '*/*',
      'application/json',
      'text/*',
      'image/png, */*;q=0.1',
      'text/event-stream;q=0.1, a/b',
    ])
      expect(negotiate(accept, types), accept).toBe('*/*');
    for (const accept of ['text/event-stream', 'text/event-stream, */*;q=0.1', 'a/b;q=0, text/event-stream'])
      expect(negotiate(accept, types), accept).toBe('text/event-stream');
    expect(negotiate('a/b;q=0', types)).toBeUndefined();
  });
});
