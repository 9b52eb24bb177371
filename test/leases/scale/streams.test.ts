/** What the event stream of a lease with many holds keeps between two looks. */
import { connect, type Socket } from 'node:net';
import { test } from 'vitest';
import { eventually } from '../../support/eventually.js';
import type { LeaseHandle } from '../../support/http/client.js';
import { startReplica, type Replica } from '../../support/start-gateway.js';
import { scaled } from '../../support/timing.js';
import { memoryInUse } from '../../support/usage.js';

const HOLDS = 500;
const AT_ONCE = 25;
const STREAMS = 40;

test('as much as it needs to say that one is lost, not what it read', { timeout: scaled(90_000) }, async () => {
  await using replica = await startReplica();
  const lease = await replica.createLease({ ttlMs: 60_000 });
  await acquirePermits(replica, lease);
  const open = async (count: number): Promise<Socket[]> => {
    const readers = Array.from({ length: count }, () => new Reader(replica, lease));
    await eventually('all have the first event', () => readers.every(({ hasAll }) => hasAll));
    return readers.map(({ socket }) => socket);
  };
  const sockets = await open(STREAMS); // what is kept of the first ones is kept once
  const before = await settled();
  sockets.push(...(await open(STREAMS)));
  // Between two looks: what is being read at the moment counts too.
  await eventually('they keep little for each hold', () => {
    const bytes = (memoryInUse().heapUsed - before) / STREAMS / HOLDS;
    return bytes < 300;
  });
  for (const socket of sockets) socket.destroy();
});

/** Bytes in use once nothing more becomes free. */
async function settled(): Promise<number> {
  let [last, bytes] = [0, 0];
  await eventually('the memory in use has settled', () => {
    [last, bytes] = [bytes, memoryInUse().heapUsed];
    return Math.abs(bytes - last) < 100_000;
  });
  return bytes;
}

async function acquirePermits(replica: Replica, { leaseToken }: LeaseHandle): Promise<void> {
  for (let first = 0; first < HOLDS; first += AT_ONCE)
    await Promise.all(
      Array.from({ length: AT_ONCE }, (_, i) =>
        replica.expect(200, 'POST', '/v1/semaphores/wide/acquire', {
          leaseToken,
          body: { limit: 10_000, requestId: `permit-${first + i}`, waitMs: 20_000 },
        }),
      ),
    );
}

/** Keeps nothing of what it reads. */
class Reader {
  readonly socket: Socket;
  hasAll = false;

  constructor({ url }: Replica, { leaseToken }: LeaseHandle) {
    const { hostname, port } = new URL(url);
    this.socket = connect(Number(port), hostname);
    const headers = `Host: ${hostname}\r\nAccept: text/event-stream\r\nLease-Token: ${leaseToken}\r\n`;
    this.socket.write(`GET /v1/leases/self/events HTTP/1.1\r\n${headers}\r\n`);
    this.socket.on('data', (data) => (this.hasAll ||= data.includes('\n\n\r\n')));
  }
}
