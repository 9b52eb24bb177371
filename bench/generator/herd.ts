/**
 * A line of waiters that is let go: each that gets the lock gives it back at once. Measured from the holder's release
 * to the last one's: what a hand-off costs ZooKeeper, and the time. The comparison is the naive client that all
 * textbooks warn of: everybody watches the one node and tries to make it when it is gone.
 */
import { getJson, metricsOf, sumOf } from './exposition.js';
import { HttpConnection, requestText } from './http-connection.js';
import type { Job } from './job.js';
import { expect, parsed, posternHeaders, posternLease } from './lock-clients.js';
import { sleep, type Meter } from './meter.js';
import { CODE, FLAGS, ZooKeeperConnection } from './zookeeper-connection.js';

const WAIT_MS = 50_000;
const LINE_UP_WITHIN_MS = 45_000;
const POLL_MS = 100;
/** Connects under way at once: ZooKeeper's accept queue holds 50. */
const AT_ONCE = 32;

const REQUESTS = 'postern_zookeeper_request_duration_seconds_count';
const WORTH_A_COLUMN = 0.05;

export async function herd(job: Job, meter: Meter): Promise<void> {
  await (job.target.system === 'zookeeper' ? naive(job, meter) : postern(job, meter));
}

async function postern(job: Job, meter: Meter): Promise<void> {
  const { target, things } = job;
  const path = `/v1/locks/${target.names}herd`;
  const contenders = await inTurns(things + 1, async () => {
    const http = await HttpConnection.open(target.port);
    const headers = `${posternHeaders(target)}Lease-Token: ${await posternLease(http, target)}\r\n`;
    return { http, headers };
  });
  const [holder, ...waiters] = contenders as [(typeof contenders)[number], ...typeof contenders];
  const acquire = ({ http, headers }: typeof holder) =>
    http.send(requestText('POST', `${path}/acquire`, headers, `{"waitMs":${WAIT_MS}}`));
  const release = async ({ http, headers }: typeof holder, holdId: string) =>
    expect(await http.send(requestText('POST', `${path}/release`, headers, `{"holdId":"${holdId}"}`)), 204);

  const held = parsed(await acquire(holder), 200) as { holdId: string };
  let holders = 1;
  let granted = 0;
  const drained = waiters.map(async (waiter) => {
    const answer = await acquire(waiter);
    const grant = parsed(answer, 200) as { held: boolean; holdId: string };
    if (!grant.held) throw new Error(`waited in vain: ${answer.body}`);
    granted += 1;
    holders += 1;
    if (holders > 1) meter.violation(`${holders} holders at once`);
    const from = performance.now();
    holders -= 1;
    await release(waiter, grant.holdId);
    meter.done(from);
  });
  const settled = Promise.allSettled(drained); // a failure while they line up is told below
  const observer = await HttpConnection.open(target.port);
  await untilLinedUp(things, async () => {
    const line = (await getJson(observer, path, posternHeaders(target))) as { waiterCount: number };
    return line.waiterCount;
  });

  const before = await metricsOf(target.port);
  meter.begin();
  const from = performance.now();
  holders -= 1;
  await release(holder, held.holdId);
  await settled;
  const drainMs = performance.now() - from;
  meter.end();
  const after = await metricsOf(target.port);
  for (const one of await settled) if (one.status === 'rejected') meter.error(one.reason);
  if (granted !== things) meter.violation(`${granted} of ${things} waiters got the lock`);
  countPerHandOff(before, after, things, meter);
  meter.figures['drain, s'] = drainMs / 1_000;
  for (const { http, headers } of contenders) {
    expect(await http.send(requestText('DELETE', '/v1/leases/self', headers)), 204);
    http.close();
  }
  observer.close();
}

/** @param before the metrics of the replica before the line was let go */
function countPerHandOff(before: string, after: string, handOffs: number, meter: Meter): void {
  const grown = (name: string, label?: string): number =>
    (sumOf(after, name, label) - sumOf(before, name, label)) / handOffs;
  meter.figures['events / hand-off'] = grown('postern_watch_events_total');
  meter.figures['ZooKeeper requests / hand-off'] = grown(REQUESTS);
  // No line is let go without them.
  if (grown(REQUESTS) === 0) meter.violation('no request to ZooKeeper was counted');
  for (const op of opsOf(after)) {
    const perHandOff = grown(REQUESTS, `op="${op}"`);
    if (perHandOff >= WORTH_A_COLUMN) meter.figures[`of them ${op}`] = perHandOff;
  }
}

function opsOf(metrics: string): string[] {
  return [...metrics.matchAll(/^postern_zookeeper_request_duration_seconds_count\{op="(\w+)"\}/gm)].map(
    ([, op]) => op as string,
  );
}

async function naive(job: Job, meter: Meter): Promise<void> {
  const { target, things } = job;
  const path = `/${target.names}herd`;
  const [holder, ...waiters] = (await inTurns(things + 1, () => ZooKeeperConnection.open(target.port))) as [
    ZooKeeperConnection,
    ...ZooKeeperConnection[],
  ];
  await holder.create(path, FLAGS.ephemeral);
  let events = 0;
  let requests = 0;
  let watching = 0;
  let holders = 1;
  const drained = waiters.map(async (waiter) => {
    for (;;) {
      let gone = (): void => {};
      const change = new Promise<void>((resolve) => (gone = resolve));
      requests += 1;
      if (await waiter.existsAndWatch(path, gone)) {
        watching += 1;
        await change;
        events += 1;
        watching -= 1;
      }
      requests += 1;
      const made = await waiter.create(path, FLAGS.ephemeral);
      if (made === CODE.nodeExists) continue;
      if (typeof made === 'number') throw new Error(`the creation was refused with ${made}`);
      holders += 1;
      if (holders > 1) meter.violation(`${holders} holders at once`);
      const from = performance.now();
      holders -= 1;
      requests += 1;
      await waiter.delete(path);
      meter.done(from);
      return;
    }
  });
  await untilLinedUp(things, async () => watching);
  requests = 0;
  meter.begin();
  const from = performance.now();
  holders -= 1;
  await holder.delete(path);
  await Promise.all(drained);
  meter.figures['drain, s'] = (performance.now() - from) / 1_000;
  meter.end();
  meter.figures['events / hand-off'] = events / things;
  meter.figures['ZooKeeper requests / hand-off'] = requests / things;
  for (const session of [holder, ...waiters]) session.close();
}

/** Few at once, in the order of their numbers. */
export async function inTurns<T>(count: number, one: (i: number) => Promise<T>, atOnce = AT_ONCE): Promise<T[]> {
  const all: T[] = [];
  let next = 0;
  await Promise.all(
    Array.from({ length: Math.min(atOnce, count) }, async () => {
      for (let i = next++; i < count; i = next++) all[i] = await one(i);
    }),
  );
  return all;
}

export async function untilLinedUp(
  count: number,
  inLine: () => Promise<number>,
  withinMs = LINE_UP_WITHIN_MS,
): Promise<void> {
  let last = 0;
  for (const deadline = performance.now() + withinMs; performance.now() < deadline; await sleep(POLL_MS)) {
    last = await inLine();
    if (last === count) return;
  }
  throw new Error(`${last} of ${count} waiters are in line after ${withinMs / 1_000} s`);
}
