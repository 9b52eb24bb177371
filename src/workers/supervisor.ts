/**
 * One replica on several cores: starts the workers, and replaces those that die. It serves no request and knows no
 * lease. Each worker is a gateway with a control session of its own; they share the listener (node:cluster hands
 * connections to the workers in turn).
 *
 *   starting ──all listen──▶ serving ──signal──▶ stopping ──all have exited──▶ exit
 *      └──one ends──▶ exit 1          └──one ends──▶ another is started, later each time that one dies young
 *
 * A lease can be used through every worker, as through every replica. A client with several connections moves its
 * session from worker to worker, which is correct but costs an attach each time: use one connection for one lease.
 */
import cluster, { type Address, type Worker } from 'node:cluster';
import type { Config } from '../config.js';
import type { Logger } from '../log.js';
import { onStop } from '../signals.js';
import { MINUTE, SECOND } from '../time.js';
import { Exchange } from './siblings.js';

const RESTART_BASE_MS = 100;
const RESTART_CAP_MS = 10 * SECOND;
/** A worker that lived this long did not die of its start. */
const OLD_MS = MINUTE;

/**
 * node:cluster hands one connection at a time to a worker. If the worker dies before taking it, node forgets it, and
 * the client waits forever on a connection that nobody reads. Closing one that was taken does nothing.
 */
function closeUntaken(worker: Worker): void {
  const { process: child } = worker;
  const send = child.send.bind(child) as (message: unknown, handle?: unknown, ...rest: unknown[]) => boolean;
  let latest: { close?: () => void } | undefined;
  child.send = (message: unknown, handle?: unknown, ...rest: unknown[]): boolean => {
    if (typeof handle === 'object' && handle !== null) latest = handle;
    return send(message, handle, ...rest);
  };
  worker.once('exit', () => latest?.close?.());
}

type SupervisedConfig = Pick<Config, 'workers' | 'opsPort'>;

/** @returns the exit code of the process, once all workers have ended */
export function superviseWorkers(config: SupervisedConfig, logger: Logger): Promise<number> {
  return new Promise((resolve) => new Supervisor(config, logger, resolve).start());
}

class Supervisor {
  /** Workers to keep running. */
  readonly #count: number;
  /** All of them together, the operations port's included: a worker that listens on one may fail at the other. */
  readonly #listeners: number;
  readonly #logger: Logger;
  readonly #resolve: (code: number) => void;
  readonly #exchange = new Exchange();
  readonly #bornAt = new Map<number, number>();
  /** Listeners opened during the start. */
  #listening = 0;
  /** The first one's: that of the main port. */
  #address: Address | undefined;
  #serving = false;
  #stopping = false;
  #youngDeaths = 0;
  #code = 0;

  constructor({ workers, opsPort }: SupervisedConfig, logger: Logger, resolve: (code: number) => void) {
    this.#count = workers;
    this.#listeners = workers * (opsPort === undefined ? 1 : 2);
    this.#logger = logger;
    this.#resolve = resolve;
  }

  start(): void {
    cluster.on('message', (worker, message) => this.#exchange.take(worker, message, live()));
    cluster.on('listening', (_worker, address) => this.#onListening(address));
    cluster.on('exit', (worker, exitCode, signal) => this.#onExit(worker, exitCode, signal));
    onStop((signal) => this.#stop(signal));
    for (let i = 0; i < this.#count; i += 1) this.#fork();
  }

  #fork(): void {
    const worker = cluster.fork();
    this.#bornAt.set(worker.id, performance.now());
    worker.on('error', ({ message: reason }) => {
      // The worker died while a connection or a question was on its way to it; `exit` reports its end.
      if (worker.process.pid !== undefined) {
        this.#logger.debug({ worker: worker.id, reason }, 'message to a worker failed');
        return;
      }
      // The system had no room for another process, say: nothing else tells of one that never was.
      this.#logger.error({ worker: worker.id, reason }, 'worker could not be started');
      this.#onExit(worker, 1, null);
    });
    closeUntaken(worker);
  }

  #stop(signal: NodeJS.Signals): void {
    // Workers begin to drain only once; the second signal, which is to end the process at once, does not ask them.
    const sent = this.#stopping ? 'SIGKILL' : 'SIGTERM';
    this.#logger.info({ signal, workers: live().length }, 'stopping');
    this.#stopping = true;
    for (const worker of Object.values(cluster.workers ?? {})) worker?.process.kill(sent);
    this.#resolveIfOver();
  }

  /** node:cluster still lists a worker whose exit is told before the end of its channel: the ages list who lives. */
  #resolveIfOver(): void {
    if (this.#bornAt.size === 0) this.#resolve(this.#code);
  }

  #onListening(listened: Address): void {
    this.#address ??= listened;
    this.#listening += 1;
    if (this.#listening < this.#listeners || this.#serving) return;
    this.#serving = true;
    const { address, port } = this.#address;
    this.#logger.info({ workers: this.#count, address, port }, 'all workers listening');
  }

  #onExit(worker: Worker, exitCode: number, signal: string | null): void {
    const ageMs = performance.now() - (this.#bornAt.get(worker.id) ?? 0);
    this.#bornAt.delete(worker.id);
    if (this.#stopping) {
      this.#resolveIfOver();
      return;
    }
    if (!this.#serving) {
      // The worker logged the reason itself, unless it was killed: then it has no exit code either.
      if (signal) this.#logger.error({ worker: worker.id, signal }, 'worker killed during startup');
      this.#code = exitCode || 1;
      this.#stop('SIGTERM');
      return;
    }
    this.#youngDeaths = ageMs < OLD_MS ? this.#youngDeaths + 1 : 1;
    const inMs = Math.min(RESTART_CAP_MS, RESTART_BASE_MS * 2 ** (this.#youngDeaths - 1));
    this.#logger.error({ worker: worker.id, exitCode, signal, startsInMs: inMs }, 'worker exited; starting another');
    setTimeout(() => {
      if (!this.#stopping) this.#fork();
    }, inMs);
  }
}

function live(): Worker[] {
  return Object.values(cluster.workers ?? {}).filter((one) => one?.isConnected() === true) as Worker[];
}
