/**
 * Many leases at one replica, each heartbeated at a third of its TTL: does one end, and what do they cost? Then the
 * replica is killed and started again, and every lease is heartbeated through the new one, as fast as that goes: each
 * has to be attached anew.
 */
import { readFileSync } from 'node:fs';
import { usage } from '../processes.js';
import { metricsOf, sumOf } from './exposition.js';
import { HttpConnection, requestText } from './http-connection.js';
import type { Job } from './job.js';
import { parsed, posternHeaders, posternLease } from './lock-clients.js';
import { sleep, type Meter } from './meter.js';

const TTL_MS = 60_000;
const HEARTBEATS_PER_TTL = 3;
const SETTLE_MS = 5_000;
const SLICES_PER_ROUND = 100;

/** @param restart kills the gateway and starts it again on its port; resolves with its process id when it is ready */
export async function leases(job: Job, meter: Meter, restart: () => Promise<number>): Promise<void> {
  const { target, things } = job;
  let http = await connections(job);
  const pid = job.pids['gateway'] as number;
  // One lease and one heartbeat on each connection first: what the first of a kind costs is not theirs.
  await Promise.all(http.map((connection) => posternLease(connection, target, TTL_MS)));
  const before = usage(pid).rssKiB;
  let last = performance.now();
  const beats: string[] = [];
  let next = 0;
  await Promise.all(
    http.map(async (connection) => {
      for (let i = next++; i < things; i = next++) {
        const headers = `${posternHeaders(target)}Lease-Token: ${await posternLease(connection, target, TTL_MS)}\r\n`;
        beats[i] = requestText('POST', '/v1/leases/self/heartbeat', headers);
      }
    }),
  );
  meter.figures['leases made/s'] = things / ((performance.now() - last) / 1_000);

  meter.begin();
  let slowestMs = 0;
  const beat = async (connection: HttpConnection, request: string, from: number): Promise<void> => {
    try {
      const { ttlMs, lost } = parsed(await connection.send(request), 200) as { ttlMs: number; lost: unknown[] };
      if (ttlMs !== TTL_MS || lost.length > 0) meter.violation(`a lease of ${ttlMs} ms lost ${lost.length} holds`);
      slowestMs = Math.max(slowestMs, performance.now() - from);
      meter.done(from);
    } catch (error) {
      meter.error(error);
    }
  };
  await paced(job, http, beats, beat);
  meter.end();
  await sleep(SETTLE_MS);
  const attached = sumOf(await metricsOf(target.port), 'postern_leases_attached');
  meter.figures['attached'] = attached;
  meter.figures['memory of a lease, KiB'] = (usage(pid).rssKiB - before) / things;
  meter.figures['slowest heartbeat, ms'] = slowestMs;
  if (attached < things) meter.violation(`${attached} of ${things} leases are attached`);

  for (const connection of http) connection.close();
  await restart();
  http = await connections(job);
  const overflows = listenOverflows();
  last = performance.now();
  next = 0;
  await Promise.all(
    http.map(async (connection) => {
      for (let i = next++; i < things; i = next++) await beat(connection, beats[i] as string, performance.now());
    }),
  );
  meter.figures['attached anew within, s'] = (performance.now() - last) / 1_000;
  meter.figures['overflows of accept queues'] = listenOverflows() - overflows;
  for (const connection of http) connection.close();
}

function connections(job: Job): Promise<HttpConnection[]> {
  return Promise.all(Array.from({ length: job.clients }, () => HttpConnection.open(job.target.port)));
}

/** Every lease once per round of a third of its TTL, spread evenly over the round. */
async function paced(
  job: Job,
  http: readonly HttpConnection[],
  beats: readonly string[],
  beat: (connection: HttpConnection, request: string, from: number) => Promise<void>,
): Promise<void> {
  const roundMs = TTL_MS / HEARTBEATS_PER_TTL;
  const free = [...http];
  const due: { request: string; at: number }[] = [];
  const running = new Set<Promise<void>>();
  const start = (): void => {
    while (free.length > 0 && due.length > 0) {
      const connection = free.pop() as HttpConnection;
      const { request, at } = due.shift() as (typeof due)[number];
      const one = beat(connection, request, at).then(() => {
        running.delete(one);
        free.push(connection);
        start();
      });
      running.add(one);
    }
  };
  const startedAt = performance.now();
  for (let slice = 0; performance.now() - startedAt < job.seconds * 1_000; slice += 1) {
    const at = startedAt + (slice * roundMs) / SLICES_PER_ROUND;
    await sleep(Math.max(0, at - performance.now()));
    for (let i = slice % SLICES_PER_ROUND; i < beats.length; i += SLICES_PER_ROUND)
      due.push({ request: beats[i] as string, at });
    start();
  }
  while (running.size > 0) await Promise.all(running);
}

/** Connections that the kernel dropped because a server did not accept them in time, on the whole machine. */
function listenOverflows(): number {
  const [names = '', values = ''] = readFileSync('/proc/net/netstat', 'utf8')
    .split('\n')
    .filter((line) => line.startsWith('TcpExt:'));
  return Number(values.split(' ')[names.split(' ').indexOf('ListenOverflows')]);
}
