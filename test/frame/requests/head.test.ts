/** Everything of a request but its body: path, query, method, headers, and bytes that are none of these. */
import { describe, expect, it } from 'vitest';
import { eventually } from '../../support/eventually.js';
import { rawConnection, send, sendRaw, type Method } from '../client.js';
import { frame, seen, acquire, expectRefused, JSON_TYPE, useFrame } from './frame.js';

useFrame();

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

  it.each(['a%2Fb', 'a%20b', 'x'.repeat(201), '%C3%BC', 'a%00', 'a+b'])('%j is refused', async (segment) => {
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
      /^HTTP\/1.1 204 [^]*\r\nAllow: DELETE, GET, HEAD, OPTIONS, POST, PUT\r/.test(connection.received()),
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
      const response = await send(frame.url, 'get', '/v1/transactions', (test) => test.set('Accept', accept));
      expectRefused(response, 406, 'not-acceptable');
      expect(response.body).toMatchObject({ types: ['application/json'] });
    },
  );

  it('text/html is 406, which names both types, where there are JSON and events', async () => {
    const response = await send(frame.url, 'get', '/v1/locks', (test) => test.set('Accept', 'text/html'));
    expectRefused(response, 406, 'not-acceptable');
    expect(response.body).toMatchObject({ types: ['application/json', 'text/event-stream'] });
  });

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
