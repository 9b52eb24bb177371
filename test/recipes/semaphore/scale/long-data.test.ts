/** What a semaphore costs whose holders show much: a change that many streams tell of, and many readers at once. */
import { connect, type Socket } from 'node:net';
import { expect, test } from 'vitest';
import { eventually } from '../../../support/eventually.js';
import { startReplica, type Replica } from '../../../support/start-gateway.js';
import { scaled } from '../../../support/timing.js';
import { cpuMsOf } from '../../../support/usage.js';

const HOLDERS = 100;
/** 4 KB in small parts, so that to put them into words takes some ten milliseconds for all holders. */
const DATA = { x: Array.from({ length: 1_300 }, () => ({})) };
const EVENT_BYTES = HOLDERS * JSON.stringify(DATA).length;
const STREAMS = 40;
/** As much as one may show, and what takes longest to take apart. */
const FINEST = Array.from({ length: 1_360 }, () => []);
const ANSWER_BYTES = HOLDERS * JSON.stringify(FINEST).length;
const READERS = 100;
const READ_AT_LEAST = 400;

for (const [what, path] of [
  ['its own streams', '/v1/semaphores/long'],
  ['streams of many things', '/v1/events?watch=semaphore:long'],
] as const) {
  test(`with ${what}, it is put into words once for all of them`, { timeout: scaled(120_000) }, async () => {
    await using replica = await startReplica();
    const lease = await replica.createLease({ ttlMs: 60_000 });
    const acquire = (limit: number, i: number): Promise<unknown> =>
      replica.expect(200, 'POST', '/v1/semaphores/long/acquire', {
        body: { limit, requestId: String(i), data: DATA },
        leaseToken: lease.leaseToken,
      });
    let held = 0;
    for (; held < HOLDERS - 8; held += 1) await acquire(HOLDERS, held);
    const costOf = async (streams: number): Promise<number> => {
      const readers = Array.from({ length: streams }, () => new Reader(replica, path, 'Accept: text/event-stream\r\n'));
      let events = 1;
      const allHave = (): boolean => readers.every(({ bytes }) => bytes > events * 0.8 * EVENT_BYTES);
      await eventually('all have the first event', allHave);
      const ms = await cpuMsOf(async () => {
        await acquire(HOLDERS, held++);
        events += 1;
        await eventually('all have the event', allHave);
      });
      for (const reader of readers) reader.close();
      return ms;
    };
    const ofOne = await costOf(1);
    const ofMany = await costOf(STREAMS);
    expect((ofMany - ofOne) / (STREAMS - 1)).toBeLessThan(4);
  });
}

test('heartbeats get their turn beside reads of the same semaphore', { timeout: scaled(120_000) }, async () => {
  await using replica = await startReplica();
  const lease = await replica.createLease({ ttlMs: 60_000 });
  for (let i = 0; i < HOLDERS; i += 1)
    await replica.expect(200, 'POST', '/v1/semaphores/long/acquire', {
      body: { limit: HOLDERS, requestId: String(i), data: FINEST },
      leaseToken: lease.leaseToken,
    });
  const readers = Array.from({ length: READERS }, () => new Reader(replica, '/v1/semaphores/long', '', ANSWER_BYTES));
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

/** Takes the bytes and does not look at them, which would cost as much as to write them. */
class Reader {
  bytes = 0;
  readonly #socket: Socket;

  /** @param againAfter bytes of an answer, at least: then it asks again */
  constructor({ url }: Replica, path: string, headers: string, againAfter = Infinity) {
    const { hostname, port } = new URL(url);
    const request = `GET ${path} HTTP/1.1\r\nHost: ${hostname}\r\n${headers}\r\n`;
    let asked = 1;
    this.#socket = connect(Number(port), hostname);
    this.#socket.write(request);
    this.#socket.on('data', (data) => {
      this.bytes += data.length;
      if (this.bytes < asked * againAfter) return;
      asked += 1;
      this.#socket.write(request);
    });
  }

  close(): void {
    this.#socket.destroy();
  }
}
