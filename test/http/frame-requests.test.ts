import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { Exchange } from '../../src/http/exchange.js';
import { eventually } from '../support/eventually.js';
import { free, held, rawConnection, send, sendRaw, type Method } from './frame-client.js';
import { startFrame, type Frame } from './frame-harness.js';

let frame: Frame;
const seen: Exchange[] = [];

beforeAll(async () => {
  frame = await startFrame({
    config: { maxBodyBytes: 4096 * 4 },
    routes: {
      acquireLock: (exchange) => {
        seen.push(exchange);
        return held(exchange);
      },
      showLock: (exchange) => {
        seen.push(exchange);
        return free(exchange);
      },
      listLocks: (exchange) => {
        seen.push(exchange);
        return Promise.resolve({ status: 200, body: { items: [] } });
      },
      heartbeatLeases: () => Promise.resolve({ status: 200, body: { items: [] } }),
      endLease: () => Promise.resolve({ status: 204 }),
      releaseLock: () => Promise.resolve({ status: 204 }),
    },
  });
});
afterAll(() => frame[Symbol.asyncDispose]());
beforeEach(() => void seen.splice(0));

function acquire(body?: string, headers: Record<string, string> = {}): ReturnType<typeof send> {
  return send(frame.url, 'post', '/v1/locks/backup/acquire', (test) => {
    for (const [name, value] of Object.entries(headers)) test.set(name, value);
    return body === undefined ? test : test.send(body);
  });
}

/** `text` is Latin-1: a byte for each character. */
function acquireBytes(text: string): ReturnType<typeof sendRaw> {
  const head = `POST /v1/locks/a/acquire HTTP/1.1\r\nHost: localhost\r\nContent-Length: ${text.length}\r\n\r\n`;
  return sendRaw(frame.url, head + text, 'post', '/v1/locks/a/acquire');
}

/** What no request that was refused may have reached. */
function expectRefused(response: { status: number; body: unknown }, status: number, code: string): void {
  expect(response.status).toBe(status);
  expect(response.body).toMatchObject({ code, status, type: `/problems/${code}`, outcome: 'not-applied' });
  expect(seen).toEqual([]);
}

const JSON_TYPE = { 'Content-Type': 'application/json' };

describe('a JSON body', () => {
  it.each([
    ['application/json', JSON_TYPE],
    ['application/json with a charset', { 'Content-Type': 'application/json; charset="UTF-8"' }],
    ['the type that curl -d sends', { 'Content-Type': 'application/x-www-form-urlencoded' }],
  ])('is read as %s', async (_what, headers) => {
    expect((await acquire('{"waitMs": 5}', headers)).status).toBe(200);
    expect(seen[0]?.body).toEqual({ waitMs: 5, keepPlace: false });
  });

  it('is read without any type', async () => {
    expect((await acquireBytes('{"waitMs":7}')).status).toBe(200);
    expect(seen[0]?.body).toMatchObject({ waitMs: 7 });
  });

  it('is {} when it is empty, whatever its type, also in chunks', async () => {
    expect((await acquire(undefined)).status).toBe(200);
    expect((await acquire('', { 'Content-Type': 'text/plain' })).status).toBe(200);
    const chunked =
      'POST /v1/locks/a/acquire HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n';
    expect((await sendRaw(frame.url, chunked, 'post', '/v1/locks/a/acquire')).status).toBe(200);
    expect(seen.map(({ body }) => body)).toEqual(Array(3).fill({ waitMs: 0, keepPlace: false }));
  });

  it('may begin with a byte order mark', async () => {
    expect((await acquireBytes('\xef\xbb\xbf{"waitMs":1}')).status).toBe(200);
  });

  it.each([
    ['text/plain', { 'Content-Type': 'text/plain' }],
    ['multipart/form-data', { 'Content-Type': 'multipart/form-data; boundary=x' }],
    ['another character set', { 'Content-Type': 'application/json; charset=latin1' }],
    ['a compressed body', { ...JSON_TYPE, 'Content-Encoding': 'gzip' }],
  ])('is refused as %s', async (_what, headers) => {
    expectRefused(await acquire('{}', headers), 415, 'unsupported-media-type');
  });

  it.each([
    ['{', 1],
    ['{"waitMs": 1,}', 13],
    ['{"waitMs": 01}', 12],
    ['{"a": 1 "b": 2}', 8],
    ["{'waitMs': 1}", 1],
    ['{} x', 3],
    ['nul', 0],
    ['{"label": "a\nb"}', 12],
    ['{"label": "\\x"}', 11],
    ['{"label": "abc', 14],
    ['[1, 2', 5],
    ['waitMs=1', 0],
  ])('that is not JSON is refused with the position: %j', async (body, position) => {
    const response = await acquire(body, JSON_TYPE);
    expectRefused(response, 400, 'malformed');
    expect((response.body as { position: number }).position).toBe(position);
  });

  it('that is not UTF-8 is refused', async () => {
    expectRefused(await acquireBytes('"\xff"'), 400, 'malformed');
  });

  it('with a member twice is refused, however it is written', async () => {
    expectRefused(await acquire('{"waitMs": 1, "wait\\u004ds": 2}', JSON_TYPE), 400, 'malformed');
  });

  it('with a __proto__ member is refused, also deep inside', async () => {
    expectRefused(await acquire('{"data": {"a": [{"__proto__": {"admin": true}}]}}', JSON_TYPE), 400, 'malformed');
    expectRefused(await acquire('{"data": {"__pr\\u006fto__": 1}}', JSON_TYPE), 400, 'malformed');
  });

  it('nested without end is refused', async () => {
    expectRefused(await acquire(`{"data": ${'['.repeat(5000)}`, JSON_TYPE), 400, 'malformed');
  });

  it('never appears in the answer, for it may be a token that lost its way', async () => {
    for (const body of [
      'v1.secret-token',
      '"v1.secret-token"',
      '{"leaseToken": "v1.secret-token"}',
      '{"data": v1.secret-token}',
    ]) {
      expect((await acquire(body, JSON_TYPE)).text).not.toContain('secret-token');
    }
    const response = await send(frame.url, 'post', '/v1/leases/heartbeat', (test) =>
      test.send({ leaseTokens: 'v1.secret-token' }),
    );
    expect(response.status).toBe(422);
    expect(response.text).not.toContain('secret-token');
  });
});

