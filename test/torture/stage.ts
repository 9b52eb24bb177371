/**
 * All that is tortured: an ensemble of three, replicas behind proxies of their own (one for each server), processes
 * full of clients.
 *
 *   clients ──HTTP──▶ replica 1 ──▶ proxy 1.1, 1.2, 1.3 ──▶ server 1 ◀──proxies──▶ server 2 ◀──proxies──▶ server 3
 *                     replica 2 ──▶ proxy 2.1, 2.2, 2.3
 *
 * All on loopback and in directories of its own, so that several may run beside each other.
 */
import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { copyFile, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { now } from '../histories/history.js';
import { SCHEDULE_SETTINGS } from '../histories/workloads/schedule.js';
import { makeApiKeys, type ApiKeys } from '../support/http/api-keys.js';
import { freePort } from '../support/free-port.js';
import { startEnsemble, type TestEnsemble } from '../support/start-zookeeper.js';
import type { TcpProxy } from '../support/zookeeper/tcp-proxy.js';
import { startTcpProxy } from '../support/zookeeper/tcp-proxy.js';
import { ClientProcess, type Said } from './client-process.js';
import { CLOCK_FILE, CLOCK_MODULE, clockFileOf } from './clock-jump.js';
import { ReplicaProcess } from './replica-process.js';

export const SERVERS = 3;
const PRINCIPAL = 'torture';
export const ROOT = '/torture';
/** By when a replica answers: short, so that clients do not spend the run waiting for the time-outs of faults. */
export const REQUEST_TIMEOUT_MS = 2_000;
/** Of the ensemble: servers have 25 of them to join a leader, on a busy machine too. */
const TICK_MS = 400;
/** How often the leader looks for containers to remove; the default is a minute. */
const CONTAINER_CHECK_MS = 1_000;
/** Snapshots and new logs, several in a run. */
const SNAPSHOT_EVERY = 5_000;

export interface StageOptions {
  /** The `main.js` of the build that is tortured. */
  readonly main: string;
  readonly seed: number;
  readonly replicas: number;
  readonly processes: number;
  readonly pauseMs: number;
  readonly listen: (said: Said, from: ClientProcess) => void;
}

/** Somebody stood still, by the doing of a fault. */
export interface Standstill {
  readonly who: string;
  readonly from: number;
  until: number;
}

interface StageParts {
  readonly directory: string;
  readonly ensemble: TestEnsemble;
  readonly keys: ApiKeys;
  readonly leaseKeysFile: string;
  readonly replicas: readonly ReplicaProcess[];
  /** By replica, then by server. */
  readonly links: readonly (readonly TcpProxy[])[];
  readonly clients: readonly ClientProcess[];
}

export class Stage implements AsyncDisposable {
  readonly standstills: Standstill[] = [];
  /** What clients will work on next, by kind. */
  readonly nextObjects = new Map<string, readonly string[]>();

  readonly directory: string;
  readonly ensemble: TestEnsemble;
  readonly keys: ApiKeys;
  readonly leaseKeysFile: string;
  readonly replicas: readonly ReplicaProcess[];
  readonly links: readonly (readonly TcpProxy[])[];
  readonly clients: readonly ClientProcess[];

  private constructor(parts: StageParts) {
    this.directory = parts.directory;
    this.ensemble = parts.ensemble;
    this.keys = parts.keys;
    this.leaseKeysFile = parts.leaseKeysFile;
    this.replicas = parts.replicas;
    this.links = parts.links;
    this.clients = parts.clients;
  }

  static async start(options: StageOptions): Promise<Stage> {
    const directory = await mkdtemp(join(tmpdir(), 'postern-torture-'));
    const leaseKeysFile = join(directory, 'lease-keys');
    await writeFile(leaseKeysFile, newLeaseKey());
    const ensemble = await startEnsemble({
      servers: SERVERS,
      proxiedPeers: true,
      tickTime: TICK_MS,
      jvmFlags: [`-Dznode.container.checkIntervalMs=${CONTAINER_CHECK_MS}`, `-Dzookeeper.snapCount=${SNAPSHOT_EVERY}`],
    });
    const keys = await makeApiKeys({ [PRINCIPAL]: '*' });
    const replicas: ReplicaProcess[] = [];
    const links: TcpProxy[][] = [];
    for (let i = 1; i <= options.replicas; i += 1) {
      const proxies = await proxiesFor(ensemble);
      links.push(proxies);
      const name = `replica ${i}`;
      const replica = new ReplicaProcess(name, {
        main: options.main,
        port: await freePort(),
        logFile: join(directory, `${name.replace(' ', '-')}.log`),
        environment: {
          POSTERN_ZOOKEEPER: proxies.map(({ connectString }) => connectString).join(','),
          POSTERN_ROOT: ROOT,
          POSTERN_AUTH_FILE: keys.file,
          POSTERN_LEASE_KEYS_FILE: leaseKeysFile,
          POSTERN_REQUEST_TIMEOUT_MS: String(REQUEST_TIMEOUT_MS),
          POSTERN_DRAIN_MS: '2000',
          POSTERN_LOG_LEVEL: 'info',
          ...SCHEDULE_SETTINGS,
          [CLOCK_FILE]: clockFileOf(directory, i),
        },
        preload: [CLOCK_MODULE],
      });
      replicas.push(replica);
      await replica.start();
    }
    await Promise.all(replicas.map((replica) => replica.ready()));
    const { key } = keys.as(PRINCIPAL, '');
    const clients = await Promise.all(
      Array.from({ length: options.processes }, (_, i) =>
        ClientProcess.start(
          {
            name: `process-${i + 1}`,
            callsFile: join(directory, `process-${i + 1}.calls`),
            seed: options.seed,
            urls: replicas.map(({ url }) => url),
            key,
            requestTimeoutMs: REQUEST_TIMEOUT_MS,
            pauseMs: options.pauseMs,
          },
          options.listen,
        ),
      ),
    );
    return new Stage({ directory, ensemble, keys, leaseKeysFile, replicas, links, clients });
  }

  /** What clients asked that has this in it, with the answers, in the order of time. */
  callsOf(text: string): unknown[] {
    return this.clients
      .flatMap(({ name }) => readFileSync(join(this.directory, `${name}.calls`), 'utf8').split('\n'))
      .filter((line) => line.includes(text))
      .map((line) => JSON.parse(line) as { begin: number })
      .sort((a, b) => a.begin - b.begin);
  }

  /** A client of the driver's own, of a replica that serves. */
  get key(): string {
    return this.keys.as(PRINCIPAL, '').key;
  }

  /** Notes that somebody stands still until what is returned is called. */
  standsStill(who: string): () => void {
    const standstill: Standstill = { who, from: now(), until: Infinity };
    this.standstills.push(standstill);
    return () => (standstill.until = now());
  }

  /** Whether one of these stood still at some time in this span. */
  stoodStill(who: readonly string[], from: number, until: number): boolean {
    return this.standstills.some((one) => who.includes(one.who) && one.from <= until && one.until >= from);
  }

  /** @param path the beginning of the names of the copies */
  async keepLogs(path: string): Promise<void> {
    await mkdir(dirname(path), { recursive: true });
    const { nodes } = this.ensemble;
    const logs = [
      ...this.replicas.map(({ options }, i) => [`replica-${i + 1}`, options.logFile] as const),
      ...nodes.filter(({ running }) => running).map(({ id, logFile }) => [`server-${id}`, logFile] as const),
    ];
    await Promise.all(logs.map(([name, file]) => copyFile(file, `${path}.${name}.log`)));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.clients.map((client) => client.stop()));
    await Promise.all(this.replicas.map((replica) => replica.kill()));
    await Promise.all(this.links.flat().map((proxy) => proxy.stop()));
    await this.ensemble.stop();
    await this.keys[Symbol.asyncDispose]();
    await rm(this.directory, { recursive: true, force: true });
  }
}

export function newLeaseKey(): string {
  return randomBytes(32).toString('base64');
}

/** Their order by name is that of the servers, for every replica: by it a lease finds its preferred server (ADR 5). */
async function proxiesFor(ensemble: TestEnsemble): Promise<TcpProxy[]> {
  const ports: number[] = [];
  for (let i = 0; i < SERVERS; i += 1) ports.push(await freePort());
  ports.sort((a, b) => a - b);
  return Promise.all(ensemble.nodes.map(({ port }, i) => startTcpProxy({ port, listenPort: ports[i] as number })));
}
