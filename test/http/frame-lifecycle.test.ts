import { once } from 'node:events';
import { connect } from 'node:net';
import { describe, expect, it } from 'vitest';
import { createApp } from '../../src/http/app.js';
import { createAuthentication } from '../../src/http/auth.js';
import type { Exchange, Handler } from '../../src/http/exchange.js';
import { Overload } from '../../src/http/overload.js';
import { loadConfig } from '../../src/config.js';
import { createLog } from '../../src/log.js';
import { createMetrics } from '../../src/metrics/metrics.js';
import { systemClock } from '../../src/time.js';
import { eventually } from '../support/eventually.js';
import { free, held, parseAnswer, rawConnection, send } from './frame-client.js';
import { startFrame, type Frame } from './frame-harness.js';

const ACQUIRE = 'POST /v1/locks/a/acquire HTTP/1.1\r\nHost: localhost\r\n';

/** An `acquireLock` that waits until its signal is aborted or the test lets go, and remembers what it saw. */
function waiting(): { handler: Handler; seen: Exchange[]; letGo: () => void; undelivered: number } {
  let letGo: () => void = () => undefined;
  const state = {
    seen: [] as Exchange[],
    undelivered: 0,
    letGo: () => letGo(),
    handler: async (exchange: Exchange) => {
      state.seen.push(exchange);
      await new Promise<void>((resolve) => {
        if (exchange.signal.aborted) resolve();
        letGo = resolve;
        exchange.signal.addEventListener('abort', () => resolve(), { once: true });
      });
      return { ...(await held(exchange)), undelivered: () => void (state.undelivered += 1) };
    },
  };
  return state;
}

const waits = (frame: Frame, count: number): Promise<boolean> =>
  eventually(`${count} requests wait`, () => frame.app.waiters() === count);

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

