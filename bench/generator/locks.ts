/**
 * Locks taken and given back, by clients that do nothing else (closed loop) or at a given rate (open loop: times count
 * from when a pair was to begin). Checked on the way: one holder at once (which can show only where it is held for a
 * time), and fencing tokens that grow.
 */
import { metricsOf, sumOf } from './exposition.js';
import type { Job } from './job.js';
import { lockClient, type LockClient } from './lock-clients.js';
import { sleep, type Meter } from './meter.js';

const OPEN_LOOP_TICK_MS = 1;

interface Watched {
  holder: number | undefined;
  lastToken: number;
}

export async function locks(job: Job, meter: Meter): Promise<void> {
  const clients = await Promise.all(Array.from({ length: job.clients }, () => lockClient(job.target)));
  const watched = Array.from({ length: job.things }, (): Watched => ({ holder: undefined, lastToken: 0 }));
  const pair = (client: LockClient, i: number, from: number): Promise<void> =>
    onePair(client, { i, lock: i % job.things, from, holdMs: job.holdMs }, watched[i % job.things] as Watched, meter);

  const before = await zooKeeperRequests(job);
  const work =
    job.rate === undefined
      ? clients.map(async (client, i) => {
          while (!meter.over) await pair(client, i, performance.now());
        })
      : [openLoop(clients, job.rate, meter, pair)];
  await meter.run();
  await Promise.all(work);
  if (before !== undefined) {
    const requests = ((await zooKeeperRequests(job)) ?? NaN) - before;
    meter.figures['ZooKeeper requests / pair'] = requests / meter.total;
  }
  await Promise.all(clients.map((client) => client.close()));
}

/** That the gateway made so far. */
async function zooKeeperRequests({ target }: Job): Promise<number | undefined> {
  if (target.system !== 'postern' && target.system !== 'baseline') return undefined;
  return sumOf(await metricsOf(target.port), 'postern_zookeeper_request_duration_seconds_count');
}

interface Pair {
  /** Of the client. */
  readonly i: number;
  readonly lock: number;
  /** When it was due, on the monotonic clock. */
  readonly from: number;
  readonly holdMs: number | undefined;
}

async function onePair(
  client: LockClient,
  { i, lock, from, holdMs }: Pair,
  watched: Watched,
  meter: Meter,
): Promise<void> {
  try {
    const token = await client.acquire(String(lock));
    if (watched.holder !== undefined) meter.violation(`lock ${lock} is held by ${watched.holder} and ${i} at once`);
    if (token !== 0 && token <= watched.lastToken)
      meter.violation(`lock ${lock}: fencing token ${token} after ${watched.lastToken}`);
    watched.holder = i;
    watched.lastToken = token;
    if (holdMs !== undefined && holdMs > 0) await sleep(holdMs);
    // From here on it may be another's: the answer to the release may come later than that to the next one in line.
    watched.holder = undefined;
    await client.release();
    meter.done(from);
  } catch (error) {
    meter.error(error);
    await sleep(10); // a server that refuses everything is not to be asked as fast as that goes
  }
}

async function openLoop(
  clients: readonly LockClient[],
  rate: number,
  meter: Meter,
  pair: (client: LockClient, i: number, from: number) => Promise<void>,
): Promise<void> {
  const free = clients.map((_, i) => i);
  const due: number[] = [];
  const running = new Set<Promise<void>>();
  const startedAt = performance.now();
  let planned = 0;
  const start = (): void => {
    while (due.length > 0 && free.length > 0) {
      const i = free.shift() as number; // the one that is free for longest: all locks take part
      const one = pair(clients[i] as LockClient, i, due.shift() as number).then(() => {
        running.delete(one);
        free.push(i);
        start();
      });
      running.add(one);
    }
  };
  while (!meter.over) {
    for (; startedAt + (planned / rate) * 1_000 <= performance.now(); planned += 1)
      due.push(startedAt + (planned / rate) * 1_000);
    start();
    await sleep(OPEN_LOOP_TICK_MS);
  }
  due.length = 0;
  await Promise.all(running);
}
