/**
 * One replica on several cores: its workers serve one port, tell of themselves together, and one that dies takes
 * nothing with it.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { copyFile, mkdtemp, readFile, rename, rm } from 'node:fs/promises';
import { createServer, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { Client, type LeaseHandle } from '../support/http/client.js';
import { eventually } from '../support/eventually.js';
import { spawnReplica, type ReplicaProcess } from '../support/start-gateway.js';
import { sharedZooKeeper } from '../support/start-zookeeper.js';
import { scaled, timing } from '../support/timing.js';

const WORKERS = 2;
const TTL_MS = 20_000;
/** Each starts three processes, and some start others again. */
const LIMIT = { timeout: scaled(60_000) };
const MAIN = new URL('../../dist/main.js', import.meta.url).pathname;

async function startWorkers(settings: Record<string, string> = {}): Promise<ReplicaProcess> {
  const replica = await spawnReplica({ settings: { POSTERN_WORKERS: String(WORKERS), ...settings } });
  await eventually('all workers are there', () => replica.output.includes('all workers listening'));
  return replica;
}

/** The workers of a replica, by process id. */
async function workersOf({ pid }: Pick<ReplicaProcess, 'pid'>): Promise<number[]> {
  const text = await readFile(`/proc/${pid}/task/${pid}/children`, 'utf8');
  return text.split(' ').filter(Boolean).map(Number);
}

async function metric(replica: Client, name: string, labels = ''): Promise<number> {
  const { body } = await replica.call('GET', '/metrics');
  const line = String(body)
    .split('\n')
    .find((one) => one.startsWith(`${name}${labels} `));
  return Number(line?.split(' ').at(-1));
}

/** So many connections that both workers have some. */
function clientsOf(replica: ReplicaProcess): Client[] {
  return Array.from({ length: 4 * WORKERS }, () => new Client(replica.url));
}

/** A request of each client that waits for a lock which somebody else holds. */
async function beginWaits(
  replica: ReplicaProcess,
  clients: readonly Client[],
  options: { keepPlace?: boolean } = {},
): Promise<ReturnType<Client['acquire']>[]> {
  const holder = await replica.createLease({ ttlMs: TTL_MS });
  await replica.hold('draining', holder);
  const leases = await Promise.all(clients.map((client) => client.createLease({ ttlMs: TTL_MS })));
  const waiting = clients.map((client, i) =>
    client.acquire('draining', leases[i] as LeaseHandle, { waitMs: 30_000, ...options }),
  );
  await eventually(
    'all wait',
    async () => (await metric(replica, 'postern_waiters', '{kind="lock"}')) === clients.length,
  );
  return waiting;
}

/** How often its processes said that they begin to stop. */
function timesStopping({ output }: ReplicaProcess): number {
  return output.split('"msg":"stopping"').length - 1;
}

async function dispose(clients: readonly Client[]): Promise<void> {
  for (const client of clients) await client[Symbol.asyncDispose]();
}

test('workers serve one port, and tell of themselves as one replica', LIMIT, async () => {
  await using replica = await startWorkers();
  const clients = clientsOf(replica);
  const leases = await Promise.all(clients.map((client) => client.createLease({ ttlMs: TTL_MS })));
  await eventually('all leases are told of by whichever worker is asked', async () => {
    const told = await Promise.all(clients.map((client) => metric(client, 'postern_leases_attached')));
    return told.every((count) => count === clients.length);
  });
  expect(await metric(replica, 'postern_zookeeper_connected')).toBe(1);
  const [holder, ...others] = leases;
  const waited = new AbortController();
  if (holder === undefined) throw new Error('no lease');
  await clients[0]?.hold('busy', holder);
  const { signal } = waited;
  const waiting = others.map((lease, i) =>
    (clients[i + 1] as Client).acquire('busy', lease, { waitMs: 30_000 }, { signal }).catch(() => 'left'),
  );
  await eventually('every worker knows of all waits', async () => {
    const reply = await replica.call('GET', '/v1/contention');
    return (reply.body as { items: { waiting: number }[] }).items[0]?.waiting === others.length;
  });
  await eventually('so does whoever asks all replicas, of which this is one', async () => {
    const { body } = await replica.call('GET', '/v1/contention?scope=all');
    const { replicas, items } = body as { replicas: unknown; items: { waiting: number }[] };
    expect(replicas).toEqual({ asked: 1, answered: 1, silent: [] });
    return items[0]?.waiting === others.length;
  });
  await eventually(
    'so do the metrics, a second later at the latest',
    async () => (await metric(replica, 'postern_waiters', '{kind="lock"}')) === others.length,
  );
  waited.abort();
  expect(await Promise.all(waiting)).toEqual(others.map(() => 'left'));
  expect((await replica.call('GET', '/v1/status')).body).toMatchObject({ limits: { workers: WORKERS } });
  await dispose(clients);
});