describe('a drain', () => {
  it('tells every request that waits, and those that come later', async () => {
    const wait = waiting();
    await using frame = await startFrame({ routes: { acquireLock: wait.handler } });
    const sent = [1, 2].map(() =>
      send(frame.url, 'post', '/v1/locks/a/acquire', (test) => test.send({ waitMs: 5000 })).then(
        ({ headers }) => headers['connection'] as string,
      ),
    );
    await waits(frame, 2);
    frame.drain.abort();
    expect(await Promise.all(sent)).toEqual(['close', 'close']);
    const late = await send(frame.url, 'post', '/v1/locks/a/acquire', (test) => test.send({ waitMs: 5000 }));
    expect([late.status, late.headers['connection']]).toEqual([200, 'close']);
    expect(wait.seen.map(({ signal }) => signal.reason as string)).toEqual(['draining', 'draining', 'draining']);
  });

  it('begins with a pause, in which everything is served, each request as the last of its connection', async () => {
    const wait = waiting();
    await using frame = await startFrame({ routes: { acquireLock: wait.handler, showLock: free } });
    const waited = send(frame.url, 'post', '/v1/locks/a/acquire', (test) => test.send({ waitMs: 5000 })).then(
      ({ headers }) => headers['connection'] as string,
    );
    await waits(frame, 1);
    await using kept = await rawConnection(frame.url);
    kept.socket.write('GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n');
    await eventually('it is answered', () => kept.received().includes('"ok"'));
    expect(parseAnswer(kept.received()).headers['connection']).toBe('keep-alive');
    frame.leave.abort();
    kept.socket.write('GET /v1/locks/a HTTP/1.1\r\nHost: localhost\r\n\r\n');
    await eventually('its connection is closed after an answer', () => kept.ended());
    expect(parseAnswer(kept.received().slice(kept.received().lastIndexOf('HTTP/1.1')))).toMatchObject({
      status: 200,
      headers: { connection: 'close' },
    });
    const late = await send(frame.url, 'get', '/v1/locks/a');
    expect([late.status, late.headers['connection']]).toEqual([200, 'close']);
    expect([wait.seen[0]?.signal.aborted, frame.app.waiters()]).toEqual([false, 1]);
    wait.letGo();
    expect(await waited).toBe('close');
  });

  it('answers a request that was on its way over an idle connection', async () => {
    await using frame = await startFrame();
    await using kept = await rawConnection(frame.url);
    kept.socket.write('GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n');
    await eventually('it is answered', () => kept.received().includes('"ok"'));
    kept.socket.write('GET /docs HTTP/1.1\r\nHost: localhost\r\n\r\n');
    frame.drain.abort();
    await frame.server.stop(10_000);
    await eventually('all has come', () => kept.ended());
    expect(kept.received()).toMatch(/"ok"[^]*HTTP\/1.1 200 OK[^]*Connection: close[^]*<\/html>/);
  });

  it('answers a request over a connection that the system has accepted, but the gateway has not', async () => {
    await using frame = await startFrame();
    const { port } = new URL(frame.url);
    // All in one turn of the event loop: the system says that it is connected, the listener has not heard of it.
    const opened = [1, 2, 3].map(() => {
      const socket = connect({ host: '127.0.0.1', port: Number(port) });
      let received = '';
      socket.on('data', (chunk) => (received += chunk.toString()));
      socket.write('GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n');
      return once(socket, 'close').then(() => received);
    });
    await new Promise<void>((resolve) => process.nextTick(resolve));
    frame.drain.abort();
    await frame.server.stop(10_000);
    for (const received of await Promise.all(opened)) expect(received).toContain('"ok"');
  });

  it('answers what is in flight, closes idle connections and accepts no new ones', async () => {
    const wait = waiting();
    await using frame = await startFrame({ routes: { showLock: wait.handler } });
    await using idle = await rawConnection(frame.url);
    await using busy = await rawConnection(frame.url);
    idle.socket.write('GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n');
    await eventually('it is answered', () => idle.received().includes('"ok"'));
    busy.socket.write('GET /v1/locks/a HTTP/1.1\r\nHost: localhost\r\n\r\n');
    await eventually('it is with its handler', () => wait.seen.length === 1);
    const stopped = frame.server.stop(10_000);
    await eventually('the idle connection is closed', () => idle.ended());
    expect(busy.ended()).toBe(false);
    frame.drain.abort();
    await stopped;
    await eventually('all has come', () => busy.ended());
    expect(parseAnswer(busy.received())).toMatchObject({ status: 200, headers: { connection: 'close' } });
    await expect(send(frame.url, 'get', '/healthz')).rejects.toThrow('ECONNREFUSED');
  });

  it('closes the connection of a stream, whose headers had promised to keep it', async () => {
    await using frame = await startFrame({
      routes: {
        watchLock: () =>
          Promise.resolve({
            events: (sink) => new Promise((resolve) => sink.signal.addEventListener('abort', () => resolve())),
          }),
      },
    });
    await using connection = await rawConnection(frame.url);
    connection.socket.write('GET /v1/locks/a/events HTTP/1.1\r\nHost: localhost\r\n\r\n');
    await eventually('the stream is open', () => connection.received().includes('text/event-stream'));
    frame.drain.abort();
    await frame.server.stop(60_000);
    await eventually(
      'the reader knows',
      () => connection.ended() && connection.received().includes('event: reconnect'),
    );
  });

  it('cuts off at the deadline what does not end', async () => {
    await using frame = await startFrame({ routes: { showLock: () => new Promise(() => undefined) } });
    await using connection = await rawConnection(frame.url);
    connection.socket.write('GET /v1/locks/a HTTP/1.1\r\nHost: localhost\r\n\r\n');
    await eventually(
      'it is being served',
      async () => (await frame.metrics.httpRequestsInFlight.get()).values[0]?.value === 1,
    );
    frame.drain.abort();
    await frame.server.stop(20);
    await eventually('the connection is cut', () => connection.ended());
    expect(connection.received()).toBe('');
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

  it('may not write into the answer of the request before', async () => {
    const wait = waiting();
    await using frame = await startFrame({ routes: { showLock: wait.handler } });
    await using connection = await rawConnection(frame.url);
    connection.socket.write('GET /v1/locks/a HTTP/1.1\r\nHost: localhost\r\n\r\nnonsense\r\n\r\n');
    await eventually('the connection is closed', () => connection.ended());
    expect(connection.received()).toBe('');
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
