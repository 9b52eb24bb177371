import { describe, expect, it } from 'vitest';
import { createApp } from '../../../src/http/frame/app.js';
import { createAuthentication } from '../../../src/http/access/auth.js';
import type { Exchange } from '../../../src/http/frame/exchange.js';
import { Overload } from '../../../src/http/overload/overload.js';
import { loadConfig } from '../../../src/config.js';
import { createLog } from '../../../src/log.js';
import { createMetrics } from '../../../src/metrics/metrics.js';
import { systemClock } from '../../../src/time.js';
import { eventually } from '../../support/eventually.js';
import { free, held, parseAnswer, rawConnection, send } from '../client.js';
import { startFrame } from '../harness.js';
import { waiting, waits } from './waiting.js';

const ACQUIRE = 'POST /v1/locks/a/acquire HTTP/1.1\r\nHost: localhost\r\n';

describe('a client that goes away', () => {
  it('is noticed by the handler, whose answer is given back', async () => {
    const wait = waiting();
    await using frame = await startFrame({ routes: { acquireLock: wait.handler } });
    {
      await using connection = await rawConnection(frame.url);
      connection.socket.write(`${ACQUIRE}Content-Length: 15\r\n\r\n{"waitMs":5000}`);
      await waits(frame, 1);
    }
    await eventually('the answer is given back', () => wait.undelivered === 1);
    expect(wait.seen[0]?.signal.reason).toBe('client-gone');
    await waits(frame, 0);
    expect(frame.log().at(-1)).toMatchObject({ operation: 'acquireLock', delivered: false });
    const { values } = await frame.metrics.httpWaitDurationSeconds.get();
    expect(values.find(({ labels }) => labels['status'] === '499')).toBeDefined();
  });

  it('in the middle of its body is no fault of the gateway', async () => {
    await using frame = await startFrame({ routes: { acquireLock: held } });
    {
      await using connection = await rawConnection(frame.url);
      connection.socket.write(`${ACQUIRE}Content-Length: 15\r\n\r\n{"wai`);
      await eventually(
        'the request has begun',
        async () => (await frame.metrics.httpRequestsInFlight.get()).values[0]?.value === 1,
      );
    }
    await eventually('it is over', () => frame.log().some(({ operation }) => operation === 'acquireLock'));
    expect(frame.log().filter(({ level }) => level === 'error')).toEqual([]);
  });

  it('does not trouble those whose answer was written', async () => {
    const wait = waiting();
    await using frame = await startFrame({ routes: { acquireLock: wait.handler } });
    const answer = send(frame.url, 'post', '/v1/locks/a/acquire', (test) => test.send({ waitMs: 5000 }));
    const sent = answer.then(({ status }) => status);
    await waits(frame, 1);
    wait.letGo();
    expect(await sent).toBe(200);
    await eventually('it is logged', () => frame.log().some(({ operation }) => operation === 'acquireLock'));
    expect([wait.undelivered, wait.seen[0]?.signal.aborted]).toEqual([0, false]);
  });
});

describe('a handler', () => {
  it('that fails is a problem without a word of the reason, which is in the log', async () => {
    await using frame = await startFrame({
      routes: {
        acquireLock: () => Promise.reject(new Error('a secret reason')),
        showLock: () => {
          throw new Error('at once');
        },
      },
    });
    const response = await send(frame.url, 'post', '/v1/locks/a/acquire');
    expect(response.body).toMatchObject({ code: 'internal', outcome: 'unknown', status: 500 });
    expect(response.text).not.toContain('secret reason');
    const traceId = response.headers['trace-id'] as string;
    expect(frame.log().find(({ level }) => level === 'error')).toMatchObject({
      traceId,
      operation: 'acquireLock',
      err: { message: 'a secret reason' },
    });
    expect((await send(frame.url, 'get', '/v1/locks/a')).status).toBe(500);
  });

  it.each([
    ['no JSON', { status: 200, body: { name: 1n } }],
    ['no header', { status: 200, body: {}, headers: { ETag: 'line\nbreak' } }],
  ])('whose answer is %s gets it back, and the client a problem', async (_what, answer) => {
    let undelivered = 0;
    await using frame = await startFrame({
      routes: { showLock: () => Promise.resolve({ ...answer, undelivered: () => void (undelivered += 1) }) },
    });
    expect((await send(frame.url, 'get', '/v1/locks/a')).body).toMatchObject({ code: 'internal' });
    expect(undelivered).toBe(1);
  });

  it('has until the request time-out to answer, counted from the arrival', async () => {
    const seen: Exchange[] = [];
    await using frame = await startFrame({
      config: { requestTimeoutMs: 1234 },
      routes: { showLock: (exchange) => (seen.push(exchange), free(exchange)) },
    });
    await send(frame.url, 'get', '/v1/locks/a');
    const [{ deadline = 0, receivedAt = 0 } = {}] = seen;
    expect(deadline - receivedAt).toBeCloseTo(1234);
  });
});

