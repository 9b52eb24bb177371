/**
 * One round: a ZooKeeper with an empty directory, Postern in front of it, a warm-up, then jobs. Servers of other
 * systems are started for each job and stopped after it: etcd slows down as its history grows.
 */
import { fork } from 'node:child_process';
import { createInterface } from 'node:readline';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { endWithParent } from '../scripts/lib/zookeeper.mjs';
import { EMPTY_PATH } from './generator/empty.js';
import type { Job, Measured, RestartRequest, Restarted, System } from './generator/job.js';
import { freshDirectory, pin, spawnOn, usage, type Cores } from './processes.js';
import { PEERS } from './provide.js';
import {
  makeApiKey,
  ROOT,
  startBeanstalkd,
  startConsul,
  startEtcd,
  startPlainServer,
  startPostern,
  startRedis,
  startWebdis,
  startZooKeeper,
  type ApiKey,
  type Postern,
  type PosternOptions,
  type Server,
  type ZooKeeper,
} from './servers.js';
import type { SystemName, Workload } from './workloads.js';

const GENERATOR = join(ROOT, 'bench/generator/main.ts');
/** On top of what a job measures. */
const JOB_MARGIN_MS = 10 * 60_000;
/** Libraries have a virtual machine of their own to warm up, or none that gets faster. */
const LIBRARY_WARM_UP_SECONDS = 4;

export interface RoundOptions {
  readonly cores: Cores | undefined;
  readonly seconds: number;
  readonly warmUpSeconds: number;
  /** Of writes to ZooKeeper, before the first job. */
  readonly jvmWarmUpSeconds: number;
  /** And so many locks taken and given back at least. */
  readonly warmUpPairs?: number;
  /** Another checkout of Postern to compare with. */
  readonly baseline?: string | undefined;
  readonly onDisk: boolean;
  readonly settings: Record<string, string>;
  readonly nodeOptions?: string | undefined;
}

interface Servers {
  readonly zookeeper: ZooKeeper;
  readonly postern: Postern;
  readonly baseline: Postern | undefined;
}

export class Round {
  readonly #options: RoundOptions;
  readonly #dir: string;
  readonly #key: ApiKey;
  readonly zookeeper: ZooKeeper;
  readonly postern: Postern;
  readonly baseline: Postern | undefined;
  #names = 0;

  private constructor(options: RoundOptions, dir: string, key: ApiKey, servers: Servers) {
    this.zookeeper = servers.zookeeper;
    this.postern = servers.postern;
    this.baseline = servers.baseline;
    this.#options = options;
    this.#dir = dir;
    this.#key = key;
  }

