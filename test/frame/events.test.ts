import { request as httpRequest, type IncomingMessage } from 'node:http';
import { describe, expect, it } from 'vitest';
import type { EventSink, Routes } from '../../src/http/frame/exchange.js';
import { PosternError } from '../../src/errors.js';
import { expectContract } from '../support/http/contract.js';
import { eventually } from '../support/eventually.js';
import { timing } from '../support/timing.js';
import { free, rawConnection, send } from './client.js';
import { startFrame, type Frame, type FrameOptions } from './harness.js';

const PATH = '/v1/locks/a/events';

/** A `watchLock` that hands its sink to the test and lasts until the sink's signal. */
function watched(): { routes: Routes; sinks: EventSink[] } {
  const sinks: EventSink[] = [];
  const events = (sink: EventSink): Promise<void> => {
    sinks.push(sink);
    if (sink.signal.aborted) return Promise.resolve();
    return new Promise((resolve) => sink.signal.addEventListener('abort', () => resolve(), { once: true }));
  };
  return {
    sinks,
    routes: {
      watchLock: ({ query }) => Promise.resolve({ events, maxMs: query['maxMs'] as number | undefined }),
      showLock: (exchange) => (exchange.wantsEvents ? Promise.resolve({ events }) : free(exchange)),
    },
  };
}

interface OpenStream extends AsyncDisposable {
  response: IncomingMessage;
  text(): string;
  ended(): boolean;
}

async function open(frame: Frame, path = PATH, headers: Record<string, string> = {}): Promise<OpenStream> {
  const request = httpRequest(frame.url + path, { headers: { Accept: 'text/event-stream', ...headers } });
  request.end();
  const response = await new Promise<IncomingMessage>((resolve, reject) =>
    request.on('response', resolve).on('error', reject),
  );
  let text = '';
  let ended = false;
  response.setEncoding('utf8');
  response.on('data', (chunk: string) => (text += chunk));
  response.on('end', () => (ended = true));
  response.on('error', () => (ended = true));
  expectContract('get', path, { status: response.statusCode ?? 0, headers: response.headers, body: 'a stream' });
  return {
    response,
    text: () => text,
    ended: () => ended,
    [Symbol.asyncDispose]: () => {
      request.destroy();
      return Promise.resolve();
    },
  };
}

async function start(options: FrameOptions = {}): Promise<Frame & { sinks: EventSink[] }> {
  const { routes, sinks } = watched();
  return { ...(await startFrame({ ...options, routes })), sinks };
}

const sinkOf = ({ sinks }: { sinks: EventSink[] }): Promise<EventSink> =>
  eventually('the stream has reached its handler', () => sinks.at(-1));

