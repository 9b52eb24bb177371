/** What a client that asks and does not read may cost. */
import { connect, type Socket } from 'node:net';
import { afterEach, expect, it } from 'vitest';
import { request } from 'undici';
import { eventually } from '../support/eventually.js';
import { startFrame, type Frame } from './harness.js';

const STALLED_MS = 400;
/** More than the system buffers for a connection. */
const REQUESTS = 40;

let frame: Frame | undefined;
const sockets: Socket[] = [];
afterEach(async () => {
  for (const socket of sockets.splice(0)) socket.destroy();
  await frame?.[Symbol.asyncDispose]();
});

it('closes a connection whose client reads nothing of its answer', async () => {
  frame = await startFrame({ timeouts: { stalledMs: STALLED_MS } });
  const socket = connect(Number(new URL(frame.url).port), '127.0.0.1');
  sockets.push(socket);
  socket.on('error', () => undefined).pause();
  socket.write('GET /openapi.yaml HTTP/1.1\r\nHost: localhost\r\n\r\n'.repeat(REQUESTS));
  await eventually(
    'the replica has given it up',
    () => frame?.log().some(({ delivered }) => delivered === false) === true,
  );
});

it('leaves a request alone that waits for longer', async () => {
  frame = await startFrame({
    timeouts: { stalledMs: STALLED_MS },
    routes: {
      showLock: () => new Promise((resolve) => setTimeout(() => resolve({ status: 200, body: {} }), 3 * STALLED_MS)),
    },
  });
  expect((await request(`${frame.url}/v1/locks/one`)).statusCode).toBe(200);
});

it.each(['/docs', '/openapi.yaml', '/openapi.json'])('%s is 304 for whoever has it', async (path) => {
  frame = await startFrame();
  const first = await request(frame.url + path);
  await first.body.dump();
  const etag = first.headers['etag'] as string;
  const again = await request(frame.url + path, { headers: { 'if-none-match': etag } });
  expect([again.statusCode, await again.body.text()]).toEqual([304, '']);
  expect((await request(frame.url + path, { headers: { 'if-none-match': '"other"' } })).statusCode).toBe(200);
});

it('refuses a request with two Host headers', async () => {
  frame = await startFrame();
  const socket = connect(Number(new URL(frame.url).port), '127.0.0.1');
  sockets.push(socket);
  let answer = '';
  socket.on('data', (chunk: Buffer) => (answer += chunk.toString()));
  socket.write('GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: elsewhere\r\n\r\n');
  await eventually('it is answered', () => answer.includes('\r\n\r\n'));
  expect(answer).toMatch(/^HTTP\/1\.1 400 /);
});
