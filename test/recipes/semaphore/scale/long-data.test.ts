/** What a change of a semaphore costs whose holders show much, where many streams tell of it. */
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
      const readers = Array.from({ length: streams }, () => new Reader(replica, path));
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

/** Takes the bytes of a stream and does not look at them, which would cost as much as to write them. */
class Reader {
  bytes = 0;
  readonly #socket: Socket;

  constructor({ url }: Replica, path: string) {
    const { hostname, port } = new URL(url);
    this.#socket = connect(Number(port), hostname);
    this.#socket.write(`GET ${path} HTTP/1.1\r\nHost: ${hostname}\r\nAccept: text/event-stream\r\n\r\n`);
    this.#socket.on('data', (data) => (this.bytes += data.length));
  }

  close(): void {
    this.#socket.destroy();
  }
}
