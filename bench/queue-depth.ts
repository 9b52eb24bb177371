/**
 * What the depth of a queue costs: push, pop, claim and acknowledge at queues of several depths, in turns within one
 * run, and the first pop of a replica that has just started on the deepest one. And what a hundred priorities in use
 * cost.
 *
 *   npx tsx bench/queue-depth.ts [--depths 100,1000,10000,100000,1000000] [--rounds 5] [--operations 1000]
 *                            [--clients 16] [--heap 4g]
 *
 * Starts a ZooKeeper and gateways of its own (built code: run `npm run build` first) on loopback and stops them at the
 * end. Median and p99 are of single requests over all rounds; `against the second` divides medians of rounds by those
 * of the second depth, round by round.
 *
 * Seen on two cores shared by all processes, 16 clients, ZooKeeper 3.9.5, medians at 1 000 and at 1 000 000 messages:
 * push 5.4 and 6.2 ms, pop 5.6 and 4.8, claim 7.7 and 6.0, ack 8.3 and 7.5; 2 300 to 2 700 pushes or pops and 1 700 to
 * 2 300 claims a second at every depth from 100 on, and 35 700 messages a second pushed a thousand at a time. First pop
 * of a new replica on 1 000 000 messages: 42 ms, with no stall of the event loop above 12 ms; its memory 126 MiB. A
 * hundred priorities: 1.35 times the cost of one.
 */
import { parseArgs } from 'node:util';
import { Pool } from 'undici';
import { usage } from './processes.js';
import { startPostern, startZooKeeper, type Postern } from './servers.js';
import { median, quantile } from './statistics.js';

const { values } = parseArgs({
  options: {
    depths: { type: 'string', default: '100,1000,10000,100000,1000000' },
    rounds: { type: 'string', default: '5' },
    operations: { type: 'string', default: '1000' },
    clients: { type: 'string', default: '16' },
    heap: { type: 'string', default: '4g' },
  },
});
const DEPTHS = values.depths.split(',').map(Number);
const ROUNDS = Number(values.rounds);
const OPERATIONS = Number(values.operations);
const CLIENTS = Number(values.clients);
const FILL_AT_ONCE = 1_000;
const FILLERS = 2;
/** In the comparison of priorities. */
const PRIORITY_MESSAGES = 2_000;

const zookeeper = await startZooKeeper({ heap: values.heap, onDisk: true, config: { snapCount: '1000000' } });
let gateway = await startGateway();
const pool = new Pool(`http://127.0.0.1:${gateway.port}`, { connections: 128, pipelining: 1 });

type Op = 'push' | 'pop' | 'claim' | 'ack';
const OPS: readonly Op[] = ['push', 'pop', 'claim', 'ack'];

interface Measured {
  /** ms of single requests, by round. */
  times: number[][];
  /** Requests per second, by round. */
  rates: number[];
}

try {
  const { leaseToken } = (await call('POST', '/v1/leases', { ttlMs: 30_000 })) as { leaseToken: string };
  const heartbeat = setInterval(() => void call('POST', '/v1/leases/self/heartbeat', undefined, leaseToken), 5_000);
  const fillRates: number[] = [];
  for (const depth of DEPTHS) fillRates.push(await fill(depth));
  console.log(
    `ZooKeeper ${zookeeper.version}; ${CLIENTS} clients, ${OPERATIONS} requests of each kind in each of ${ROUNDS} rounds`,
  );
  await round(DEPTHS[0] as number, leaseToken, new Map()); // warm-up
  const results = DEPTHS.map(() => new Map<Op, Measured>());
  const memory: number[] = [];
  for (let i = 0; i < ROUNDS; i += 1)
    for (const [j, depth] of DEPTHS.entries()) {
      await round(depth, leaseToken, results[j] as Map<Op, Measured>);
      memory[j] = usage(gateway.process.pid as number).rssKiB;
    }
  clearInterval(heartbeat);
  await comparePriorities();
  const reference = results[1] ?? results[0];
  for (const op of OPS) {
    console.log(op);
    console.table(
      DEPTHS.map((depth, j) => {
        const { times, rates } = results[j]?.get(op) as Measured;
        const all = times.flat();
        const other = (reference?.get(op) as Measured).times;
        return {
          depth,
          'per second': Math.round(median(rates)),
          'median, ms': digits(median(all)),
          'p99, ms': digits(quantile(all, 0.99)),
          'against the second': digits(median(times.map((some, i) => median(some) / median(other[i] as number[])))),
          'replica, MiB': Math.round((memory[j] ?? 0) / 1024),
          ...(op === 'push' ? { 'bulk push, messages/s': Math.round(fillRates[j] as number) } : {}),
        };
      }),
    );
  }
  const deepest = Math.max(...DEPTHS);
  gateway.process.kill('SIGKILL');
  gateway = await startGateway(gateway.port);
  await metrics(); // begins the count of the event loop's delays anew
  const from = performance.now();
  await call('POST', `/v1/queues/depth-${deepest}/pop`, {});
  const firstPopMs = performance.now() - from;
  console.table({
    'cold start on, messages': deepest,
    'first pop, ms': digits(firstPopMs),
    'longest stall of the event loop, ms': digits(
      metricOf(await metrics(), 'postern_nodejs_eventloop_lag_max_seconds') * 1_000,
    ),
    'memory of the replica, MiB': Math.round(usage(gateway.process.pid as number).rssKiB / 1024),
  });
} finally {
  await pool.destroy();
  gateway.process.kill('SIGKILL');
  await zookeeper.stop();
}

