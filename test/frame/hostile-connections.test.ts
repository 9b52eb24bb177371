/**
 * Connections that mean ill: slow, silent, many, cut, or with more than one meaning. Each is bounded in time and
 * answered where HTTP has an answer, and nobody else notices.
 */
import { once } from 'node:events';
import { connect } from 'node:net';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { expectContract } from '../support/http/contract.js';
import { eventually, passed } from '../support/eventually.js';
import { scaled, timing } from '../support/timing.js';
import { free, held, parseAnswer, rawConnection, send, sendRaw } from './client.js';
import { startFrame, type Frame } from './harness.js';

const ACQUIRE = 'POST /v1/locks/a/acquire HTTP/1.1\r\nHost: localhost\r\n';
const SMUGGLED = 'GET /v1/locks/smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n';
/** As short as a slow machine lets them be; the ones that are shipped are 10 and 30 s. */
const TIMEOUTS = { headersMs: 300, requestMs: 600, checkEveryMs: 20 };

let frame: Frame;
/** The names that handlers were called with. */
const served: string[] = [];
beforeAll(async () => {
  frame = await startFrame({
    timeouts: TIMEOUTS,
    routes: {
      acquireLock: (exchange) => (served.push(exchange.params['name'] ?? ''), held(exchange)),
      showLock: (exchange) => (served.push(exchange.params['name'] ?? ''), free(exchange)),
    },
  });
});
afterAll(() => frame[Symbol.asyncDispose]());
beforeEach(() => void served.splice(0));

/** Everybody else's requests, one after the other, as long as this is open; each must be answered, and soon. */
function others(): { answered: () => number } & AsyncDisposable {
  let over = false;
  let answered = 0;
  const asking = (async () => {
    while (!over) {
      const startedAt = performance.now();
      expect((await send(frame.url, 'get', '/v1/locks/others')).status).toBe(200);
      expect(performance.now() - startedAt).toBeLessThan(timing.eventuallyMs);
      answered += 1;
    }
  })();
  return {
    answered: () => answered,
    [Symbol.asyncDispose]: () => {
      over = true;
      return asking;
    },
  };
}

/** What was served but to the others. */
function strangers(): string[] {
  return served.filter((name) => name !== 'others');
}

describe('a connection that is slow', () => {
  const chunked = `${ACQUIRE}Transfer-Encoding: chunked\r\n\r\n`;
  it.each([
    ['in its request line', '', 'GET /v1/locks/'.padEnd(400, 'a'), 400],
    ['in its headers', 'GET /healthz HTTP/1.1\r\nHost: localhost\r\n', 'X-Slow: '.padEnd(400, 'a'), 400],
    ['behind a request', 'GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\nGET /heal', 'thz'.padEnd(400, 'a'), 400],
    ['in its body', `${ACQUIRE}Content-Length: 400\r\n\r\n`, '{"waitMs":'.padEnd(400, ' '), 400],
    ['in the chunks of its body', chunked, '1\r\n \r\n'.repeat(100), 400],
    ['in the size of a chunk', chunked, '0'.repeat(400), 400],
    [
      'in a body that nobody reads',
      'GET /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 400\r\n\r\n',
      ' '.repeat(400),
      200,
    ],
  ])('%s is told so and closed, however steadily it goes on', async (where, begin, drop, status) => {
    await using connection = await rawConnection(frame.url);
    await using undisturbed = others();
    connection.socket.write(begin);
    const startedAt = performance.now();
    for (const byte of drop) {
      if (connection.ended()) break;
      connection.socket.write(byte);
      await passed(timing.pollMs);
    }
    await eventually('the connection is closed', () => connection.ended());
    expect(performance.now() - startedAt).toBeLessThan(TIMEOUTS.requestMs + scaled(2_000));
    const answers = connection.received().split(/(?=HTTP\/1\.1 )/);
    const answer = parseAnswer((where === 'behind a request' ? answers.at(-1) : answers[0]) ?? '');
    expect(answer.status).toBe(status);
    if (status === 400) {
      expect(answer.body).toMatchObject({ code: 'malformed', detail: 'The request did not arrive in time.' });
      expectContract('GET', '/nowhere', answer);
    }
    expect(strangers()).toEqual([]);
    expect(undisturbed.answered()).toBeGreaterThan(0);
  });

  it('and says nothing at all is closed without a word, which would be taken for an answer', async () => {
    await using connection = await rawConnection(frame.url);
    await eventually('the connection is closed', () => connection.ended());
    expect(connection.received()).toBe('');
  });

  it.each([
    ['says everything', '', 'GET /v1/locks/late HTTP/1.1\r\nHost: localhost\r\n\r\n'],
    ['says the rest', 'GET /v1/locks/late HTTP/1.1\r\nHost:', ' localhost\r\n\r\n'],
  ])('and %s while the replica stands still is served', async (_what, begin, rest) => {
    await using connection = await rawConnection(frame.url);
    await passed(timing.pollMs);
    connection.socket.write(begin);
    await passed(timing.pollMs);
    connection.socket.write(rest);
    const until = performance.now() + TIMEOUTS.headersMs + 5 * TIMEOUTS.checkEveryMs;
    while (performance.now() < until);
    await eventually('it is answered', () => connection.received() !== '');
    expect(parseAnswer(connection.received()).status).toBe(200);
  });

  it('and stops in the middle to say that it is done is closed at once', async () => {
    for (const bytes of [
      'GET /hea',
      `${ACQUIRE}Content-Length: 5\r\n\r\n{`,
      `${ACQUIRE}Transfer-Encoding: chunked\r\n\r\n5\r\n{`,
    ]) {
      await using connection = await rawConnection(frame.url);
      connection.socket.end(bytes);
      await eventually('the connection is closed', () => connection.ended());
    }
    expect(strangers()).toEqual([]);
  });
});

