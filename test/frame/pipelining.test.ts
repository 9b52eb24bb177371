/**
 * Requests that are sent before the answers to earlier ones have come: one at a time, in their order, bounded, and gone
 * with their connection.
 */
import { connect, type Socket } from 'node:net';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Handler } from '../../src/http/frame/exchange.js';
import { makeApiKeys, type ApiKeys } from '../support/http/api-keys.js';
import { eventually, throughout } from '../support/eventually.js';
import { free, parseAnswer, rawConnection, send, type RawAnswer, type RawConnection } from './client.js';
import { startFrame, type Frame, type FrameOptions } from './harness.js';

const get = (path: string, version = '1.1', headers = ''): string =>
  `GET /v1/${path} HTTP/${version}\r\nHost: localhost\r\n${headers}\r\n`;
const post = (path: string, body: string): string =>
  `POST /v1/${path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: ${body.length}\r\n\r\n${body}`;

/** The names of locks that were asked for, when their turn came. */
let begun: string[] = [];
let gates: Map<string, () => void>;
let ends: string[] = [];
let frame: Frame;
beforeEach(() => {
  [begun, ends, gates] = [[], [], new Map()];
});
afterEach(() => frame[Symbol.asyncDispose]());

/** A lock whose name begins with `slow` is shown when the test says so, or when its request is ended. */
const showing: Handler = async (exchange) => {
  const { name = '' } = exchange.params;
  begun.push(name);
  if (name.startsWith('slow'))
    await new Promise<void>((resolve) => {
      gates.set(name, resolve);
      exchange.signal.addEventListener('abort', () => {
        ends.push(`${name}: ${String(exchange.signal.reason)}`);
        resolve();
      });
    });
  return free(exchange);
};

async function start(options: FrameOptions = {}): Promise<Frame> {
  frame = await startFrame({ ...options, routes: { showLock: showing, ...options.routes } });
  return frame;
}

const letGo = (name: string): void => gates.get(name)?.();
const statusesOf = (connection: RawConnection): number[] =>
  [...connection.received().matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, status]) => Number(status));
const answersOf = (connection: RawConnection): RawAnswer[] =>
  connection
    .received()
    .split(/(?=HTTP\/1\.1 \d)/)
    .map(parseAnswer);
const inFlight = async (): Promise<number> => (await frame.metrics.httpRequestsInFlight.get()).values[0]?.value ?? 0;

