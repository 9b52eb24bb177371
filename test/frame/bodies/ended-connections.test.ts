/** A body whose connection ends before anybody reads it, as while a token is verified. */
import { once } from 'node:events';
import { createServer, type IncomingMessage } from 'node:http';
import { connect, type AddressInfo } from 'node:net';
import { expect, it } from 'vitest';
import { BytesAtOnce } from '../../../src/http/frame/bytes-at-once.js';
import { readJsonBody, readRawBody } from '../../../src/http/frame/body.js';
import { createMetrics } from '../../../src/metrics/metrics.js';
import { eventually } from '../../support/eventually.js';

/** Few enough to be read before anybody asks for them: then the end of the connection is noticed. */
const BYTES = 1_000;
const BODY = JSON.stringify('a'.repeat(BYTES));

it.each([
  ['JSON', readJsonBody, BODY],
  ['bytes', readRawBody, BODY],
  ['a part of JSON', readJsonBody, BODY.slice(0, 10)],
] as const)('%s is refused at once, and takes no room', async (_, read, sent) => {
  const all = new BytesAtOnce(
    { kind: 'bodies', limit: 'max', max: 10 * BYTES, uncounted: 0 },
    createMetrics({ version: 'test', processMetrics: false }),
  );
  const requests: IncomingMessage[] = [];
  const server = createServer((request) => requests.push(request)).listen(0, '127.0.0.1');
  await once(server, 'listening');
  try {
    const socket = connect((server.address() as AddressInfo).port, '127.0.0.1');
    socket.on('error', () => undefined);
    socket.write(`POST / HTTP/1.1\r\nHost: h\r\nContent-Length: ${BODY.length}\r\n\r\n${sent}`);
    const request = await eventually('it has come', () => requests[0]);
    socket.destroy();
    await eventually('the connection has ended', () => request.destroyed);
    const share = all.open('a', false);
    let outcome: unknown = 'none';
    void read(request, { maxBytes: 2 * BYTES, share, maxJsonValues: 10 }).catch((error: unknown) => (outcome = error));
    await eventually('it is refused', () => outcome !== 'none');
    expect(outcome).toMatchObject({ code: 'malformed' });
    expect(all.total).toBe(0);
  } finally {
    server.close();
  }
});
