/** The servers of a measurement, each a process on the servers' core with an empty directory of its own. */
import { fork, type ChildProcess } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { openSync } from 'node:fs';
import { readFile, rm, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import {
  checkJava,
  endWithParent,
  provideZooKeeper,
  startZooKeeperServer,
  WITHOUT_WORKERS,
} from '../scripts/lib/zookeeper.mjs';
import { hashOf } from '../src/http/access/credentials.js';
import type { PlainAnswer } from './plain-server.js';
import { end, freePort, freshDirectory, pin, spawnOn, untilReady } from './processes.js';
import { PEERS } from './provide.js';

export const ROOT = fileURLToPath(new URL('..', import.meta.url));

export interface Server {
  readonly port: number;
  /** By role: `gateway` and `store`. */
  readonly pids: Readonly<Record<string, number>>;
  stop(): Promise<void>;
}

export interface ZooKeeperOptions {
  core?: number | undefined;
  heap?: string;
  /** In place of memory. */
  onDisk?: boolean;
  /** ms */
  tickTime?: number;
  config?: Record<string, string>;
}

export interface ZooKeeper extends Server {
  readonly version: string;
}

export async function startZooKeeper(options: ZooKeeperOptions = {}): Promise<ZooKeeper> {
  const { core, heap = '2g', onDisk, tickTime = 2_000, config } = options;
  const { classpath, version } = await provideZooKeeper({ cacheDir: join(ROOT, '.cache') });
  const dataDir = await freshDirectory(onDisk);
  const port = await freePort();
  const server = await startZooKeeperServer({
    java: await checkJava(),
    classpath,
    dataDir,
    clientPort: port,
    tickTime,
    // Threads are counted when it starts, before it is moved to its core.
    jvmFlags: [`-Xmx${heap}`, ...(core === undefined ? [] : ['-XX:ActiveProcessorCount=1', WITHOUT_WORKERS])],
    config: { maxClientCnxns: '0', maxSessionTimeout: '300000', ...config },
  });
  pin(server.pid, core);
  return {
    version,
    port,
    pids: { store: server.pid },
    stop: async () => {
      await server.stop({ graceMs: 2_000 });
      await rm(dataDir, { recursive: true, force: true });
    },
  };
}

export interface PosternOptions {
  zooKeeperPort: number;
  /** Default: one that is free. */
  port?: number;
  core?: number | undefined;
  /** A checkout with its own `dist`; default this one. */
  checkout?: string;
  /** Without it everybody may do everything. */
  key?: ApiKey | undefined;
  settings?: Record<string, string>;
  nodeOptions?: string | undefined;
  /** What is started of the checkout; default: the built gateway. */
  main?: string;
}

export interface Postern extends Server {
  readonly process: ChildProcess;
}

/** The built gateway as in production: log lines of every request to nowhere, metrics on. */
export async function startPostern(options: PosternOptions): Promise<Postern> {
  const { zooKeeperPort, core, checkout = ROOT, main = 'dist/main.js', key, settings, nodeOptions } = options;
  const { port = await freePort() } = options;
  const child = spawnOn(core, process.execPath, [...(await imageFlags()), join(checkout, main)], {
    env: {
      PATH: process.env['PATH'],
      NODE_OPTIONS: nodeOptions,
      POSTERN_ZOOKEEPER: `127.0.0.1:${zooKeeperPort}`,
      POSTERN_PORT: String(port),
      POSTERN_DRAIN_MS: '500',
      ...(key === undefined ? {} : { POSTERN_AUTH_FILE: key.file }),
      ...settings,
    },
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  const ready = async (): Promise<boolean> => (await fetch(`http://127.0.0.1:${port}/readyz`)).ok;
  await untilReady('the gateway', ready, child);
  return { port, process: child, pids: { gateway: child.pid as number }, stop: () => end(child, 'SIGTERM') };
}

/** Those of node with which the image starts the gateway. */
async function imageFlags(): Promise<string[]> {
  const entrypoint = /^ENTRYPOINT (\[.*\])$/m.exec(await readFile(join(ROOT, 'Dockerfile'), 'utf8'))?.[1];
  if (entrypoint === undefined) throw new Error('the Dockerfile has no ENTRYPOINT in the form of JSON');
  return (JSON.parse(entrypoint) as string[]).filter((argument) => argument.startsWith('--'));
}

export interface ApiKey {
  readonly key: string;
  readonly file: string;
}

/** @param dir where the file of keys is to lie */
export async function makeApiKey(dir: string): Promise<ApiKey> {
  const key = `postern_${randomBytes(32).toString('base64url')}`;
  const entry = { id: 'bench', hash: `sha256:${hashOf(key)}`, namespaces: '*' };
  const file = join(dir, 'keys.json');
  await writeFile(file, JSON.stringify({ keys: [entry] }));
  return { key, file };
}

export async function startEtcd(core: number | undefined, onDisk = false): Promise<Server> {
  const { command, env } = await PEERS.etcd();
  const dir = await freshDirectory(onDisk);
  const [port, peerPort] = [await freePort(), await freePort()];
  const [url, peerUrl] = [`http://127.0.0.1:${port}`, `http://127.0.0.1:${peerPort}`];
  const log = openSync(join(dir, 'log'), 'a');
  const args = [
    ...['--name', 'bench', '--data-dir', join(dir, 'data'), '--quota-backend-bytes', String(4 * 2 ** 30)],
    ...['--listen-client-urls', url, '--advertise-client-urls', url],
    ...[
      '--listen-peer-urls',
      peerUrl,
      '--initial-advertise-peer-urls',
      peerUrl,
      '--initial-cluster',
      `bench=${peerUrl}`,
    ],
  ];
  const child = spawnOn(core, command, args, { env, stdio: ['ignore', log, log] });
  await untilReady('etcd', async () => (await fetch(`${url}/health`)).ok, child);
  return { port, pids: { store: child.pid as number }, stop: () => endAndRemove(child, dir) };
}

/** One server that writes its log before it answers, as the others do (its mode for development would not). */
export async function startConsul(core: number | undefined, onDisk = false): Promise<Server> {
  const { command, env } = await PEERS.consul();
  const dir = await freshDirectory(onDisk);
  const port = await freePort();
  const config = {
    server: true,
    bootstrap_expect: 1,
    node_name: 'bench',
    data_dir: join(dir, 'data'),
    bind_addr: '127.0.0.1',
    client_addr: '127.0.0.1',
    ports: {
      http: port,
      server: await freePort(),
      serf_lan: await freePort(),
      serf_wan: -1,
      dns: -1,
      grpc: -1,
      grpc_tls: -1,
    },
    performance: { raft_multiplier: 1 },
    limits: { http_max_conns_per_client: 1_000 },
    disable_update_check: true,
    log_level: 'ERR',
  };
  const file = join(dir, 'consul.json');
  await writeFile(file, JSON.stringify(config));
  const log = openSync(join(dir, 'log'), 'a');
  const child = spawnOn(core, command, ['agent', '-config-file', file], { env, stdio: ['ignore', log, log] });
  const registered = async (): Promise<boolean> =>
    (await (await fetch(`http://127.0.0.1:${port}/v1/catalog/node/bench`)).text()).includes('"bench"');
  await untilReady('consul', registered, child);
  return { port, pids: { store: child.pid as number }, stop: () => endAndRemove(child, dir) };
}

export async function startRedis(core: number | undefined): Promise<Server> {
  const { command, env } = await PEERS.redis();
  const dir = await freshDirectory();
  const port = await freePort();
  // Every write is in a log on the same storage as the others' before it is answered.
  const args = ['--bind', '127.0.0.1', '--port', String(port), '--dir', dir, '--save', ''];
  const child = spawnOn(core, command, [...args, '--appendonly', 'yes', '--appendfsync', 'always'], {
    env,
    stdio: 'ignore',
  });
  await untilReady('redis', () => accepts(port), child);
  return { port, pids: { store: child.pid as number }, stop: () => endAndRemove(child, dir) };
}

/** With the Redis behind it. */
export async function startWebdis(core: number | undefined): Promise<Server> {
  const { command, env } = await PEERS.webdis();
  const redis = await startRedis(core);
  const dir = await freshDirectory();
  const port = await freePort();
  const file = join(dir, 'webdis.json');
  const settings = {
    redis_host: '127.0.0.1',
    redis_port: redis.port,
    http_host: '127.0.0.1',
    http_port: port,
    threads: 1,
    pool_size: 8,
    daemonize: false,
    websockets: false,
    verbosity: 0,
    logfile: join(dir, 'log'),
  };
  await writeFile(file, JSON.stringify(settings));
  const child = spawnOn(core, command, [file], { env, cwd: dir, stdio: 'ignore' });
  await untilReady('webdis', async () => (await fetch(`http://127.0.0.1:${port}/PING`)).ok, child);
  return {
    port,
    pids: { gateway: child.pid as number, ...redis.pids },
    stop: async () => {
      await endAndRemove(child, dir);
      await redis.stop();
    },
  };
}

export async function startBeanstalkd(core: number | undefined): Promise<Server> {
  const { command, env } = await PEERS.beanstalkd();
  const dir = await freshDirectory();
  const port = await freePort();
  const args = ['-l', '127.0.0.1', '-p', String(port), '-b', dir, '-f', '0'];
  const child = spawnOn(core, command, args, { env, stdio: 'ignore' });
  await untilReady('beanstalkd', () => accepts(port), child);
  return { port, pids: { store: child.pid as number }, stop: () => endAndRemove(child, dir) };
}

/** node:http that answers every request with the same bytes. */
export async function startPlainServer(core: number | undefined, answer: PlainAnswer): Promise<Server> {
  const child = fork(join(ROOT, 'bench/plain-server.ts'), { execArgv: ['--import', 'tsx'], cwd: ROOT });
  endWithParent(child);
  pin(child.pid as number, core);
  const listening = new Promise<{ port: number }>((resolve) => child.once('message', resolve));
  child.send(answer);
  const { port } = await listening;
  return { port, pids: { gateway: child.pid as number }, stop: () => end(child) };
}

function accepts(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ port, host: '127.0.0.1' });
    socket.once('error', () => resolve(false));
    socket.once('connect', () => {
      socket.destroy();
      resolve(true);
    });
  });
}

async function endAndRemove(child: ChildProcess, dir: string): Promise<void> {
  await end(child);
  await rm(dir, { recursive: true, force: true });
}
