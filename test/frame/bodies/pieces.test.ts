/**
 * Bodies in very many pieces: they take no more memory than they are long, and where they go too far their connection
 * ends.
 */
import { once } from 'node:events';
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createFace } from '../../../src/http/frame/express-face.js';
import type { Handler } from '../../../src/http/frame/exchange.js';
import { expectContract } from '../../support/http/contract.js';
import { makeApiKeys, type ApiKeys } from '../../support/http/api-keys.js';
import { eventually } from '../../support/eventually.js';
import { parseAnswer, rawConnection } from '../client.js';
import { startFrame, type Frame } from '../harness.js';

const FREE = 1_024;
const BYTES_PER_PIECE = 64;

const chunk = (text: string): string => `${text.length.toString(16)}\r\n${text}\r\n`;
const END = '0\r\n\r\n';
const head = (line: string, ...headers: string[]): string =>
  [line, 'Host: localhost', 'Transfer-Encoding: chunked', ...headers, '', ''].join('\r\n');

/** Lengths of pieces, from a generator that is the same each time. */
function lengths(count: number, longest: number): number[] {
  let state = 1;
  return Array.from({ length: count }, () => {
    state = (state * 48_271) % 2_147_483_647;
    return 1 + (state % longest);
  });
}

const text = (length: number): string =>
  Array.from({ length }, (_, at) => String.fromCharCode(97 + ((at * 7) % 26))).join('');

function inPieces(whole: string, sizes: readonly number[]): string[] {
  const pieces: string[] = [];
  let at = 0;
  for (const size of sizes) pieces.push(whole.slice(at, (at += size)));
  return pieces;
}

let keys: ApiKeys;
let frame: Frame;
let stored: string[] = [];
let letGo: () => void;
beforeEach(async () => {
  stored = [];
  keys = await makeApiKeys({ a: '*' });
  const released = new Promise<void>((resolve) => (letGo = resolve));
  const putConfig: Handler = ({ body }) => {
    stored.push((body as { bytes: Buffer }).bytes.toString('latin1'));
    return Promise.resolve({ status: 204 });
  };
  const deleteConfig: Handler = async () => {
    await released;
    return { status: 204 };
  };
  frame = await startFrame({
    config: { authFile: keys.file },
    routes: { putConfig, deleteConfig },
  });
});
afterEach(async () => {
  letGo();
  await frame[Symbol.asyncDispose]();
  await keys[Symbol.asyncDispose]();
});

const authorization = (): string => `Authorization: Bearer ${keys.as('a', frame.url).key}`;
const PUT = 'PUT /v1/config/k HTTP/1.1';

describe('a body in short pieces', () => {
  const whole = text(40_000);
  it.each([
    ['of all lengths', inPieces(whole, [...lengths(200, 300), 1_023, 1, 1, 1_024, 1_025, 1, 3_000, 2, 40_000])],
    ['as many as are free', inPieces(whole.slice(0, FREE), Array<number>(FREE).fill(1))],
    ['as short as they may be on average', inPieces(whole, Array<number>(625).fill(BYTES_PER_PIECE))],
    ['of which one is short', [whole, 'x']],
    ['of which there is one', ['x']],
  ])('%s is read as it was written', async (_which, pieces) => {
    await using connection = await rawConnection(frame.url);
    connection.socket.write(head(PUT, authorization()) + pieces.map(chunk).join('') + END);
    await eventually('it is answered', () => connection.received() !== '');
    expect(connection.received()).toMatch(/^HTTP\/1\.1 204/);
    expect(stored).toEqual([pieces.join('')]);
  });
});

const tooMany = chunk('x').repeat(2 * FREE);

describe('a body in more pieces than its length explains', () => {
  it('is refused, with what may be, and nothing more is read of its connection', async () => {
    await using connection = await rawConnection(frame.url);
    connection.socket.write(head(PUT, authorization()) + tooMany);
    await eventually('the connection is closed', () => connection.ended());
    const answer = parseAnswer(connection.received());
    expect(answer).toMatchObject({
      status: 400,
      headers: { connection: 'close' },
      body: {
        code: 'malformed',
        detail: expect.stringContaining(
          `at most ${FREE} chunks, and one more for each ${BYTES_PER_PIECE} bytes`,
        ) as string,
      },
    });
    expectContract('PUT', '/v1/config/k', answer);
    expect(stored).toEqual([]);
  });

  it('is not read on when the request was refused before that', async () => {
    await using connection = await rawConnection(frame.url);
    connection.socket.write(head(PUT));
    await eventually('it is refused', () => connection.received().startsWith('HTTP/1.1 401'));
    expect(connection.ended()).toBe(false);
    connection.socket.write(tooMany);
    await eventually('the connection is closed', () => connection.ended());
    expect(connection.received().match(/^HTTP\/1\.1 \d/gm)).toHaveLength(1);
  });

  it('is not read on when nobody looks at it', async () => {
    await using connection = await rawConnection(frame.url);
    connection.socket.write(head('GET /healthz HTTP/1.1') + tooMany);
    await eventually('the connection is closed', () => connection.ended());
    expect(connection.received()).toMatch(/^HTTP\/1\.1 200/);
  });

  it('ends its connection before its turn has come', async () => {
    await using connection = await rawConnection(frame.url);
    connection.socket.write(
      `DELETE /v1/config/k HTTP/1.1\r\nHost: localhost\r\n${authorization()}\r\n\r\n` +
        `${head(PUT, authorization())}${tooMany}`,
    );
    await eventually('the connection is closed', () => connection.ended());
    expect(connection.received()).toBe('');
    expect(stored).toEqual([]);
  });

  it('that is long and in long pieces otherwise is none', async () => {
    await using connection = await rawConnection(frame.url);
    const long = text(2 * FREE * BYTES_PER_PIECE);
    connection.socket.write(head(PUT, authorization()) + chunk(long) + tooMany + END);
    await eventually('it is answered', () => connection.received() !== '');
    expect(connection.received()).toMatch(/^HTTP\/1\.1 204/);
    expect(stored).toEqual([long + 'x'.repeat(2 * FREE)]);
  });
});

it('keeps no short piece by itself, whether anybody reads or not', async () => {
  const { classes } = createFace(() => Promise.resolve());
  let request: IncomingMessage | undefined;
  const server = createServer(classes, (came) => void (request = came));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  try {
    await using connection = await rawConnection(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
    connection.socket.write(head(PUT) + chunk('x').repeat(900) + chunk('y'.repeat(20)).repeat(100) + END);
    const whole = await eventually('it is there', () => (request?.complete ? request : undefined));
    const pieces: Buffer[] = [];
    // One event for each that was kept; an iteration would be given all of them in one.
    await once(
      whole.on('data', (piece: Buffer) => pieces.push(piece)),
      'end',
    );
    expect(Buffer.concat(pieces).toString()).toBe('x'.repeat(900) + 'y'.repeat(2_000));
    expect(pieces.length).toBeLessThanOrEqual(3);
  } finally {
    server.close();
  }
});