describe('requests in one go', () => {
  it('are answered in their order, as many as may wait for their answers', async () => {
    await start();
    const names = Array.from({ length: 64 }, (_, index) => `n${index}`);
    await using connection = await rawConnection(frame.url);
    connection.socket.write(names.map((name) => get(`locks/${name}`)).join(''));
    await eventually('all are answered', () => statusesOf(connection).length === 64);
    const answered = [...connection.received().matchAll(/"name":"(n\d+)"/g)].map(([, name]) => name);
    expect([answered, begun]).toEqual([names, names]);
  });

  it('are begun one after the other: a fast one behind one that waits when that is answered', async () => {
    await start();
    await using connection = await rawConnection(frame.url);
    connection.socket.write(get('locks/slow') + get('locks/fast'));
    await eventually('the first has begun', () => begun.length > 0);
    await throughout('the second waits for its turn', () => begun.length === 1);
    letGo('slow');
    await eventually('both are answered', () => statusesOf(connection).length === 2);
    expect(begun).toEqual(['slow', 'fast']);
  });

  it('have the limits of their principal to themselves: what the one before took is given back', async () => {
    await start({
      config: { maxWaitsPerPrincipal: 1 },
      routes: { acquireLock: async ({ params }) => (begun.push(params['name'] ?? ''), { status: 200, body: {} }) },
    });
    await using connection = await rawConnection(frame.url);
    const names = ['a', 'b', 'c', 'd', 'e'];
    connection.socket.write(names.map((name) => post(`locks/${name}/acquire`, '{"waitMs":1000}')).join(''));
    await eventually('all are answered', () => statusesOf(connection).length === names.length);
    expect(statusesOf(connection)).toEqual(names.map(() => 200));
  });

  it('behind an event stream wait until it has ended', async () => {
    await start({
      routes: {
        watchLock: async () => ({
          events: async (stream) => {
            stream.send({ event: 'state', data: {} });
            await new Promise<void>((resolve) => gates.set('stream', resolve));
          },
        }),
      },
    });
    await using connection = await rawConnection(frame.url);
    connection.socket.write(get('locks/a/events') + get('locks/behind'));
    await eventually('the stream is open', () => connection.received().includes('event: state'));
    await throughout('the other waits', () => begun.length === 0);
    letGo('stream');
    await eventually('the other is answered', () => connection.received().includes('"name":"behind"'));
    expect(statusesOf(connection)).toEqual([200, 200]);
  });

  it.each(['slow-first', 'slow-second'])(
    'end with their connection, and none that waits for its turn is begun (%s)',
    async (name) => {
      await start();
      {
        await using connection = await rawConnection(frame.url);
        connection.socket.write(`${get('locks/quick')}${get(`locks/${name}`)}${get('locks/third')}`);
        await eventually('one waits', () => begun.includes(name));
      }
      await eventually('nothing is in flight', async () => (await inFlight()) === 0);
      expect(ends).toEqual([`${name}: client-gone`]);
      await throughout('the third is not begun', () => !begun.includes('third'));
    },
  );

  it('behind one whose answer is the last of the connection are not begun', async () => {
    await start();
    for (const first of [get('locks/slow', '1.0'), get('locks/slow', '1.1', 'Connection: close\r\n')]) {
      begun = [];
      await using connection = await rawConnection(frame.url);
      connection.socket.write(first + get('locks/behind'));
      await eventually('the first has begun', () => begun.length === 1);
      letGo('slow');
      await eventually('the connection is closed', () => connection.ended());
      expect([statusesOf(connection), begun]).toEqual([[200], ['slow']]);
    }
  });

  it('of HTTP/1.0 that keep their connection wait as well', async () => {
    await start();
    await using connection = await rawConnection(frame.url);
    const [slow, fast] = ['slow', 'fast'].map((name) => get(`locks/${name}`, '1.0', 'Connection: keep-alive\r\n'));
    connection.socket.write(`${slow}${fast}`);
    await eventually('the first has begun', () => begun.length > 0);
    await throughout('the second waits for its turn', () => begun.length === 1);
    letGo('slow');
    await eventually('both are answered', () => statusesOf(connection).length === 2);
  });

  it('end with the first that is none, which is told so after the others had their answers', async () => {
    await start();
    await using connection = await rawConnection(frame.url);
    connection.socket.write(`${get('locks/slow')}${get('locks/second')}no request\r\n\r\n${get('locks/smuggled')}`);
    await eventually('the first has begun', () => begun.length === 1);
    letGo('slow');
    await eventually('the connection is closed', () => connection.ended());
    expect(statusesOf(connection)).toEqual([200, 200, 400]);
    expect(answersOf(connection)[2]).toMatchObject({ body: { code: 'malformed' }, headers: { connection: 'close' } });
    expect(begun).toEqual(['slow', 'second']);
  });

  it('and then no request do not keep who hung up waiting', async () => {
    await start();
    {
      await using connection = await rawConnection(frame.url);
      connection.socket.write(`${get('locks/slow')}no request\r\n\r\n`);
      await eventually('the first has begun', () => begun.length === 1);
    }
    await eventually('it is over', () => ends.length === 1);
  });

  it('are told of a drain when their turn comes, or have to be sent again', async () => {
    await start();
    await using connection = await rawConnection(frame.url);
    connection.socket.write(get('locks/slow') + get('locks/behind'));
    await eventually('the first has begun', () => begun.length === 1);
    frame.drain.abort();
    await eventually('the connection is closed', () => connection.ended());
    expect(answersOf(connection)).toMatchObject([{ headers: { connection: 'close' } }]);
    expect(begun).toEqual(['slow']);
  });

  it('are not begun any more when their deadline, which counts from their arrival, is over', async () => {
    await start({ config: { requestTimeoutMs: 300 } });
    await using connection = await rawConnection(frame.url);
    const probe = 'GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n';
    connection.socket.write(get('locks/slow') + get('locks/late') + probe);
    await eventually('the first has begun', () => begun.length === 1);
    await throughout('the deadline passes', () => begun.length === 1, { forMs: 350 });
    letGo('slow');
    await eventually('all are answered', () => statusesOf(connection).length === 3);
    expect(answersOf(connection)).toMatchObject([
      { status: 200 },
      { status: 503, body: { code: 'overloaded', outcome: 'not-applied', requestTimeoutMs: 300 } },
      { status: 200 },
    ]);
    expect(begun).toEqual(['slow']);
  });
});