describe('an event stream', () => {
  it('writes events as they come, with their ids', async () => {
    await using frame = await start();
    await using stream = await open(frame, PATH, { 'Last-Event-ID': 'seven' });
    const sink = await sinkOf(frame);
    expect(sink.lastEventId).toBe('seven');
    expect(sink.send({ event: 'state', id: '8', data: { name: 'a\nb' } })).toBe(true);
    sink.send({ event: 'granted', data: null });
    const expected = 'event: state\nid: 8\ndata: {"name":"a\\nb"}\n\nevent: granted\ndata: null\n\n';
    await eventually('both have come', () => stream.text() === expected);
    expect(stream.response.headers).toMatchObject({
      'content-type': 'text/event-stream',
      'cache-control': 'no-store',
      'x-accel-buffering': 'no',
    });
  });

  it('is also the resource itself, for who accepts it', async () => {
    await using frame = await start();
    await using stream = await open(frame, '/v1/locks/a');
    await sinkOf(frame);
    expect(stream.response.statusCode).toBe(200);
    expect((await send(frame.url, 'get', '/v1/locks/a', (test) => test.set('Accept', 'application/json'))).type).toBe(
      'application/json',
    );
  });

  it('is not given to who accepts JSON only', async () => {
    await using frame = await start();
    expect((await send(frame.url, 'get', PATH, (test) => test.set('Accept', 'application/json'))).status).toBe(406);
  });

  it('answers HEAD without opening', async () => {
    await using frame = await start();
    const response = await send(frame.url, 'head', PATH);
    expect([response.status, response.type, frame.sinks.length]).toEqual([200, 'text/event-stream', 0]);
  });

  it('comments when there is nothing to say', async () => {
    await using frame = await start({
      streamTuning: { commentEveryMs: 5, backlogBytesMax: 65_536, cutOffGraceMs: 1000 },
    });
    await using stream = await open(frame);
    await eventually('two comments have come', () => /^(: [^\n]*\n){2,}$/.test(stream.text()));
  });

  it('ends with reconnect after maxMs', async () => {
    await using frame = await start();
    await using stream = await open(frame, `${PATH}?maxMs=20`);
    await eventually('the stream has ended', () => stream.ended());
    expect(stream.text()).toBe('event: reconnect\ndata: {"reason":"elapsed"}\n\n');
    expect((await sinkOf(frame)).signal.reason).toBe('elapsed');
  });

  it('lasts no longer than the longest wait, and refuses to be asked for more', async () => {
    await using frame = await start({ config: { maxWaitMs: 20 } });
    await using stream = await open(frame);
    await eventually('the stream has ended', () => stream.ended());
    expect(stream.text()).toContain('event: reconnect');
    expect((await send(frame.url, 'get', `${PATH}?maxMs=21`)).body).toMatchObject({ code: 'invalid', field: 'maxMs' });
  });

  it('ends with reconnect when the replica drains, and says when to come back', async () => {
    await using frame = await start();
    await using stream = await open(frame);
    const sink = await sinkOf(frame);
    frame.drain.abort();
    await eventually('the stream has ended', () => stream.ended());
    expect(stream.text()).toMatch(/^retry: \d{1,4}\nevent: reconnect\ndata: {"reason":"draining"}\n\n$/);
    expect(sink.signal.reason).toBe('draining');
    expect(sink.send({ event: 'state', data: {} })).toBe(false);
  });

  it('ends at once when the replica drained before', async () => {
    await using frame = await start();
    frame.drain.abort();
    await using stream = await open(frame);
    await eventually('the stream has ended', () => stream.ended());
    expect(stream.text()).toContain('"draining"');
  });

  it('ends without reconnect when its handler is done', async () => {
    await using frame = await startFrame({
      routes: {
        watchLock: () =>
          Promise.resolve({ events: (sink) => Promise.resolve(void sink.send({ event: 'expired', data: {} })) }),
      },
    });
    await using stream = await open(frame);
    await eventually('the stream has ended', () => stream.ended());
    expect(stream.text()).toBe('event: expired\ndata: {}\n\n');
  });

  it('says so when its handler fails, and logs why', async () => {
    await using frame = await startFrame({
      routes: { watchLock: () => Promise.resolve({ events: () => Promise.reject(new Error('a secret reason')) }) },
    });
    await using stream = await open(frame);
    await eventually('the stream has ended', () => stream.ended());
    expect(stream.text()).toMatch(/^event: problem\ndata: {.*"code":"internal".*}\n\n$/);
    expect(stream.text()).not.toContain('a secret reason');
    expect(frame.log().find(({ level }) => level === 'error')).toMatchObject({ err: { message: 'a secret reason' } });
  });

  it('is a problem like any other before it has begun', async () => {
    await using frame = await startFrame({
      routes: { watchLock: () => Promise.reject(new PosternError('zookeeper-unavailable', 'It is away.')) },
    });
    expect((await send(frame.url, 'get', PATH)).body).toMatchObject({ code: 'zookeeper-unavailable' });
  });

  it('tells its handler that the reader is gone', async () => {
    await using frame = await start();
    {
      await using _stream = await open(frame);
      await sinkOf(frame);
    }
    const sink = await sinkOf(frame);
    await eventually('the handler knows', () => sink.signal.reason === 'client-gone');
    await eventually('nothing waits any more', () => frame.app.waiters() === 0);
  });

  it('cuts off a reader that does not read, and does not keep what it missed', async () => {
    await using frame = await start({
      streamTuning: { commentEveryMs: 1000, backlogBytesMax: 65_536, cutOffGraceMs: 20 },
    });
    await using connection = await rawConnection(frame.url);
    connection.socket.pause();
    connection.socket.write(`GET ${PATH} HTTP/1.1\r\nHost: localhost\r\n\r\n`);
    const sink = await sinkOf(frame);
    const data = 'x'.repeat(60_000);
    // One event at a time: what the operating system takes is not behind.
    await eventually('the stream is cut off', () => !sink.send({ event: 'state', data }), { everyMs: 1 });
    expect(sink.signal.reason).toBe('client-gone');
    await eventually('nothing waits any more', () => frame.app.waiters() === 0);
    connection.socket.resume();
    await eventually('the connection is closed', () => connection.ended());
  });

  it('tells a slow reader why, if it still reads', async () => {
    await using frame = await start({
      streamTuning: { commentEveryMs: 1000, backlogBytesMax: 1000, cutOffGraceMs: timing.eventuallyMs },
    });
    await using stream = await open(frame);
    const sink = await sinkOf(frame);
    // All in one turn of the event loop: nothing of it can have left the process.
    while (sink.send({ event: 'state', data: 'x'.repeat(300) }));
    await eventually('the stream has ended', () => stream.ended());
    expect(stream.text()).toMatch(/event: too-slow\ndata: {"backlogBytes":\d+}\n\n$/);
  });
});