/** Emptying a queue whose messages have one priority, against one with a hundred, in turns. */
async function comparePriorities(): Promise<void> {
  const counts = [1, 100];
  for (const count of counts) {
    const response = await pool.request({
      method: 'PUT',
      path: `/v1/queues/priorities-${count}`,
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ order: 'priority' }),
    });
    await response.body.dump();
  }
  const rates = counts.map((): number[] => []);
  for (let i = 0; i < ROUNDS; i += 1) {
    for (const [j, count] of counts.entries()) {
      const path = `/v1/queues/priorities-${count}`;
      for (let pushed = 0; pushed < PRIORITY_MESSAGES; pushed += FILL_AT_ONCE) {
        // One push has messages of all priorities.
        const messages = Array.from({ length: FILL_AT_ONCE }, (_, k) => ({ body: k, priority: k % count }));
        await call('POST', `${path}/messages`, { messages });
      }
      const from = performance.now();
      let left = PRIORITY_MESSAGES;
      await Promise.all(
        Array.from({ length: CLIENTS }, async () => {
          for (; left > 0; await call('POST', `${path}/pop`, {})) left -= 1;
        }),
      );
      rates[j]?.push(PRIORITY_MESSAGES / ((performance.now() - from) / 1_000));
    }
  }
  console.log('emptying a queue');
  console.table(
    counts.map((count, j) => ({
      priorities: count,
      'pops per second': Math.round(median(rates[j] as number[])),
      'times the cost of one': digits(
        median((rates[j] as number[]).map((rate, i) => ((rates[0] as number[])[i] as number) / rate)),
      ),
    })),
  );
}

/** @returns messages per second */
async function fill(depth: number): Promise<number> {
  const from = performance.now();
  let left = depth;
  await Promise.all(
    Array.from({ length: FILLERS }, async () => {
      while (left > 0) {
        const count = Math.min(FILL_AT_ONCE, left);
        left -= count;
        const messages = Array.from({ length: count }, (_, i) => ({ body: i }));
        await call('POST', `/v1/queues/depth-${depth}/messages`, { messages });
      }
    }),
  );
  return depth / ((performance.now() - from) / 1_000);
}

/** Each kind of request once through; the depth is the same afterwards. */
async function round(depth: number, leaseToken: string, into: Map<Op, Measured>): Promise<void> {
  const path = `/v1/queues/depth-${depth}`;
  const claimIds: string[] = [];
  const push = (): Promise<unknown> => call('POST', `${path}/messages`, { messages: [{ body: 0 }] });
  await measure('push', into, push);
  await measure('pop', into, () => call('POST', `${path}/pop`, {}));
  await measure('push', new Map(), push);
  await measure('claim', into, async () => {
    const { items } = (await call('POST', `${path}/claim`, {}, leaseToken)) as { items: { claimId: string }[] };
    claimIds.push((items[0] as { claimId: string }).claimId);
  });
  await measure('ack', into, () => call('POST', `${path}/ack`, { claimIds: [claimIds.pop()] }, leaseToken));
}

async function measure(op: Op, into: Map<Op, Measured>, request: () => Promise<unknown>): Promise<void> {
  const times: number[] = [];
  const from = performance.now();
  let left = OPERATIONS;
  await Promise.all(
    Array.from({ length: CLIENTS }, async () => {
      while (left > 0) {
        left -= 1;
        const sentAt = performance.now();
        await request();
        times.push(performance.now() - sentAt);
      }
    }),
  );
  const measured = into.get(op) ?? { times: [], rates: [] };
  measured.times.push(times);
  measured.rates.push(OPERATIONS / ((performance.now() - from) / 1_000));
  into.set(op, measured);
}

async function call(method: 'POST' | 'GET', path: string, body?: unknown, leaseToken?: string): Promise<unknown> {
  const response = await pool.request({
    method,
    path,
    headers: { 'content-type': 'application/json', ...(leaseToken === undefined ? {} : { 'lease-token': leaseToken }) },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const text = await response.body.text();
  if (response.statusCode !== 200 && response.statusCode !== 201)
    throw new Error(`${method} ${path} was answered ${response.statusCode}: ${text}`);
  return JSON.parse(text);
}

async function metrics(): Promise<string> {
  return (await pool.request({ method: 'GET', path: '/metrics' })).body.text();
}

function startGateway(port?: number): Promise<Postern> {
  const settings = { POSTERN_LOG_LEVEL: 'warn' };
  return startPostern({ zooKeeperPort: zookeeper.port, settings, ...(port === undefined ? {} : { port }) });
}

function digits(value: number): number {
  return Math.round(value * 100) / 100;
}

function metricOf(text: string, name: string): number {
  return Number(new RegExp(`^${name} (\\S+)$`, 'm').exec(text)?.[1]);
}