  static async start(options: RoundOptions): Promise<Round> {
    const core = options.cores?.servers;
    const dir = await freshDirectory();
    const key = await makeApiKey(dir);
    const zookeeper = await startZooKeeper({ core, onDisk: options.onDisk, heap: '4g' });
    const { settings, nodeOptions } = options;
    const common: PosternOptions = { zooKeeperPort: zookeeper.port, core, key, settings, nodeOptions };
    const postern = await startPostern(common);
    const baseline =
      options.baseline === undefined
        ? undefined
        : await startPostern({
            ...common,
            checkout: options.baseline,
            settings: { ...settings, POSTERN_ROOT: '/baseline' },
          });
    const round = new Round(options, dir, key, { zookeeper, postern, baseline });
    const warmUp = { scenario: 'lock', clients: 64, things: 64, warmUpSeconds: 0 } as const;
    const { operations: done } = await round.#generate('postern', postern, {
      ...warmUp,
      seconds: options.jvmWarmUpSeconds,
    });
    // On a busy machine these seconds hold too little for the compilers.
    const left = (options.warmUpPairs ?? 0) - done;
    if (left > 0)
      await round.#generate('postern', postern, { ...warmUp, seconds: 0, operations: { warmUp: left, measured: 1 } });
    if (baseline !== undefined) await round.#generate('baseline', baseline, { ...warmUp, seconds: 2 });
    return round;
  }

  async stop(): Promise<void> {
    await this.postern.stop();
    await this.baseline?.stop();
    await this.zookeeper.stop();
    await rm(this.#dir, { recursive: true, force: true });
  }

  /** @param rate of an open loop */
  async measure(workload: Workload, system: SystemName, rate?: number): Promise<Measured> {
    if (system === 'curator' || system === 'kazoo') return this.#library(workload, system);
    const { warmUpSeconds } = this.#options;
    const seconds = Math.max(this.#options.seconds, workload.atLeastSeconds ?? 0);
    const job = { ...workload.job, seconds, warmUpSeconds, ...(rate === undefined ? {} : { rate }) };
    const server = await this.#serverFor(system, workload);
    try {
      return await this.#generate(system, server, job);
    } finally {
      await server.release?.();
    }
  }

  async #serverFor(system: System, workload: Workload): Promise<Target> {
    const core = this.#options.cores?.servers;
    const own = (server: Server) => ({ ...server, release: () => server.stop() });
    switch (system) {
      case 'postern':
        if (workload.ownReplica !== undefined) return this.#ownReplica(workload.ownReplica);
        return workload.throughTwoReplicas === true ? this.#twoReplicas() : this.postern;
      case 'baseline':
        return this.baseline as Postern;
      case 'zookeeper':
      case 'zookeeper-listing':
        return { port: this.zookeeper.port, pids: {} };
      case 'etcd':
        return own(await startEtcd(core, this.#options.onDisk));
      case 'consul':
        return own(await startConsul(core, this.#options.onDisk));
      case 'webdis':
        return own(await startWebdis(core));
      case 'redis':
        return own(await startRedis(core));
      case 'beanstalkd':
        return own(await startBeanstalkd(core));
      case 'node-http':
        return own(await startPlainServer(core, await this.#emptyAnswer()));
    }
  }

  /** One that has done nothing yet, and that can be killed. */
  async #ownReplica(settings: Record<string, string>): Promise<Target> {
    const options: PosternOptions = {
      zooKeeperPort: this.zookeeper.port,
      core: this.#options.cores?.servers,
      key: this.#key,
      settings: { ...this.#options.settings, ...settings, POSTERN_ROOT: `/own-${this.#freshNames()}` },
      nodeOptions: this.#options.nodeOptions,
    };
    let replica = await startPostern(options);
    const { port } = replica;
    return {
      port,
      pids: replica.pids,
      restart: async () => {
        replica.process.kill('SIGKILL');
        replica = await startPostern({ ...options, port });
        return replica.pids['gateway'] as number;
      },
      release: () => replica.stop(),
    };
  }

  async #twoReplicas(): Promise<Target> {
    const { cores, settings } = this.#options;
    const zooKeeperPort = this.zookeeper.port;
    const other = await startPostern({ zooKeeperPort, core: cores?.servers, key: this.#key, settings });
    return {
      port: this.postern.port,
      otherPort: other.port,
      pids: { gateway: this.postern.pids['gateway'] as number, 'other gateway': other.pids['gateway'] as number },
      release: () => other.stop(),
    };
  }

  /** What Postern answers, for node:http to answer the same. */
  async #emptyAnswer() {
    const response = await fetch(`http://127.0.0.1:${this.postern.port}${EMPTY_PATH}`, {
      headers: { authorization: `Bearer ${this.#key.key}` },
    });
    const headers = Object.fromEntries(response.headers);
    for (const name of ['date', 'connection', 'keep-alive']) delete headers[name]; // node:http sends its own
    return { headers, body: await response.text() };
  }

  #generate(system: System, server: Target, job: Omit<Job, 'target' | 'pids'>): Promise<Measured> {
    const { port, otherPort, restart } = server;
    const onZooKeeper = system === 'postern' || system === 'baseline' || system.startsWith('zookeeper');
    const target = {
      system,
      port,
      names: this.#freshNames(),
      zooKeeperPort: this.zookeeper.port,
      key: this.#key.key,
      ...(otherPort === undefined ? {} : { otherPort }),
    };
    const pids = { ...server.pids, ...(onZooKeeper ? this.zookeeper.pids : {}) };
    return runGenerator({ ...job, target, pids }, this.#options.cores, restart);
  }

  async #library(workload: Workload, system: 'curator' | 'kazoo'): Promise<Measured> {
    const { scenario, clients, things, holdMs = 0 } = workload.job;
    const { command, args, env } = await PEERS[system]();
    const store = this.zookeeper.pids['store'] as number;
    const child = spawnOn(
      this.#options.cores?.generator,
      command,
      [
        ...[...args, scenario, `127.0.0.1:${this.zookeeper.port}`, `/${this.#freshNames()}`],
        ...[clients, things, holdMs, LIBRARY_WARM_UP_SECONDS, this.#options.seconds].map(String),
      ],
      { env, stdio: ['ignore', 'pipe', 'ignore'] },
    );
    const limit = setTimeout(() => child.kill('SIGKILL'), this.#options.seconds * 1_000 + JOB_MARGIN_MS);
    const samples: { store: number; generator: number }[] = [];
    let result: LibraryResult | undefined;
    // A pipe was asked for.
    for await (const line of createInterface({ input: child.stdout as NodeJS.ReadableStream })) {
      if (line.startsWith('{')) result = JSON.parse(line) as LibraryResult;
      else samples.push({ store: usage(store).cpuSeconds, generator: usage(child.pid as number).cpuSeconds });
    }
    clearTimeout(limit);
    const [before, after] = samples;
    if (result === undefined || before === undefined || after === undefined)
      throw new Error(`${system} ended without a result`);
    const { operations, seconds, p50, p99, errors, violations, firstError } = result;
    const generator = after.generator - before.generator;
    return {
      ...{ operations, seconds, p50, p99, errors },
      rate: operations / seconds,
      violations: [
        ...(violations > 0 ? [`${violations} times more than one holder, or a message lost or twice`] : []),
        ...(errors > 0 ? [`${errors} errors, the first: ${firstError}`] : []),
      ],
      cpu: {
        store: ((after.store - before.store) / operations) * 1e6,
        generator: (generator / operations) * 1e6,
      },
      generatorLoad: generator / seconds,
      memory: { store: usage(store).rssKiB },
      figures: {},
    };
  }

  #freshNames(): string {
    this.#names += 1;
    return `b${this.#names}-`;
  }
}

/** What a job runs against. */
interface Target {
  port: number;
  otherPort?: number;
  pids: Server['pids'];
  restart?: () => Promise<number>;
  release?: () => Promise<void>;
}

interface LibraryResult {
  operations: number;
  seconds: number;
  p50: number;
  p99: number;
  errors: number;
  violations: number;
  firstError: string;
}

function runGenerator(job: Job, cores: Cores | undefined, restart?: () => Promise<number>): Promise<Measured> {
  return new Promise((resolve, reject) => {
    const child = fork(GENERATOR, { execArgv: ['--import', 'tsx'], cwd: ROOT });
    endWithParent(child);
    pin(child.pid as number, cores?.generator);
    const limit = setTimeout(() => child.kill('SIGKILL'), (job.warmUpSeconds + job.seconds) * 1_000 + JOB_MARGIN_MS);
    let measured: Measured | undefined;
    child.on('message', (message: Measured | RestartRequest) => {
      if (!('restart' in message)) measured = message;
      else
        restart?.().then(
          (pid) => child.send({ pid } satisfies Restarted),
          (error: Error) => {
            reject(error);
            child.kill('SIGKILL');
          },
        );
    });
    child.once('exit', (code, signal) => {
      clearTimeout(limit);
      if (measured === undefined) reject(new Error(`the generator ended with ${signal ?? code} and no result`));
      else resolve(measured);
    });
    child.send(job);
  });
}