describe('a body behind a request that waits', () => {
  /** Of one request: more than a read brings. */
  const LARGE = 200_000;
  const pushed: number[] = [];
  const pushing: Handler = async ({ body }) => {
    pushed.push(JSON.stringify(body).length);
    return { status: 200, body: {} };
  };
  const message = (bytes: number): string => `{"messages":[{"body":"${'a'.repeat(bytes)}"}]}`;
  beforeEach(() => void pushed.splice(0));

  it('is read when its turn comes, and so is what stands behind it', async () => {
    await start({ routes: { pushMessages: pushing } });
    await using connection = await rawConnection(frame.url);
    connection.socket.write(get('locks/slow') + post('queues/q/messages', message(100)) + get('locks/behind'));
    await eventually('the first has begun', () => begun.length === 1);
    letGo('slow');
    await eventually('all are answered', () => statusesOf(connection).length === 3);
    expect(statusesOf(connection)).toEqual([200, 200, 200]);
    expect(pushed).toEqual([message(100).length]);
  });

  it('that there is no room for stays with its sender until then, and is the last of its connection', async () => {
    await start({ routes: { pushMessages: pushing } });
    await using connection = await rawConnection(frame.url);
    connection.socket.write(get('locks/slow') + post('queues/q/messages', message(LARGE)) + get('locks/behind'));
    await eventually('the first has begun', () => begun.length === 1);
    letGo('slow');
    await eventually('the connection is closed', () => connection.ended());
    expect(answersOf(connection)).toMatchObject([{ status: 200 }, { status: 200, headers: { connection: 'close' } }]);
    expect([pushed, begun]).toEqual([[message(LARGE).length], ['slow']]);
  });

  it('that is larger than may be is refused when its turn comes', async () => {
    await start({ config: { maxBodyBytes: 1_000 }, routes: { pushMessages: pushing } });
    await using connection = await rawConnection(frame.url);
    connection.socket.write(get('locks/slow') + post('queues/q/messages', message(2_000)) + get('locks/behind'));
    await eventually('the first has begun', () => begun.length === 1);
    letGo('slow');
    await eventually('all are answered', () => statusesOf(connection).length === 3);
    expect([statusesOf(connection), pushed]).toEqual([[200, 413, 200], []]);
  });
});

describe('what one connection may send ahead', () => {
  it('is 64 requests: with one more it is closed, and none but the first was begun', async () => {
    await start();
    await using connection = await rawConnection(frame.url);
    connection.socket.write(get('locks/slow') + get('locks/behind').repeat(63));
    await eventually('the first has begun', () => begun.length === 1);
    await throughout('it stays open', () => !connection.ended());
    connection.socket.write(get('locks/behind'));
    await eventually('it is closed', () => connection.ended());
    await eventually('its end is told', () => ends.length === 1);
    expect(begun).toEqual(['slow']);
  });

  it('is 256 KiB: with more it is closed', async () => {
    await start();
    await using connection = await rawConnection(frame.url);
    const large = get('locks/behind', '1.1', `X: ${'a'.repeat(15_000)}\r\n`);
    connection.socket.write(get('locks/slow') + large.repeat(12));
    await eventually('the first has begun', () => begun.length === 1);
    await throughout('it stays open', () => !connection.ended());
    connection.socket.write(large.repeat(16));
    await eventually('it is closed', () => connection.ended());
    expect(begun).toEqual(['slow']);
  });

  it('does not grow while it is answered: who always has some on their way may go on for ever', async () => {
    await start();
    await using connection = await rawConnection(frame.url);
    const large = get('locks/one', '1.1', `X: ${'a'.repeat(10_000)}\r\n`);
    connection.socket.write(large.repeat(8));
    for (let answered = 1; answered <= 60; answered += 1) {
      await eventually('one more is answered', () => statusesOf(connection).length >= answered, { everyMs: 1 });
      connection.socket.write(large);
    }
    await eventually('all are answered', () => statusesOf(connection).length === 68);
  });

  it('does not pile up without end where nobody reads the answers', async () => {
    await start();
    const { hostname, port } = new URL(frame.url);
    const flood: Socket = connect({ host: hostname, port: Number(port) });
    let isClosed = false;
    flood.on('error', () => undefined).on('close', () => (isClosed = true));
    flood.write(get('locks/flood').repeat(100_000));
    await eventually('the connection is closed', () => isClosed);
    expect(begun.length).toBeLessThanOrEqual(64);
    expect((await send(frame.url, 'get', '/v1/locks/others')).status).toBe(200);
    await eventually('nothing of it is left', async () => (await inFlight()) === 0);
  });
});

