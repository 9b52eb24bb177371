/** What arrives and is no request: those who send it learn why, and the log is not filled with it. */
import { once } from 'node:events';
import { connect as connectTcp } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { expect, it } from 'vitest';
import { eventually } from '../support/eventually.js';
import { startFrame, type Frame } from './harness.js';

const linesOf = (frame: Frame, begin: string): Record<string, unknown>[] =>
  frame.log().filter(({ msg }) => String(msg).startsWith(begin));

async function sendAndRead(frame: Frame, text: string): Promise<string> {
  const socket = connectTcp(frame.server.port, '127.0.0.1');
  let received = '';
  socket.on('data', (chunk) => (received += chunk.toString('latin1')));
  socket.on('error', () => undefined);
  socket.write(text);
  await once(socket, 'close');
  return received;
}

it('tells the log once in a while that somebody speaks TLS to the plain port, and who', async () => {
  await using frame = await startFrame();
  for (let i = 0; i < 3; i += 1) {
    const client = connectTls({ host: '127.0.0.1', port: frame.server.port, rejectUnauthorized: false });
    const [error] = (await once(client, 'error')) as [NodeJS.ErrnoException];
    expect(error.code).toMatch(/^ERR_SSL_/);
  }
  await eventually('all three are seen', () => linesOf(frame, 'malformed request').length === 3);
  expect(linesOf(frame, 'TLS on the plain HTTP port')).toMatchObject([{ level: 'warn', client: '127.0.0.1' }]);
});

it('answers TLS at the plain port with the scheme to use', async () => {
  await using frame = await startFrame();
  const answer = await sendAndRead(frame, '\u0016\u0003\u0001\u0002\u0000');
  expect(answer).toContain('This looks like TLS; this port speaks plain HTTP: use http:// in place of https://.');
});

it('writes one line a minute for each reason, with the address of the client, and the others for those who debug', async () => {
  await using frame = await startFrame();
  for (let i = 0; i < 5; i += 1) expect(await sendAndRead(frame, 'nonsense\r\n\r\n')).toContain('"malformed"');
  const lines = await eventually('all are seen', () => {
    const found = linesOf(frame, 'malformed request');
    return found.length === 5 && found;
  });
  expect(lines.map(({ level }) => level)).toEqual(['info', 'debug', 'debug', 'debug', 'debug']);
  expect(lines.every(({ client }) => client === '127.0.0.1')).toBe(true);
  // Another reason is news.
  await sendAndRead(frame, `GET / HTTP/1.1\r\nX: ${'x'.repeat(20_000)}\r\n\r\n`);
  await eventually('the other reason', () => linesOf(frame, 'malformed request').at(-1)?.['level'] === 'info');
});
