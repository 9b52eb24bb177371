/**
 * Gateways for tests: in this process (fast, and their insides can be looked at), or as processes of their own that can
 * be killed. And a client that speaks to them and checks every answer against the contract.
 *
 *   await using pair = await startPair();                  two replicas over the shared ZooKeeper, a root of their own
 *   const lease = await pair.a.createLease({ ttlMs: 5_000 });
 *   await pair.b.acquire('name', lease, { waitMs: 1_000 });
 */
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { env } from 'node:process';
import { loadConfig, type Config } from '../../src/config.js';
import { startGateway, type Gateway } from '../../src/gateway.js';
import { createLog, type Logger } from '../../src/log.js';
import { HOUSEKEEPING_TIMING, type HousekeepingTiming } from '../../src/recipes/housekeeping/housekeeping.js';
import { HOUR, type Clock } from '../../src/time.js';
import { Client } from './http/client.js';
import { eventually } from './eventually.js';
import { freshRoot, sharedZooKeeper } from './start-zookeeper.js';
import { freePort } from './free-port.js';
import { runLog } from './run-log.js';
import { timing } from './timing.js';
import { standStill } from './stand-still.js';

export interface ReplicaOptions {
  zookeeper?: string;
  root?: string;
  /** Further POSTERN_ variables. */
  settings?: Record<string, string>;
  /** By default none happens in replicas of this process: it begins at a moment that is left to chance. */
  housekeeping?: HousekeepingTiming;
  /** In this process only. */
  clock?: Clock;
  /** In this process only: for how long `/metrics` may answer the same, by default not at all. */
  expositionMs?: number;
  /** Of the replica's own session, ms. */
  controlSessionTimeoutMs?: number;
  /** In this process only: how often the file of ensembles is looked at, ms. */
  pollMs?: number;
  /** False where the ensemble lets no session own anything: it does not become ready then. */
  registers?: boolean;
  /** Of a process: the `main.js` of another build than this checkout's. */
  main?: string;
  /** Of a process: false where it cannot become ready. */
  becomesReady?: boolean;
}

function environmentOf({
  zookeeper = sharedZooKeeper(),
  root = freshRoot(),
  settings = {},
}: ReplicaOptions): Record<string, string> {
  return {
    POSTERN_ZOOKEEPER: zookeeper,
    POSTERN_ROOT: root,
    POSTERN_PORT: '0',
    POSTERN_DRAIN_MS: '2000',
    POSTERN_LOG_LEVEL: 'trace',
    ...settings,
  };
}

/**
 * What a test does delays the event loop of the replicas in its process as well, and what goes on beside it on a small
 * machine those in processes of their own: neither is load on them.
 */
const NEVER_OVERLOADED = { POSTERN_OVERLOAD_DELAY_MS: '0' };

const NO_HOUSEKEEPING: HousekeepingTiming = { ...HOUSEKEEPING_TIMING, everyMs: 24 * HOUR };

/**
 * Those that every replica keeps: on the list of pending revocations, on the reservations, on the question where
 * requests wait, and for schedules.
 */
export const STANDING_WATCHES = 4;

/** A gateway in this process. */
export class Replica extends Client implements AsyncDisposable {
  constructor(
    readonly gateway: Gateway,
    readonly standingWatches = STANDING_WATCHES,
  ) {
    super(gateway.url);
  }

  /** The sum of a counter over the label sets that match. */
  async metric(name: string, labels: Record<string, string> = {}): Promise<number> {
    const metric = await this.gateway.metrics.registry.getSingleMetric(name)?.get();
    if (metric === undefined) throw new Error(`there is no metric ${name}`);
    return metric.values
      .filter((value) => Object.entries(labels).every(([label, text]) => value.labels[label] === text))
      .reduce((sum, { value }) => sum + value, 0);
  }

  override async [Symbol.asyncDispose](): Promise<void> {
    await super[Symbol.asyncDispose]();
    const { context, recipes } = this.gateway;
    try {
      await eventually(
        'nobody waits for messages',
        async () => (await this.metric('postern_waiters', { kind: 'queue' })) === 0,
      );
      // What a replica knows of queues it keeps for some seconds: a test of its own sees that go, the others do not
      // wait for it.
      recipes.queue.queues.close();
      // With ZooKeeper away by the test's own doing, what is left cannot be taken back yet.
      if (context.control.connected)
        await eventually('no request, line, observer or watch is left behind', () => this.#leaks().length === 0);
    } catch {
      throw new Error(`left behind: ${this.#leaks().join(', ')}`);
    } finally {
      await this.gateway.stop();
    }
    runLog.search();
    runLog.leave();
  }

  /** What should be gone when no client is connected any more. */
  #leaks(): string[] {
    const { context } = this.gateway;
    const counts = {
      lines: context.lines.size,
      observers: this.gateway.observed(),
      writes: this.gateway.writing(),
      watches: context.control.watches.size - this.standingWatches,
      deletions: context.cleanup.pending,
    };
    return Object.entries(counts).flatMap(([what, count]) => (count === 0 ? [] : [`${count} ${what}`]));
  }
}