describe('what all connections send ahead', () => {
  /** More than those that are nobody’s may have together, with 60 requests each. */
  const CROWD = 60;
  const large = get('locks/behind', '1.1', `X: ${'a'.repeat(3_800)}\r\n`);

  async function crowd(headers = ''): Promise<RawConnection[]> {
    const opened: RawConnection[] = [];
    for (let i = 0; i < CROWD; i += 1) {
      const connection = await rawConnection(frame.url);
      opened.push(connection);
      connection.socket.write(get('locks/slow', '1.1', headers) + large.repeat(60));
    }
    return opened;
  }

  it('is bounded: connections with more are closed, those with one request are not, and there is room again when they are gone', async () => {
    await start();
    const others = [await rawConnection(frame.url), await rawConnection(frame.url)] as const;
    const opened = await crowd();
    await eventually('those that came last are closed', () => opened.filter((one) => one.ended()).length > CROWD / 4);
    expect(opened.filter((one) => !one.ended()).length).toBeGreaterThan(5);
    others[0].socket.write(get('locks/slow-one') + get('locks/next'));
    await eventually('its first has begun', () => begun.includes('slow-one'));
    letGo('slow-one');
    await eventually('both are answered', () => statusesOf(others[0]).length === 2);
    for (const one of opened) one.socket.destroy();
    await eventually('they are gone', async () => (await inFlight()) === 0);
    others[1].socket.write(get('locks/slow-two') + large.repeat(60));
    await eventually('its first has begun', () => begun.includes('slow-two'));
    letGo('slow-two');
    await eventually('all are answered', () => statusesOf(others[1]).length === 61);
    expect((await frame.metrics.limitRefusalsTotal.get()).values).toContainEqual(
      expect.objectContaining({ labels: { limit: 'ahead' }, value: expect.any(Number) as number }),
    );
    for (const one of others) await one[Symbol.asyncDispose]();
  });

  it('follows its setting', async () => {
    await start({ config: { maxBytesAhead: 1_048_576 } });
    const opened: RawConnection[] = [];
    // Each half a mebibyte, about: all that is nobody’s.
    for (let i = 0; i < 4; i += 1) {
      const connection = await rawConnection(frame.url);
      opened.push(connection);
      connection.socket.write(get('locks/slow') + large.repeat(60));
    }
    await eventually('those that came last are closed', () => opened.some((one) => one.ended()));
    for (const one of opened) one.socket.destroy();
  });

  it('of strangers leaves half of it to those who have a credential', async () => {
    await using keys = await makeApiKeys({ worker: '*' });
    await start({ config: { authFile: keys.file } });
    const worker = await rawConnection(frame.url);
    worker.socket.write(get('locks/slow', '1.1', bearer(keys)));
    await eventually('it has begun', () => begun.length === 1);
    const docs = 'GET /openapi.yaml HTTP/1.1\r\nHost: localhost\r\n\r\n';
    const strangers = await Promise.all(Array.from({ length: CROWD }, () => rawConnection(frame.url)));
    for (const { socket } of strangers) socket.pause().write(docs.repeat(3) + large.repeat(59));
    await eventually('some of them are closed', async () => (await refusals()) > 0);
    worker.socket.write(get('locks/next', '1.1', `X: ${'a'.repeat(3_800)}\r\n${bearer(keys)}`).repeat(60));
    letGo('slow');
    await eventually('all are answered', () => statusesOf(worker).length === 61);
    for (const one of [worker, ...strangers]) one.socket.destroy();
  });

  const bearer = (keys: ApiKeys): string => `Authorization: Bearer ${keys.as('worker', '').key}\r\n`;
  const refusals = async (): Promise<number> =>
    (await frame.metrics.limitRefusalsTotal.get()).values.find(({ labels }) => labels.limit === 'ahead')?.value ?? 0;
});