describe('the limit of waits', () => {
  it('refuses one more with 503, counts streams too, and forgets those that ended', async () => {
    const wait = waiting();
    await using frame = await startFrame({
      config: { maxWaiters: 1 },
      routes: { acquireLock: wait.handler, showLock: free },
    });
    const first = send(frame.url, 'post', '/v1/locks/a/acquire', (test) => test.send({ waitMs: 5000 })).then(
      ({ status }) => status,
    );
    await waits(frame, 1);
    for (const path of ['/v1/locks/a?waitMs=1', '/v1/locks/a/events']) {
      const response = await send(frame.url, 'get', path);
      expect(response.body).toMatchObject({ code: 'overloaded', retryable: true, maxWaiters: 1 });
      expect(response.headers['retry-after']).toBe('1');
    }
    expect((await send(frame.url, 'get', '/v1/locks/a')).status).toBe(200);
    wait.letGo();
    expect(await first).toBe(200);
    await waits(frame, 0);
    expect((await send(frame.url, 'get', '/v1/locks/a?waitMs=1')).status).toBe(200);
  });
});

describe('a slow sender', () => {
  const timeouts = { headersMs: 60, requestMs: 120, checkEveryMs: 10 };

  it.each([
    ['its headers', 'GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Slow: '],
    ['its body', `${ACQUIRE}Content-Length: 100\r\n\r\n{`],
  ])('of %s is cut off with a problem', async (_what, bytes) => {
    await using frame = await startFrame({ timeouts, routes: { acquireLock: held } });
    await using connection = await rawConnection(frame.url);
    connection.socket.write(bytes);
    await eventually('the connection is closed', () => connection.ended());
    if (bytes.startsWith('GET'))
      expect(parseAnswer(connection.received())).toMatchObject({ status: 400, body: { code: 'malformed' } });
    expect((await send(frame.url, 'get', '/healthz')).status).toBe(200);
  });

  it('does not cut off a request that waits', async () => {
    const wait = waiting();
    await using frame = await startFrame({ timeouts, routes: { acquireLock: wait.handler } });
    const start = performance.now();
    const sent = send(frame.url, 'post', '/v1/locks/a/acquire', (test) => test.send({ waitMs: 5000 })).then(
      ({ status }) => status,
    );
    await eventually(
      'it has waited longer than a request may take to arrive',
      () => performance.now() - start > timeouts.requestMs * 3,
    );
    wait.letGo();
    expect(await sent).toBe(200);
  });
});

describe('what remains of a request', () => {
  it('is one line in the log', async () => {
    await using frame = await startFrame({ routes: { acquireLock: held } });
    const response = await send(frame.url, 'post', '/v1/locks/secret-name/acquire', (test) =>
      test.set('Lease-Token', 'v1.secret'),
    );
    const [line, ...others] = frame.log();
    expect(others).toEqual([]);
    expect(line).toMatchObject({
      level: 'info',
      msg: 'request',
      traceId: response.headers['trace-id'] as string,
      principal: 'anonymous',
      operation: 'acquireLock',
      method: 'POST',
      status: 200,
    });
    expect(line?.['durationMs']).toBeGreaterThan(0);
    expect(JSON.stringify(line)).not.toContain('v1.secret');
  });

  it('is one observation under the template of its path, waits apart', async () => {
    await using frame = await startFrame({ routes: { acquireLock: held, showLock: free } });
    await send(frame.url, 'get', '/v1/locks/one');
    await send(frame.url, 'get', '/v1/locks/two');
    await send(frame.url, 'get', '/v1/locks/two?waitMs=1');
    await send(frame.url, 'get', '/nowhere');
    await send(frame.url, 'put', '/v1/locks/one');
    const text = await frame.metrics.registry.metrics();
    expect(text).toContain(
      'postern_http_request_duration_seconds_count{route="/v1/locks/{name}",method="GET",status="200"} 2',
    );
    expect(text).toContain(
      'postern_http_wait_duration_seconds_count{route="/v1/locks/{name}",method="GET",status="200"} 1',
    );
    expect(text).toContain(
      'postern_http_request_duration_seconds_count{route="unmatched",method="GET",status="404"} 1',
    );
    expect(text).toContain(
      'postern_http_request_duration_seconds_count{route="unmatched",method="PUT",status="405"} 1',
    );
    expect(text).toContain('postern_http_requests_in_flight 0');
  });

  it('is at debug level for probes', async () => {
    await using frame = await startFrame();
    await send(frame.url, 'get', '/healthz');
    expect(frame.log().map(({ level }) => level)).toEqual(['debug']);
  });
});

describe('the routes', () => {
  it('must be exactly those of the contract', async () => {
    await expect(startFrame({ routes: { acquireNothing: held } })).rejects.toThrow(
      'handlers without an operation in openapi.yaml: acquireNothing',
    );
    const { config } = loadConfig({});
    const { logger } = createLog({ logLevel: 'silent' });
    const metrics = createMetrics({ version: 'test', processMetrics: false });
    const zooKeeperLimit = { set: false, admit: () => true, look: () => undefined };
    const options = {
      config,
      logger,
      metrics,
      clock: systemClock,
      authentication: createAuthentication({ config, logger }),
      overload: new Overload({
        config: { overloadDelayMs: 0 },
        zooKeeperLimit,
        metrics,
        logger,
        clock: systemClock,
      }),
      leaving: new AbortController().signal,
      draining: new AbortController().signal,
    };
    expect(() => createApp({ ...options, routes: {} })).toThrow(/without a handler: .*acquireLock/);
  });
});

describe('a port that is taken', () => {
  it('is one clear sentence', async () => {
    await using frame = await startFrame();
    const { port } = frame.server;
    await expect(startFrame({ config: { port } })).rejects.toThrow(
      `POSTERN_PORT is ${port}: something else listens on 127.0.0.1:${port} already.`,
    );
    await expect(startFrame({ config: { opsPort: port } })).rejects.toThrow(`POSTERN_OPS_PORT is ${port}`);
  });
});