describe('a body that is too large', () => {
  const max = 4096 * 4;

  it('is refused by its announced length, before it is sent', async () => {
    const head = `POST /v1/locks/a/acquire HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: ${max + 1}\r\n\r\n`;
    const answer = await sendRaw(frame.url, head, 'post', '/v1/locks/a/acquire');
    expect(answer).toMatchObject({
      status: 413,
      body: { code: 'too-large', maxBytes: max },
      headers: { connection: 'close' },
    });
  });

  it('is refused when it comes in chunks and grows past the limit', async () => {
    const chunk = `${max.toString(16)}\r\n${' '.repeat(max)}\r\n`;
    const bytes = `POST /v1/locks/a/acquire HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n${chunk}${chunk}0\r\n\r\n`;
    expect(await sendRaw(frame.url, bytes, 'post', '/v1/locks/a/acquire')).toMatchObject({ status: 413 });
    expect(seen).toEqual([]);
  });

  it('is one byte above the limit', async () => {
    const fill = (bytes: number): string => `{"waitMs":0}${' '.repeat(bytes - 12)}`;
    expect((await acquire(fill(max), JSON_TYPE)).status).toBe(200);
    seen.splice(0);
    expectRefused(await acquire(fill(max + 1), JSON_TYPE), 413, 'too-large');
  });

  it('is asked for with 100 Continue when it is not', async () => {
    const body = '{"waitMs":3}';
    const bytes = `POST /v1/locks/a/acquire HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: ${body.length}\r\nConnection: close\r\n\r\n`;
    await using connection = await rawConnection(frame.url);
    connection.socket.write(bytes);
    await eventually('the body is asked for', () => connection.received() === 'HTTP/1.1 100 Continue\r\n\r\n');
    connection.socket.write(body);
    await eventually('the request is answered', () => connection.received().includes('HTTP/1.1 200 OK'));
  });
});

