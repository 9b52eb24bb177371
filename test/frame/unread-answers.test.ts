/** Answers that nobody reads do not fill the memory; nor do they keep small ones from those who do. */
import { connect, type Socket } from 'node:net';
import { afterEach, beforeEach, expect, it } from 'vitest';
import type { Handler } from '../../src/http/frame/exchange.js';
import { makeApiKeys, type ApiKeys } from '../support/http/api-keys.js';
import { eventually } from '../support/eventually.js';
import { free, parseAnswer, rawConnection, type RawAnswer } from './client.js';
import { startFrame, type Frame } from './harness.js';
import { timing } from '../support/timing.js';

const MIB = 1_048_576;
/** More than the system takes of an answer. */
const LARGE = 8 * MIB;
const COUNTED = LARGE - 16_384;

let keys: ApiKeys;
let frame: Frame;
let unread: Socket[] = [];
/** Answers that were made. */
let made = 0;
let undelivered = 0;
let taken = 0;
/** Event streams whose handler has returned. */
let ended = 0;
beforeEach(async () => {
  [made, undelivered, taken, ended, unread] = [0, 0, 0, 0, []];
  keys = await makeApiKeys({ a: '*', b: '*', c: '*' });
  const large: Handler = async () => {
    made += 1;
    return { status: 200, body: Buffer.alloc(LARGE), contentType: 'text/plain', undelivered: () => (undelivered += 1) };
  };
  const taking: Handler = async (exchange) => {
    const refused = exchange.reserveAnswer(LARGE);
    if (refused !== undefined) throw refused;
    taken += 1;
    return { status: 200, body: 'a'.repeat(LARGE + MIB) };
  };
  frame = await startFrame({
    config: { authFile: keys.file, maxAnswerBytesAtOnce: 4 * COUNTED },
    routes: {
      showConfig: large,
      putConfig: large,
      popMessages: taking,
      showLock: free,
      watchLock: async ({ query }) => ({
        maxMs: query['maxMs'] as number | undefined,
        events: async (sink) => {
          made += 1;
          sink.send({ event: 'state', data: 'a'.repeat(LARGE - 1_000) });
          await new Promise<void>((resolve) => sink.signal.addEventListener('abort', () => resolve(), { once: true }));
          ended += 1;
        },
      }),
    },
  });
});
afterEach(async () => {
  for (const socket of unread) socket.destroy();
  await frame[Symbol.asyncDispose]();
  await keys[Symbol.asyncDispose]();
});

const asking = (principal: string, line: string): string =>
  `${line} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${keys.as(principal, '').key}\r\nContent-Length: 0\r\n\r\n`;
const GET = 'GET /v1/config/k';
const POP = 'POST /v1/queues/q/pop';
const STREAM = 'GET /v1/locks/l/events?maxMs=1000';

/** Asks, and reads nothing. */
async function leaveUnread(principal: string, line = GET): Promise<Socket> {
  const before = made + taken;
  const socket = connect(Number(new URL(frame.url).port), '127.0.0.1');
  unread.push(socket);
  socket.on('error', () => undefined).pause();
  socket.write(asking(principal, line));
  await eventually('it is answered', () => made + taken === before + 1);
  return socket;
}

async function ask(principal: string, line = GET): Promise<RawAnswer> {
  await using connection = await rawConnection(frame.url);
  connection.socket.write(asking(principal, line));
  return await eventually('it is answered', () =>
    connection.received().endsWith('}\n') ? parseAnswer(connection.received()) : undefined,
  );
}

const REFUSED = {
  status: 503,
  body: { code: 'overloaded', limit: 'maxAnswerBytesAtOnce', maxAnswerBytesAtOnce: 2 * COUNTED },
};

it('refuses large answers beyond half of the bound to the principal that does not read its own, and beyond the whole to all', async () => {
  const [first] = [await leaveUnread('a'), await leaveUnread('a')];
  expect(await ask('a')).toMatchObject({ ...REFUSED, body: { ...REFUSED.body, outcome: 'not-applied' } });
  await leaveUnread('b');
  await leaveUnread('b');
  expect(await ask('c')).toMatchObject({ status: 503, body: { maxAnswerBytesAtOnce: 4 * COUNTED } });
  expect((await ask('a', 'GET /v1/locks/l')).status).toBe(200);
  expect(undelivered).toBe(2);
  first.destroy();
  await eventually('what has gone makes room', () => undelivered === 3);
  await leaveUnread('c');
});

it('refuses before it is done what takes something, where room is reserved for its answer, which may be longer then', async () => {
  await leaveUnread('a', POP);
  await leaveUnread('b');
  await leaveUnread('b');
  const full = { status: 503, body: { code: 'overloaded', outcome: 'not-applied', limit: 'maxAnswerBytesAtOnce' } };
  expect(await ask('b', POP)).toMatchObject(full);
  expect(taken).toBe(1);
  expect(await ask('a', POP)).toMatchObject(full);
  expect(taken).toBe(1);
});

it('says of what was done and cannot be told that it may have been done', async () => {
  await leaveUnread('a');
  await leaveUnread('a');
  expect(await ask('a', 'PUT /v1/config/k')).toMatchObject({
    status: 503,
    body: { code: 'outcome-unknown', outcome: 'unknown', limit: 'maxAnswerBytesAtOnce' },
  });
  expect(undelivered).toBe(1);
});

it('cuts off event streams that are not read with the others', async () => {
  await leaveUnread('a', 'GET /v1/locks/l/events');
  await leaveUnread('a', 'GET /v1/locks/l/events');
  await using third = await rawConnection(frame.url);
  third.socket.write(asking('a', 'GET /v1/locks/l/events'));
  await eventually('it is told', () => third.received().includes('event: too-slow'));
  expect(await ask('a')).toMatchObject(REFUSED);
});

it('counts what an event stream has not written for as long as nobody reads it, also when the stream has ended', async () => {
  const [first] = [await leaveUnread('a', STREAM), await leaveUnread('a', STREAM)];
  await eventually('both have ended', () => ended === 2);
  expect(await ask('a')).toMatchObject(REFUSED);
  first.destroy();
  await eventually('what has gone makes room', async () => {
    await using connection = await rawConnection(frame.url);
    connection.socket.write(asking('a', GET));
    return await eventually('the answer begins', () => /^HTTP\/1.1 200/.test(connection.received()), {
      withinMs: timing.quietMs,
    });
  });
});