/** Starts a gateway in this process and waits until it is ready. */
export async function startReplica(options: ReplicaOptions = {}): Promise<Replica> {
  const settings = { ...NEVER_OVERLOADED, ...options.settings };
  const { config } = loadConfig(environmentOf({ ...options, settings }));
  const gateway = await startGateway({
    config,
    logger: loggerOf(config),
    processMetrics: false,
    expositionMs: options.expositionMs ?? 0,
    housekeeping: options.housekeeping ?? NO_HOUSEKEEPING,
    ...(options.clock && { clock: options.clock }),
    ...(options.pollMs && { pollMs: options.pollMs }),
    ...(options.controlSessionTimeoutMs && { controlSessionTimeoutMs: options.controlSessionTimeoutMs }),
  });
  // One more on the map of namespaces, where there is one.
  const watches = STANDING_WATCHES + (config.ensembles === undefined ? 0 : 1);
  const replica = new Replica(gateway, options.registers === false ? 0 : watches);
  runLog.enter();
  if (options.registers === false) return replica;
  await replica.untilReady();
  await eventually('it is registered, and writes no more of its own accord', () => isRegistered(gateway));
  return replica;
}

async function isRegistered({ context: { control, layout } }: Gateway): Promise<boolean> {
  return (await control.exists(layout.replica(control.sessionId))) !== undefined;
}

/** Of the whole run; `TEST_LOG_LEVEL=debug` shows it in place of that. */
function loggerOf(config: Config): Logger {
  const shown = env['TEST_LOG_LEVEL'];
  if (shown === undefined) return createLog(config, runLog.stream).logger;
  return createLog({ logLevel: shown as Config['logLevel'] }, process.stdout).logger;
}

export interface Pair extends AsyncDisposable {
  a: Replica;
  b: Replica;
  root: string;
}

/** Two replicas that share one root. */
export async function startPair(options: ReplicaOptions = {}): Promise<Pair> {
  const root = options.root ?? freshRoot();
  const [a, b] = await Promise.all([startReplica({ ...options, root }), startReplica({ ...options, root })]);
  return {
    a,
    b,
    root,
    async [Symbol.asyncDispose]() {
      await Promise.all([a[Symbol.asyncDispose](), b[Symbol.asyncDispose]()]);
    },
  };
}

/** Of this checkout. */
export const MAIN = fileURLToPath(new URL('../../dist/main.js', import.meta.url));

/** A gateway in a process of its own (built code), to be killed, paused and started again on the same port. */
export class ReplicaProcess extends Client implements AsyncDisposable {
  #child: ChildProcess;
  readonly #environment: Record<string, string>;
  #main: string;
  /** All that it wrote, for tests about the log. */
  output = '';

  constructor(url: string, child: ChildProcess, environment: Record<string, string>, main: string) {
    super(url);
    this.#child = child;
    this.#environment = environment;
    this.#main = main;
    this.#collect();
  }

  get pid(): number {
    return this.#child.pid as number;
  }

  /** `kill -9` unless told otherwise; resolves when it is gone. */
  async kill(signal: NodeJS.Signals = 'SIGKILL'): Promise<number | null> {
    if (this.#child.exitCode === null && this.#child.signalCode === null) {
      const gone = once(this.#child, 'exit');
      this.#child.kill(signal);
      await gone;
    }
    return this.#child.exitCode;
  }

  pause(): void {
    standStill(this.pid);
  }

  resume(): void {
    this.#child.kill('SIGCONT');
  }

  /** Starts it again after a kill, or in its place one of another build. */
  async restart(main = this.#main): Promise<void> {
    this.#main = main;
    this.#child = await launch(main, this.#environment);
    this.#collect();
    await this.untilReady();
  }

  /** Fails at once, with what the process said, when it ends instead. */
  override async untilReady(): Promise<void> {
    const waited = new AbortController();
    const ended = once(this.#child, 'exit', { signal: waited.signal }).then(() => {
      throw new Error(`the replica ended before it was ready: ${this.output}`);
    });
    try {
      await Promise.race([super.untilReady(), ended]);
    } finally {
      waited.abort();
    }
  }

  #collect(): void {
    const add = (chunk: Buffer): void => void (this.output += chunk.toString());
    this.#child.stdout?.on('data', add);
    this.#child.stderr?.on('data', add);
  }

  override async [Symbol.asyncDispose](): Promise<void> {
    await super[Symbol.asyncDispose]();
    await this.kill();
    runLog.search(this.output.split('\n'));
  }
}

/** Starts a gateway as a process and waits until it is ready. */
export async function spawnReplica(options: ReplicaOptions = {}): Promise<ReplicaProcess> {
  const port = await freePort();
  const settings = { ...NEVER_OVERLOADED, ...options.settings };
  const environment = { ...environmentOf({ ...options, settings }), POSTERN_PORT: String(port) };
  const { main = MAIN, becomesReady = true } = options;
  const replica = new ReplicaProcess(`http://127.0.0.1:${port}`, await launch(main, environment), environment, main);
  if (becomesReady) await replica.untilReady();
  return replica;
}

async function launch(main: string, environment: Record<string, string>): Promise<ChildProcess> {
  const child = spawn(process.execPath, [main], {
    env: { PATH: env['PATH'], ...environment },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  await once(child, 'spawn');
  const endWithUs = (): void => void child.kill('SIGKILL');
  process.once('exit', endWithUs);
  child.once('exit', () => process.off('exit', endWithUs));
  return child;
}

/** Ends the lease's session in ZooKeeper as its timeout would, without telling any replica. */
export async function expireSession(replica: Replica, leaseId: string, namespace = 'default'): Promise<void> {
  const { leases } = replica.gateway.context;
  const record = await eventually('the lease is known', () =>
    leases.records.find(namespace, leaseId, performance.now() + timing.eventuallyMs),
  );
  const lease = await leases.openStored(record.token, performance.now() + timing.eventuallyMs);
  if (lease === undefined) throw new Error(`lease ${leaseId} does not open`);
  await leases.end(lease, performance.now() + timing.eventuallyMs);
}