describe('two thousand connections that do nothing', () => {
  it(
    'hinder nobody, and are closed when their time is over',
    { timeout: 2 * timing.processMs + scaled(20_000) },
    async () => {
      const { hostname, port } = new URL(frame.url);
      await using undisturbed = others();
      let closed = 0;
      for (let batch = 0; batch < 20; batch += 1) {
        // No more at once than may wait to be accepted: others the kernel lets believe that they are connected.
        const sockets = Array.from({ length: 100 }, () => connect({ host: hostname, port: Number(port) }));
        for (const socket of sockets)
          socket
            .on('error', () => undefined)
            .on('close', () => (closed += 1))
            .resume();
        await Promise.all(sockets.map((socket) => once(socket, 'connect')));
      }
      await eventually('all are closed', () => closed === 2_000, { withinMs: timing.processMs });
      expect(undisturbed.answered()).toBeGreaterThan(0);
    },
  );
});

describe('a request with two meanings', () => {
  const get = 'GET /v1/locks/a HTTP/1.1\r\nHost: localhost\r\n';
  it.each([
    ['length and chunks', `${ACQUIRE}Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`],
    ['chunks and length', `${ACQUIRE}Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n`],
    ['two lengths', `${ACQUIRE}Content-Length: 0\r\nContent-Length: 50\r\n\r\n`],
    ['a list of lengths', `${ACQUIRE}Content-Length: 0, 50\r\n\r\n`],
    ['a length with a sign', `${ACQUIRE}Content-Length: +0\r\n\r\n`],
    ['a length below zero', `${ACQUIRE}Content-Length: -1\r\n\r\n`],
    ['a length in hexadecimal', `${ACQUIRE}Content-Length: 0x0\r\n\r\n`],
    ['a length beyond counting', `${ACQUIRE}Content-Length: 18446744073709551617\r\n\r\n`],
    ['a coding before the chunks', `${ACQUIRE}Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n`],
    [
      'a coding and chunks in headers apart',
      `${ACQUIRE}Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
    ],
    ['chunks that are not the last coding', `${ACQUIRE}Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n`],
    ['a coding that is nearly chunks', `${ACQUIRE}Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n`],
    [
      'chunks in HTTP/1.0',
      `${ACQUIRE.replace('HTTP/1.1', 'HTTP/1.0')}Connection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
    ],
    ['a space before the colon', `${ACQUIRE}Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n`],
    ['a header folded over two lines', `${ACQUIRE}X-Folded: a\r\n Content-Length: 50\r\n\r\n`],
    ['a line feed alone', `${get.replace('localhost\r\n', 'localhost\n')}\r\n`],
    ['a carriage return alone', `${get}X: a\rb\r\n\r\n`],
    ['a zero byte in a header', `${get}X: a\0b\r\n\r\n`],
    ['a chunk of no size', `${ACQUIRE}Transfer-Encoding: chunked\r\n\r\n\r\n\r\n`],
    ['a chunk of a size that is none', `${ACQUIRE}Transfer-Encoding: chunked\r\n\r\n0x0\r\n\r\n`],
    ['a chunk of a size below zero', `${ACQUIRE}Transfer-Encoding: chunked\r\n\r\n-1\r\n\r\n`],
    ['a chunk of a size beyond counting', `${ACQUIRE}Transfer-Encoding: chunked\r\n\r\n${'F'.repeat(17)}\r\n\r\n`],
    ['a chunk that is longer than its size', `${ACQUIRE}Transfer-Encoding: chunked\r\n\r\n1\r\n{}0\r\n\r\n`],
  ])('such as %s is refused, and what follows is never a request', async (_what, bytes) => {
    await using connection = await rawConnection(frame.url);
    connection.socket.write(bytes + SMUGGLED + SMUGGLED, 'latin1');
    await eventually('the connection is closed', () => connection.ended());
    expect(strangers()).toEqual([]);
    expect(connection.received().match(/^HTTP\/1\.1 \d/gm)).toHaveLength(1);
    const answer = parseAnswer(connection.received());
    expect(answer).toMatchObject({ status: 400, body: { code: 'malformed' }, headers: { connection: 'close' } });
    expectContract('POST', '/v1/locks/a/acquire', answer);
  });
});

it('refuses two credentials, of which one may be that of somebody else', async () => {
  const answer = await sendRaw(
    frame.url,
    `${ACQUIRE}Authorization: Bearer a\r\nAuthorization: Bearer b\r\n\r\n`,
    'post',
    '/v1/locks/a/acquire',
  );
  expect(answer).toMatchObject({ status: 400, body: { code: 'malformed' } });
  expect(strangers()).toEqual([]);
});