test('a worker that is killed loses no lease and no lock, and another one takes its place', LIMIT, async () => {
  await using replica = await startWorkers();
  const clients = clientsOf(replica);
  const held = await Promise.all(
    clients.map(async (client, i) => {
      const lease = await client.createLease({ ttlMs: TTL_MS });
      return { client, lease, name: `kept-${i}`, hold: await client.hold(`kept-${i}`, lease) };
    }),
  );
  const before = await workersOf(replica);
  expect(before).toHaveLength(WORKERS);
  // Connections come all the time, also while the listener still believes in the one that has died.
  let over = false;
  const coming = (async () => {
    while (!over) {
      const client = new Client(replica.url);
      await client.call('GET', '/healthz').catch(() => undefined);
      await client[Symbol.asyncDispose]();
    }
  })();
  process.kill(before[0] as number, 'SIGKILL');
  await eventually('there are as many workers again', async () => {
    const now = await workersOf(replica);
    return now.length === WORKERS && !now.includes(before[0] as number);
  }).finally(() => (over = true));
  await coming;
  for (const { client, lease, name, hold } of held) {
    const again = await eventually('the same request again is answered', () =>
      client.hold(name, lease).catch(() => undefined),
    );
    expect(again).toMatchObject({ alreadyHeld: true, fencingToken: hold.fencingToken });
  }
  await eventually('the log tells of it', () => /"level":"error".*worker exited/.test(replica.output));
  await dispose(clients);
});