describe('a value outside its rule', () => {
  it.each([
    ['waitMs', { waitMs: 55_001 }, '55000'],
    ['waitMs', { waitMs: -1 }, 'at least 0'],
    ['waitMs', { waitMs: 1.5 }, 'an integer'],
    ['waitMs', { waitMs: '5' }, 'an integer'],
    ['waitMs', { waitMs: null }, 'an integer'],
    ['requestId', { requestId: '' }, '1 to 64 characters'],
    ['requestId', { requestId: 'x'.repeat(65) }, '1 to 64 characters'],
    ['requestId', { requestId: 'a b' }, '1 to 64 characters'],
    ['keepPlace', { keepPlace: 'yes' }, 'a boolean'],
    ['data', { data: 'x'.repeat(4095) }, '4096 bytes'],
    ['data', { data: 'ü'.repeat(2048) }, '4096 bytes'],
    ['lease', { lease: 5 }, 'an object'],
    ['lease.ttlMs', { lease: { ttlMs: 0 } }, 'from 1 to 2147483647'],
    ['lease.label', { lease: { label: 'x'.repeat(201) } }, 'at most 200 characters'],
  ])('is refused with its name and the rule: %s in %j', async (field, body, rule) => {
    const response = await acquire(JSON.stringify(body), JSON_TYPE);
    expectRefused(response, 422, 'invalid');
    expect(response.body).toMatchObject({ field, in: 'body' });
    expect((response.body as { detail: string }).detail).toMatch(
      new RegExp(`^${field.replace('.', '\\.')} is .*; it must be .*${rule}`),
    );
  });

  it.each(['[]', '"text"', '5', 'null', 'true'])('is a body that is no object: %s', async (body) => {
    expectRefused(await acquire(body, JSON_TYPE), 422, 'invalid');
  });

  it('may have exactly 4096 bytes as data', async () => {
    expect((await acquire(JSON.stringify({ data: 'x'.repeat(4094) }), JSON_TYPE)).status).toBe(200);
  });

  it('is listed with the others that are wrong', async () => {
    const response = await acquire(
      JSON.stringify({ waitMs: -1, keepPlace: 1, lease: { ttl: 5 }, colour: 'red', size: 2 }),
      JSON_TYPE,
    );
    expectRefused(response, 422, 'invalid');
    const { errors } = response.body as { errors: { field: string; detail: string }[] };
    expect(errors.map(({ field }) => field).sort()).toEqual(['colour', 'keepPlace', 'lease.ttl', 'waitMs']);
    expect(errors.find(({ field }) => field === 'colour')?.detail).toContain('"colour", "size"');
  });

  it('does not make the answer grow with the request', async () => {
    const many = Object.fromEntries(Array.from({ length: 500 }, (_, index) => [`member${index}`, 'x'.repeat(10)]));
    const response = await acquire(JSON.stringify({ ...many, requestId: 'y'.repeat(1000) }), JSON_TYPE);
    expectRefused(response, 422, 'invalid');
    expect(response.text.length).toBeLessThan(2000);
  });

  it('is refused in the query', async () => {
    for (const query of [
      'limit=0',
      'limit=1001',
      'limit=1e2',
      'limit=',
      'limit=%31%30x',
      'consistency=maybe',
      'prefix=a/b',
      'colour=red',
      '__proto__=1',
      'limit=1&limit=2',
    ]) {
      const response = await send(frame.url, 'get', `/v1/locks?${query}`);
      expectRefused(response, 422, 'invalid');
      expect(response.body).toMatchObject({ in: 'query' });
    }
  });

  it('is refused in a header', async () => {
    const response = await send(frame.url, 'get', '/v1/locks', (test) => test.set('Namespace', 'a/b'));
    expectRefused(response, 422, 'invalid');
    expect(response.body).toMatchObject({ field: 'Namespace', in: 'header' });
  });
});

describe('a query', () => {
  it('reaches the handler in the types of the contract, with the defaults', async () => {
    await send(frame.url, 'get', '/v1/locks?prefix=%61b%2Dc');
    expect({ ...seen[0]?.query }).toEqual({ limit: 100, prefix: 'ab-c', consistency: 'latest' });
    await send(frame.url, 'get', '/v1/locks?limit=7&&consistency=stale');
    expect({ ...seen[1]?.query }).toEqual({ limit: 7, consistency: 'stale' });
  });
});

describe('a name', () => {
  it.each([
    ['%41%62c', 'Abc'],
    ['a~b.c_d-e', 'a~b.c_d-e'],
    ['...', '...'],
    ['x'.repeat(200), 'x'.repeat(200)],
    ['self', 'self'],
  ])('%s is %s', async (segment, name) => {
    expect((await send(frame.url, 'get', `/v1/locks/${segment}`)).status).toBe(200);
    expect(seen[0]?.params).toEqual({ name });
  });

  it.each(['a%2Fb', 'a%20b', 'x'.repeat(201), '%C3%BC', 'a%00', 'a+b', ''])('%j is refused', async (segment) => {
    expectRefused(await send(frame.url, 'get', `/v1/locks/${segment}`), 422, 'invalid');
  });

  it.each(['.', '..', '%2e', '%2E%2e'])('%s is refused, and is no step in the path', async (segment) => {
    const answer = await sendRaw(
      frame.url,
      `GET /v1/locks/${segment} HTTP/1.1\r\nHost: localhost\r\n\r\n`,
      'get',
      `/v1/locks/${segment}`,
    );
    expect(answer).toMatchObject({ status: 422, body: { code: 'invalid', field: 'name' } });
  });

  it.each(['%', '%4', '%zz', 'a%ff', '%C3%28'])('%s is not percent-encoding', async (segment) => {
    expectRefused(await send(frame.url, 'get', `/v1/locks/${segment}`), 400, 'malformed');
  });

  it('keeps an encoded fixed segment what it is', async () => {
    expect((await send(frame.url, 'get', '/v1/l%6Fcks/x')).status).toBe(200);
  });
});

