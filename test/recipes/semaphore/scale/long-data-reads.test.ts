/** Reads of a semaphore whose holders show much, in very many small parts: they hold nobody up. */
import { connect, type Socket } from 'node:net';
import { expect, test } from 'vitest';
import { eventually } from '../../../support/eventually.js';
import { startReplica, type Replica } from '../../../support/start-gateway.js';
import { scaled } from '../../../support/timing.js';

const HOLDERS = 100;
/** As much as one may show, and what takes longest to take apart. */
const DATA = Array.from({ length: 1_360 }, () => []);
const ANSWER_BYTES = HOLDERS * JSON.stringify(DATA).length;
const READERS = 100;
const READ_AT_LEAST = 400;

test('heartbeats get their turn beside reads of the same semaphore', { timeout: scaled(120_000) }, async () => {
  await using replica = await startReplica();
  const lease = await replica.createLease({ ttlMs: 60_000 });
  for (let i = 0; i < HOLDERS; i += 1)
    await replica.expect(200, 'POST', '/v1/semaphores/long/acquire', {
      body: { limit: HOLDERS, requestId: String(i), data: DATA },
      leaseToken: lease.leaseToken,
    });
  const readers = Array.from({ length: READERS }, () => new Reader(replica, '/v1/semaphores/long'));
  const waited: number[] = [];
  const read = (): number => readers.reduce((sum, { bytes }) => sum + bytes, 0) / ANSWER_BYTES;
  await eventually(
    'much is read',
    async () => {
      const begun = performance.now();
      await replica.heartbeat(lease);
      waited.push(performance.now() - begun);
      return read() >= READ_AT_LEAST;
    },
    { withinMs: scaled(30_000) },
  );
  for (const reader of readers) reader.close();
  expect(Math.max(...waited)).toBeLessThan(scaled(500));
});

/** Asks again and again, and takes the bytes without looking at them, which would cost as much as to write them. */
class Reader {
  bytes = 0;
  readonly #socket: Socket;

  constructor({ url }: Replica, path: string) {
    const { hostname, port } = new URL(url);
    const request = `GET ${path} HTTP/1.1\r\nHost: ${hostname}\r\n\r\n`;
    let asked = 1;
    this.#socket = connect(Number(port), hostname);
    this.#socket.write(request);
    this.#socket.on('data', (data) => {
      this.bytes += data.length;
      if (this.bytes < asked * ANSWER_BYTES) return;
      asked += 1;
      this.#socket.write(request);
    });
  }

  close(): void {
    this.#socket.destroy();
  }
}