test('a worker that cannot be started is started later', LIMIT, async () => {
  const directory = await mkdtemp(join(tmpdir(), 'postern-node-'));
  const [node, away] = [join(directory, 'node'), join(directory, 'away')];
  await copyFile(process.execPath, node);
  const child = spawn(node, [MAIN], {
    env: { POSTERN_ZOOKEEPER: sharedZooKeeper(), POSTERN_PORT: '0', POSTERN_WORKERS: String(WORKERS) },
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  onTestFinished(async () => {
    child.kill('SIGKILL');
    await rm(directory, { recursive: true });
  });
  const exit = once(child, 'exit');
  let said = '';
  child.stdout.on('data', (chunk: Buffer) => (said += chunk.toString()));
  await eventually('all workers are there', () => said.includes('all workers listening'), {
    withinMs: timing.processMs,
  });
  const replica = { pid: child.pid as number };
  await rename(node, away);
  process.kill((await workersOf(replica))[0] as number, 'SIGKILL');
  await eventually('one is missing', () => said.includes('starting another'));
  await eventually('it cannot be started', () => said.includes('could not be started')).finally(() =>
    rename(away, node),
  );
  await eventually('there are as many workers again', async () => (await workersOf(replica)).length === WORKERS);
  child.kill('SIGTERM');
  expect(await exit).toEqual([0, null]);
});

test('a replica that is told to stop drains all its workers', LIMIT, async () => {
  await using replica = await startWorkers();
  const clients = clientsOf(replica);
  const waiting = await beginWaits(replica, clients, { keepPlace: true });
  expect(await replica.kill('SIGTERM')).toBe(0);
  for (const { status } of await Promise.all(waiting)) expect(status).toBe(202);
  await dispose(clients);
});

test('a signal to all processes of a replica drains its workers as well', LIMIT, async () => {
  await using replica = await startWorkers({ POSTERN_DRAIN_PAUSE_MS: String(scaled(2_000)) });
  const clients = clientsOf(replica);
  const waiting = await beginWaits(replica, clients);
  for (const pid of await workersOf(replica)) process.kill(pid, 'SIGTERM');
  // Now the workers get the signal a second time, from the supervisor.
  await eventually('the workers are stopping', () => timesStopping(replica) === WORKERS);
  expect(await replica.kill('SIGTERM')).toBe(0);
  for (const { status, body } of await Promise.all(waiting))
    expect({ status, body }).toMatchObject({ status: 503, body: { code: 'draining' } });
  await dispose(clients);
});

/** A process that a worker started has its channel to the supervisor, too: the worker exits before its channel ends. */
const HOLD_CHANNEL = `
  import { spawn } from 'node:child_process';
  const stdio = ['ignore', 'ignore', 'ignore', process.channel?.fd];
  if (process.channel) process.once('SIGTERM', () => spawn('sleep', ['2'], { stdio }).unref());
`;

test('a replica exits properly when a worker is gone before its channel is', LIMIT, async () => {
  await using replica = await startWorkers({
    NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(HOLD_CHANNEL)}`,
  });
  expect(await replica.kill('SIGTERM')).toBe(0);
});

test('a second signal ends a replica with all its workers at once', LIMIT, async () => {
  await using replica = await startWorkers({ POSTERN_DRAIN_PAUSE_MS: '60000' });
  process.kill(replica.pid, 'SIGTERM');
  await eventually('all are stopping', () => timesStopping(replica) === WORKERS + 1);
  const workers = await workersOf(replica);
  expect(workers).toHaveLength(WORKERS);
  const signalledAt = performance.now();
  expect(await replica.kill('SIGTERM')).toBe(0);
  expect(performance.now() - signalledAt).toBeLessThan(timing.eventuallyMs);
  for (const pid of workers) expect(() => process.kill(pid, 0)).toThrow('ESRCH');
});

/** All workers listen on the main port before one that fails at the other port ends. */
const END_TOGETHER = `
  import cluster from 'node:cluster';
  const { exit } = process;
  const listening = new Set();
  if (cluster.isPrimary)
    cluster.on('listening', ({ id }) => {
      if (listening.add(id).size === ${WORKERS}) for (const one of Object.values(cluster.workers)) one.send('all listen');
    });
  else {
    const all = new Promise((resolve) => process.on('message', (text) => text === 'all listen' && resolve()));
    process.exit = (code) => all.then(() => exit.call(process, code));
  }
`;

test.each([
  ['POSTERN_PORT', ''],
  ['POSTERN_OPS_PORT', END_TOGETHER],
])('workers that cannot listen on %s end the replica with the reason', LIMIT, async (setting, preloaded) => {
  const taken = createServer().listen(0, '127.0.0.1');
  await once(taken, 'listening');
  const child = spawn(process.execPath, [MAIN], {
    env: {
      POSTERN_ZOOKEEPER: sharedZooKeeper(),
      POSTERN_PORT: '0',
      POSTERN_WORKERS: String(WORKERS),
      NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(preloaded)}`,
      [setting]: String((taken.address() as AddressInfo).port),
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let said = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => (said += chunk.toString()));
  const exit = once(child, 'exit');
  await eventually('it ends or goes on', () => child.exitCode !== null || said.includes('starting another'), {
    withinMs: timing.processMs,
  });
  child.kill('SIGKILL');
  const [code] = (await exit) as [number | null];
  taken.close();
  expect(code).toBe(1);
  expect(said).toContain(setting);
});