describe('a method or path outside the contract', () => {
  it.each<[Method, string, string]>([
    ['get', '/v1/locks/a/acquire', 'OPTIONS, POST'],
    ['post', '/v1/locks/a', 'GET, HEAD, OPTIONS'],
    ['put', '/v1/leases', 'GET, HEAD, OPTIONS, POST'],
    ['post', '/v1/leases/self', 'DELETE, GET, HEAD, OPTIONS'],
    ['get', '/v1/leases/heartbeat', 'OPTIONS, POST'],
    ['delete', '/', 'GET, HEAD, OPTIONS'],
  ])('%s %s is 405 with Allow: %s', async (method, path, allow) => {
    const response = await send(frame.url, method, path);
    expectRefused(response, 405, 'method-not-allowed');
    expect(response.headers['allow']).toBe(allow);
  });

  it.each(['/v1', '/v1/lock/a', '/v1/locks/a/b', '/v1/locks/a/acquire/', '/V1/locks', '//v1/locks', '/favicon.ico'])(
    '%s is 404',
    async (path) => {
      expectRefused(await send(frame.url, 'get', path), 404, 'not-found');
    },
  );

  it('OPTIONS answers 204 with Allow, also for *', async () => {
    const response = await send(frame.url, 'options', '/v1/locks/a/acquire');
    expect(response.status).toBe(204);
    expect(response.headers['allow']).toBe('OPTIONS, POST');
    expect(response.headers['access-control-allow-origin']).toBeUndefined();
    await using connection = await rawConnection(frame.url);
    connection.socket.write('OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n');
    await eventually('the whole server is described', () =>
      /^HTTP\/1.1 204 [^]*\r\nAllow: DELETE, GET/.test(connection.received()),
    );
  });

  it('HEAD is GET without the body', async () => {
    const get = await send(frame.url, 'get', '/v1/locks/a');
    const head = await send(frame.url, 'head', '/v1/locks/a');
    expect(head.status).toBe(200);
    expect(head.text).toBeUndefined();
    for (const name of ['content-type', 'content-length', 'etag', 'cache-control'])
      expect(head.headers[name]).toBe(get.headers[name]);
  });
});

describe('Accept', () => {
  it.each(['text/html', 'application/json;q=0', 'image/*', 'text/event-stream'])(
    '%s is 406 where there is only JSON',
    async (accept) => {
      const response = await send(frame.url, 'get', '/v1/locks', (test) => test.set('Accept', accept));
      expectRefused(response, 406, 'not-acceptable');
      expect(response.body).toMatchObject({ types: ['application/json'] });
    },
  );

  it.each(['*/*', 'application/*', 'text/html, */*;q=0.1', 'APPLICATION/JSON'])('%s takes JSON', async (accept) => {
    expect((await send(frame.url, 'get', '/v1/locks', (test) => test.set('Accept', accept))).status).toBe(200);
  });
});

describe('an answer', () => {
  it('has the headers that every answer has', async () => {
    const { headers } = await send(frame.url, 'get', '/v1/locks');
    expect(headers).toMatchObject({
      'cache-control': 'no-store',
      'x-content-type-options': 'nosniff',
      'content-type': 'application/json',
    });
    expect(headers['x-powered-by']).toBeUndefined();
    expect(headers['etag']).toBeUndefined();
    expect((await send(frame.url, 'get', '/v1/locks/a')).headers['cache-control']).toBe('private, no-cache');
  });

  it('carries the trace id of traceparent, and a new one without', async () => {
    const trace = '4bf92f3577b34da6a3ce929d0e0e4736';
    const given = await send(frame.url, 'get', '/nowhere', (test) =>
      test.set('traceparent', `00-${trace}-00f067aa0ba902b7-01`),
    );
    expect(given.headers['trace-id']).toBe(trace);
    expect(given.body).toMatchObject({ instance: trace });
    for (const bad of [`00-${'0'.repeat(32)}-00f067aa0ba902b7-01`, `ff-${trace}-00f067aa0ba902b7-01`, trace, 'x']) {
      const other = await send(frame.url, 'get', '/nowhere', (test) => test.set('traceparent', bad));
      expect(other.headers['trace-id']).not.toBe(trace);
    }
  });
});

