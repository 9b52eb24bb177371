/** How a replica goes: what it still answers, and what it lets go. */
import { once } from 'node:events';
import { connect } from 'node:net';
import { describe, expect, it } from 'vitest';
import type { Handler } from '../../../src/http/frame/exchange.js';
import { eventually } from '../../support/eventually.js';
import { spawnReplica } from '../../support/start-gateway.js';
import { startZooKeeper } from '../../support/start-zookeeper.js';
import { scaled } from '../../support/timing.js';
import { free, parseAnswer, rawConnection, send } from '../client.js';
import { startFrame } from '../harness.js';
import { waiting, waits } from './waiting.js';

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

  it('cuts off at the deadline what does not end, which has its line in the log, once', async () => {
    let end: () => void = () => undefined;
    const handler: Handler = async (exchange) => {
      await new Promise<void>((resolve) => (end = resolve));
      return free(exchange);
    };
    await using frame = await startFrame({ routes: { showLock: handler } });
    const requests = (): unknown[] => frame.log().filter(({ operation }) => operation === 'showLock');
    const inFlight = async (): Promise<unknown> => (await frame.metrics.httpRequestsInFlight.get()).values[0]?.value;
    await using connection = await rawConnection(frame.url);
    connection.socket.write('GET /v1/locks/a HTTP/1.1\r\nHost: localhost\r\n\r\n');
    await eventually('it is being served', async () => (await inFlight()) === 1);
    frame.drain.abort();
    await frame.server.stop(20);
    const line = { msg: 'request', name: 'a', status: 499, outcome: 'cut-off', delivered: false };
    expect(requests()).toMatchObject([line]);
    await eventually('the connection is cut', () => connection.ended());
    expect(connection.received()).toBe('');
    end();
    await eventually('it is over', async () => (await inFlight()) === 0);
    expect(requests()).toHaveLength(1);
  });

  it('logs also what is cut off because ZooKeeper does not answer', { timeout: scaled(60_000) }, async () => {
    await using zookeeper = await startZooKeeper({ proxied: true });
    const settings = { POSTERN_DRAIN_MS: '100' };
    await using replica = await spawnReplica({ zookeeper: zookeeper.connectString, settings });
    zookeeper.proxy.pause('fromZooKeeper');
    await using connection = await rawConnection(replica.url);
    connection.socket.write('PUT /v1/barriers/b HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n');
    const metrics = async (): Promise<string> => (await fetch(`${replica.url}/metrics`)).text();
    await eventually('it is served, beside the question', async () => /_requests_in_flight 2$/m.test(await metrics()));
    expect(await replica.kill('SIGTERM')).toBe(0);
    await eventually('the connection is cut', () => connection.ended());
    expect(connection.received()).toBe('');
    const lines = replica.output.split('\n').filter((line) => line.includes('"operation":"raiseBarrier"'));
    expect(lines.map((line) => JSON.parse(line) as unknown)).toMatchObject([
      { msg: 'request', name: 'b', status: 499, outcome: 'cut-off', delivered: false },
    ]);
  });
});
