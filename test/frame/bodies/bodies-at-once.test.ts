/** Bodies that are never finished, or many large ones, do not fill the memory; nor do they keep small ones out. */
import { afterEach, beforeEach, expect, it } from 'vitest';
import type { Handler } from '../../../src/http/frame/exchange.js';
import { makeApiKeys, type ApiKeys } from '../../support/http/api-keys.js';
import { eventually } from '../../support/eventually.js';
import { held, parseAnswer, rawConnection, type RawConnection } from '../client.js';
import { startFrame, type Frame } from '../harness.js';

const MIB = 1_048_576;
/** Of which 64 KiB are not counted. */
const LARGE = MIB;
const COUNTED = LARGE - 65_536;

let keys: ApiKeys;
let frame: Frame;
/** Bytes of the bodies that handlers were called with. */
let stored: number[] = [];
let letGo: () => void;
beforeEach(async () => {
  stored = [];
  keys = await makeApiKeys({ a: '*', b: '*', c: '*' });
  const released = new Promise<void>((resolve) => (letGo = resolve));
  const putConfig: Handler = async ({ body }) => {
    stored.push((body as { bytes: Buffer }).bytes.length);
    await released;
    return { status: 204 };
  };
  frame = await startFrame({
    config: { authFile: keys.file, maxBodyBytes: MIB, maxBodyBytesAtOnce: 4 * COUNTED },
    routes: { putConfig, acquireLock: held },
  });
});
afterEach(async () => {
  letGo();
  await frame[Symbol.asyncDispose]();
  await keys[Symbol.asyncDispose]();
});

async function put(principal: string, framing: string, body: Buffer): Promise<RawConnection> {
  const connection = await rawConnection(frame.url);
  const { key } = keys.as(principal, frame.url);
  connection.socket.write(
    `PUT /v1/config/k HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${key}\r\nContent-Type: text/plain\r\n${framing}\r\n\r\n`,
  );
  connection.socket.write(body);
  return connection;
}

const whole = (bytes = LARGE): [string, Buffer] => [`Content-Length: ${bytes}`, Buffer.alloc(bytes, 32)];
const announced = (): [string, Buffer] => [`Content-Length: ${LARGE}`, Buffer.alloc(10, 32)];
const inChunks = (bytes: number): [string, Buffer] => [
  'Transfer-Encoding: chunked',
  Buffer.concat([Buffer.from(`${bytes.toString(16)}\r\n`), Buffer.alloc(bytes, 32), Buffer.from('\r\n')]),
];

const refusal = (connection: RawConnection): Promise<unknown> =>
  eventually('it is refused', () =>
    /\}\n$/.test(connection.received()) ? parseAnswer(connection.received()) : undefined,
  );
const REFUSED = { status: 503, body: { code: 'overloaded', retryable: true, limit: 'maxBodyBytesAtOnce' } };
const isDone = (connection: RawConnection): boolean => connection.received().startsWith('HTTP/1.1 204');

it('refuses a body before it is read, beyond half of the bound for one principal and the whole for all, and none that is small', async () => {
  const held: RawConnection[] = [];
  for (const principal of ['a', 'a', 'b', 'b']) held.push(await put(principal, ...whole()));
  await eventually('they are worked on', () => stored.length === 4);
  await using own = await put('a', ...announced());
  expect(await refusal(own)).toMatchObject({
    ...REFUSED,
    body: { ...REFUSED.body, detail: expect.stringContaining('This replica') },
  });
  await using other = await put('c', ...announced());
  expect(await refusal(other)).toMatchObject(REFUSED);
  await using small = await put('c', ...whole(65_536));
  await eventually('a small one is served', () => stored.length === 5);
  letGo();
  await eventually('all are answered', () => [...held, small].every(isDone));
  await using next = await put('c', ...whole());
  await eventually('there is room again', () => isDone(next));
});

it('counts what is in chunks as it comes, and forgets it with its connection', async () => {
  // Of any two there is room, in whatever order their bytes are read.
  const three = await Promise.all(Array.from({ length: 3 }, () => put('a', ...inChunks(LARGE - 1))));
  const refused = await eventually('one of three is refused', () =>
    three.map((connection) => connection.received()).find((received) => /\}\n$/.test(received)),
  );
  expect(parseAnswer(refused)).toMatchObject({
    ...REFUSED,
    body: { ...REFUSED.body, detail: expect.stringContaining('"a" has as many') },
  });
  await using other = await put('b', ...whole());
  await eventually('that of another principal is served', () => stored.length === 1);
  expect(other.ended()).toBe(false);
  for (const connection of three) await connection[Symbol.asyncDispose]();
  await eventually('there is room for two again', async () => {
    const before = stored.length;
    const again = await put('a', ...whole());
    await eventually('it is worked on or refused', () => stored.length > before || again.received() !== '');
    return stored.length === 3;
  });
});
