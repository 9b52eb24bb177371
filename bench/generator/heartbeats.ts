/**
 * Heartbeats of many leases over few connections. With a second replica each beat of a lease goes through the other one
 * than the last.
 */
import { HttpConnection, requestText } from './http-connection.js';
import type { Job, Target } from './job.js';
import { etcdLease, parsed, posternHeaders, posternLease } from './lock-clients.js';
import type { Meter } from './meter.js';

const TTL_MS = 120_000;

export async function heartbeats(job: Job, meter: Meter): Promise<void> {
  const { target } = job;
  const connections = await Promise.all(
    Array.from({ length: job.clients }, async () => [
      await HttpConnection.open(target.port),
      ...(target.otherPort === undefined ? [] : [await HttpConnection.open(target.otherPort)]),
    ]),
  );
  const perConnection = Math.ceil(job.things / job.clients);
  const work = connections.map(async (replicas) => {
    const first = replicas[0] as HttpConnection;
    const requests: string[] = [];
    for (let i = 0; i < perConnection; i += 1) requests.push(await beatRequest(first, target));
    let turn = replicas.length - 1;
    return async () => {
      while (!meter.over) {
        // All leases of the connection once through one replica, then once through the next.
        const http = replicas[turn % replicas.length] as HttpConnection;
        turn += 1;
        for (const request of requests) {
          if (meter.over) break;
          const from = performance.now();
          try {
            checkBeat(parsed(await http.send(request), 200), target);
            meter.done(from);
          } catch (error) {
            meter.error(error);
          }
        }
      }
      for (const http of replicas) http.close();
    };
  });
  const loops = (await Promise.all(work)).map((loop) => loop());
  await meter.run();
  await Promise.all(loops);
}

async function beatRequest(http: HttpConnection, target: Target): Promise<string> {
  if (target.system === 'etcd')
    return requestText('POST', '/v3/lease/keepalive', '', `{"ID":"${await etcdLease(http, TTL_MS)}"}`);
  const headers = `${posternHeaders(target)}Lease-Token: ${await posternLease(http, target, TTL_MS)}\r\n`;
  return requestText('POST', '/v1/leases/self/heartbeat', headers);
}

/** etcd says of a lease that has ended that it lives for no time, with status 200. */
function checkBeat(answer: unknown, target: Target): void {
  const alive =
    target.system === 'etcd'
      ? Number((answer as { result?: { TTL?: string } }).result?.TTL) > 0
      : (answer as { ttlMs: number; lost: unknown[] }).ttlMs > 0 && (answer as { lost: unknown[] }).lost.length === 0;
  if (!alive) throw new Error(`the lease has ended: ${JSON.stringify(answer)}`);
}