describe('the limits of a request line and its headers', () => {
  it('are 8 KiB for the target', async () => {
    const path = (length: number): string => `/v1/locks?prefix=${'a'.repeat(length - 17)}`;
    expectRefused(await send(frame.url, 'get', path(8192)), 422, 'invalid');
    expectRefused(await send(frame.url, 'get', path(8193)), 414, 'uri-too-long');
    expectRefused(await send(frame.url, 'get', path(40_000)), 414, 'uri-too-long');
  });

  it('are no limit on how many headers there are: the last of thousands counts like the first', async () => {
    const many = Array.from({ length: 2_500 }, (_, index) => `${index}:\r\n`).join('');
    const bytes = `POST /v1/locks/a/acquire HTTP/1.1\r\nHost: localhost\r\n${many}Content-Length: 14\r\n\r\n{"waitMs": -1}`;
    expectRefused(await sendRaw(frame.url, bytes, 'post', '/v1/locks/a/acquire'), 422, 'invalid');
  });

  it('are 16 KiB for all headers', async () => {
    expect((await send(frame.url, 'get', '/v1/locks', (test) => test.set('X-Long', 'x'.repeat(15_000)))).status).toBe(
      200,
    );
    seen.splice(0);
    const response = await send(frame.url, 'get', '/v1/locks', (test) => test.set('X-Long', 'x'.repeat(17_000)));
    expectRefused(response, 431, 'headers-too-large');
    expect(response.headers['connection']).toBe('close');
  });
});

describe('bytes that are no request', () => {
  it.each([
    ['a greeting of TLS', '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n'],
    ['nonsense', 'hello there\r\n\r\n'],
    ['a header without a colon', 'GET /healthz HTTP/1.1\r\nHost: localhost\r\nbad header\r\n\r\n'],
    ['two lengths', 'POST /v1/leases HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab'],
    [
      'length and chunks',
      'POST /v1/leases HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
    ],
    ['no Host', 'GET /healthz HTTP/1.1\r\n\r\n'],
    ['a target that is no path', 'GET healthz HTTP/1.1\r\nHost: localhost\r\n\r\n'],
    ['a target whose host cannot be read', 'GET http://[ HTTP/1.1\r\nHost: localhost\r\n\r\n'],
  ])('are answered with a problem: %s', async (_what, bytes) => {
    const answer = await sendRaw(frame.url, bytes);
    expect([400, 403]).toContain(answer.status);
    expect(answer.headers['trace-id']).toMatch(/^[0-9a-f]{32}$/);
  });

  it('may expect what nobody knows, and are served all the same', async () => {
    expect(
      (await sendRaw(frame.url, 'GET /healthz HTTP/1.1\r\nHost: localhost\r\nExpect: a-miracle\r\n\r\n')).status,
    ).toBe(200);
    expect(
      (
        await sendRaw(
          frame.url,
          'GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n',
        )
      ).status,
    ).toBe(200);
  });

  it('may be of HTTP/1.0, without a Host', async () => {
    expect((await sendRaw(frame.url, 'GET /healthz HTTP/1.0\r\n\r\n')).status).toBe(200);
  });

  it('may ask for a tunnel, which is closed', async () => {
    await using connection = await rawConnection(frame.url);
    connection.socket.write('CONNECT zookeeper:2181 HTTP/1.1\r\nHost: localhost\r\n\r\n');
    await eventually('the connection is closed', () => connection.ended());
  });

  it('do not keep the next client from being served', async () => {
    expect((await send(frame.url, 'get', '/healthz')).status).toBe(200);
  });
});

describe('a lease token', () => {
  it.each([undefined, ''])('that is missing is its own problem, not a bad value (%j)', async (token) => {
    const response = await send(frame.url, 'delete', '/v1/leases/self', (test) =>
      token === undefined ? test : test.set('Lease-Token', token),
    );
    expectRefused(response, 400, 'lease-token-required');
  });

  it('is not shown when it is too long', async () => {
    const response = await send(frame.url, 'delete', '/v1/leases/self', (test) =>
      test.set('Lease-Token', 'secret'.repeat(500)),
    );
    expectRefused(response, 422, 'invalid');
    expect(response.text).not.toContain('secret');
  });

  it('reaches the handler unopened, with namespace and idempotency key', async () => {
    await acquire('{}', { ...JSON_TYPE, 'Lease-Token': 'v1.x', Namespace: 'prod', 'Idempotency-Key': 'k1' });
    expect(seen[0]).toMatchObject({
      leaseToken: 'v1.x',
      namespace: 'prod',
      idempotencyKey: 'k1',
      principal: { id: 'anonymous' },
    });
  });
});
