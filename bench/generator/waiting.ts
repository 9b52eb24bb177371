/**
 * What a waiting request costs in memory, with its connection: many wait, nothing happens. The server is fresh and has
 * nothing else to do.
 */
import { usage } from '../processes.js';
import { metricsOf, sumOf } from './exposition.js';
import { inTurns, untilLinedUp } from './herd.js';
import { HttpConnection, requestText, type Answer } from './http-connection.js';
import type { Job } from './job.js';
import { base64, etcdLease, expect, parsed, posternHeaders, posternLease } from './lock-clients.js';
import { sleep, type Meter } from './meter.js';

/** Sessions have a memory of their own (H3): few leases wait often, each time under another request id. */
const LEASES = 100;
const WAITERS_PER_LOCK = 100;
const WAIT_MS = 600_000;
const LINE_UP_WITHIN_MS = 300_000;
/** Each waiter of etcd is a lease and ten times as much memory. */
const ETCD_WAITERS_MAX = 2_000;
const SETTLE_MS = 10_000;
const SAMPLE_MS = 500;
const OVERLOADED = 503;
const AGAIN_MS = 250;

export async function waiting(job: Job, meter: Meter): Promise<void> {
  await (job.target.system === 'etcd' ? etcd(job, meter) : postern(job, meter));
}

async function postern(job: Job, meter: Meter): Promise<void> {
  const { target, things } = job;
  const http = await HttpConnection.open(target.port);
  const leases: string[] = [];
  for (let i = 0; i <= LEASES; i += 1) leases.push(await posternLease(http, target));
  const headers = (i: number): string => `${posternHeaders(target)}Lease-Token: ${leases[i] as string}\r\n`;
  const acquire = (lock: number, lease: number, body: object): string =>
    requestText('POST', `/v1/locks/${target.names}${lock}/acquire`, headers(lease), JSON.stringify(body));
  const locks = Math.ceil(things / WAITERS_PER_LOCK);
  for (let lock = 0; lock < locks; lock += 1) parsed(await http.send(acquire(lock, LEASES, {})), 200);

  await measure(job, meter, 'gateway', things, async () => {
    const connections = await inTurns(things, () => HttpConnection.open(target.port));
    for (const [i, connection] of connections.entries()) {
      const request = acquire(i % locks, i % LEASES, { waitMs: WAIT_MS, requestId: `w${i}` });
      void untilAnswered(connection, request).then(
        (answer) => meter.error(`answered before its time: ${answer.status} ${answer.body.slice(0, 200)}`),
        () => {}, // closed at the end
      );
    }
    const inLine = async (): Promise<number> => sumOf(await metricsOf(target.port), 'postern_waiters', 'kind="lock"');
    await untilLinedUp(things, inLine, LINE_UP_WITHIN_MS);
    return connections;
  });
  http.close();
}

/** As a client does that is told to come again: all of them at once are more than a busy server takes. */
async function untilAnswered(connection: HttpConnection, request: string): Promise<Answer> {
  for (;;) {
    const answer = await connection.send(request);
    if (answer.status !== OVERLOADED) return answer;
    await sleep(AGAIN_MS);
  }
}

async function etcd(job: Job, meter: Meter): Promise<void> {
  const { target } = job;
  const waiters = Math.min(job.things, ETCD_WAITERS_MAX);
  const http = await HttpConnection.open(target.port);
  const leases = await inTurns(waiters + 1, () => etcdLease(http).then((lease) => lease), 1);
  const lock = (i: number): string =>
    requestText('POST', '/v3/lock/lock', '', JSON.stringify({ name: base64(target.names), lease: leases[i] }));
  expect(await http.send(lock(waiters)), 200);
  await measure(job, meter, 'store', waiters, async () => {
    const connections = await inTurns(waiters, () => HttpConnection.open(target.port));
    for (const [i, connection] of connections.entries()) {
      void connection.send(lock(i)).then(
        (answer) => meter.error(`answered before its time: ${answer.status} ${answer.body.slice(0, 200)}`),
        () => {},
      );
    }
    const prefix = base64(`${target.names}/`);
    const range = requestText(
      'POST',
      '/v3/kv/range',
      '',
      JSON.stringify({ key: prefix, range_end: base64(`${target.names}0`), count_only: true }),
    );
    const inLine = async (): Promise<number> =>
      Number((parsed(await http.send(range), 200) as { count?: string }).count ?? 0) - 1;
    await untilLinedUp(waiters, inLine, LINE_UP_WITHIN_MS);
    return connections;
  });
  http.close();
}

/** Memory before and after, each when it has settled: a garbage collector has no reason to hurry. */
async function measure(
  job: Job,
  meter: Meter,
  role: string,
  waiters: number,
  lineUp: () => Promise<HttpConnection[]>,
): Promise<void> {
  const pid = job.pids[role] as number;
  const before = await settled(pid);
  meter.begin();
  const from = performance.now();
  const connections = await lineUp();
  meter.done(from, waiters);
  const full = await settled(pid);
  meter.end();
  meter.figures['waiters'] = waiters;
  meter.figures['memory of a waiter, KiB'] = (full - before) / waiters;
  meter.figures['memory with all of them, MiB'] = full / 1_024;
  for (const connection of connections) connection.close();
}

async function settled(pid: number): Promise<number> {
  let least = Infinity;
  for (const until = performance.now() + SETTLE_MS; performance.now() < until; await sleep(SAMPLE_MS))
    least = Math.min(least, usage(pid).rssKiB);
  return least;
}
