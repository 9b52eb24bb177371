/**
 * What the depth of a queue costs: pairs of push and pop, and of claim and ack, at a depth of a thousand and at a great
 * one in turns. Then the replica is killed and started again: the first pop of one that knows nothing yet, and how long
 * its event loop stands still for it.
 */
import { fourLetterWord } from '../../scripts/lib/zookeeper.mjs';
import { median } from '../statistics.js';
import { metricsOf, sumOf } from './exposition.js';
import { HttpConnection, requestText } from './http-connection.js';
import type { Job } from './job.js';
import { expect, parsed, posternHeaders, posternLease } from './lock-clients.js';
import type { Meter } from './meter.js';

const REFERENCE_DEPTH = 1_000;
const FILL_AT_ONCE = 1_000;
const FILLERS = 2;
const SLICES = 6;
const LEASE_MS = 240_000;

export async function depth(job: Job, meter: Meter, restart: () => Promise<number>): Promise<void> {
  const { target, things } = job;
  let clients = await open(job);
  const first = clients[0] as HttpConnection;
  const token = await posternLease(first, target, LEASE_MS);
  const headers = posternHeaders(target);
  const withLease = `${headers}Lease-Token: ${token}\r\n`;
  const post = async (http: HttpConnection, path: string, body: object, lines = headers): Promise<unknown> => {
    const answer = await http.send(requestText('POST', path, lines, JSON.stringify(body)));
    if (answer.status !== 201) expect(answer, 200);
    return JSON.parse(answer.body);
  };
  const pathOf = (size: number): string => `/v1/queues/${target.names}${size}`;

  // The first connection does nothing else until all messages are there.
  const beats = setInterval(() => {
    first
      .send(requestText('POST', '/v1/leases/self/heartbeat', withLease))
      .catch((error: unknown) => meter.error(error));
  }, LEASE_MS / 4);
  const from = performance.now();
  for (const size of [REFERENCE_DEPTH, things]) {
    let left = size;
    const fill = async (http: HttpConnection): Promise<void> => {
      while (left > 0) {
        const count = Math.min(FILL_AT_ONCE, left);
        left -= count;
        await post(http, `${pathOf(size)}/messages`, { messages: Array.from({ length: count }, () => ({ body: 0 })) });
      }
    };
    await Promise.all(clients.slice(1, 1 + FILLERS).map(fill));
  }
  clearInterval(beats);
  for (const http of clients) http.close();
  clients = await open(job); // servers close connections that were idle for that long
  meter.figures['filled with, messages/s'] = (things + REFERENCE_DEPTH) / ((performance.now() - from) / 1_000);

  const pushAndPop = async (http: HttpConnection, path: string): Promise<void> => {
    await post(http, `${path}/messages`, { messages: [{ body: 0 }] });
    const { items } = (await post(http, `${path}/pop`, {})) as { items: unknown[] };
    if (items.length !== 1) meter.violation(`a pop gave ${items.length} messages`);
  };
  const claimAndAck = async (http: HttpConnection, path: string): Promise<void> => {
    await post(http, `${path}/messages`, { messages: [{ body: 0 }] });
    const { items } = (await post(http, `${path}/claim`, {}, withLease)) as { items: { claimId: string }[] };
    await post(http, `${path}/ack`, { claimIds: [items[0]?.claimId] }, withLease);
  };
  /** @returns operations per second */
  const slice = async (
    operation: (http: HttpConnection, path: string) => Promise<void>,
    size: number,
    ms: number,
  ): Promise<number> => {
    const startedAt = performance.now();
    let done = 0;
    await Promise.all(
      clients.map(async (http) => {
        while (performance.now() - startedAt < ms) {
          const began = performance.now();
          await operation(http, pathOf(size));
          done += 1;
          if (size === things) meter.done(began);
        }
      }),
    );
    return done / ((performance.now() - startedAt) / 1_000);
  };
  await slice(pushAndPop, REFERENCE_DEPTH, job.warmUpSeconds * 1_000);
  await slice(claimAndAck, REFERENCE_DEPTH, job.warmUpSeconds * 1_000);
  await fourLetterWord(target.zooKeeperPort, 'srst');
  meter.begin();
  const sliceMs = (job.seconds * 1_000) / (SLICES * 4);
  for (const [name, operation] of Object.entries({ 'push and pop': pushAndPop, 'claim and ack': claimAndAck })) {
    const ratios: number[] = [];
    for (let i = 0; i < SLICES; i += 1) {
      const reference = await slice(operation, REFERENCE_DEPTH, sliceMs);
      ratios.push((await slice(operation, things, sliceMs)) / reference);
    }
    meter.figures[`${name}, of the rate at ${REFERENCE_DEPTH}`] = median(ratios);
  }
  meter.end();
  const counters = await fourLetterWord(target.zooKeeperPort, 'mntr');
  const largest = Number(/^zk_max_client_response_size\s+(\d+)$/m.exec(counters)?.[1]);
  meter.figures['largest reply of ZooKeeper, KiB'] = largest / 1_024;

  for (const http of clients) http.close();
  await restart();
  clients = await open(job);
  await metricsOf(target.port); // begins the count of the event loop's delays anew
  const coldFrom = performance.now();
  parsed(await (clients[0] as HttpConnection).send(requestText('POST', `${pathOf(things)}/pop`, headers, '{}')), 200);
  meter.figures['first pop, ms'] = performance.now() - coldFrom;
  meter.figures['stall of the event loop, ms'] =
    sumOf(await metricsOf(target.port), 'postern_nodejs_eventloop_lag_max_seconds') * 1_000;
  for (const http of clients) http.close();
}

function open(job: Job): Promise<HttpConnection[]> {
  return Promise.all(Array.from({ length: job.clients }, () => HttpConnection.open(job.target.port)));
}
