/**
 * One replica on several cores: the process that starts the workers, and starts another one where one has died. It serves no request and
 * knows no lease; each worker is a gateway of its own, with its own session in ZooKeeper, and the kernel's listener is shared (node:cluster:
 * connections go to the workers in turn).
 *
 *   starting ──all listen──▶ serving ──signal──▶ stopping ──all have exited──▶ exit
 *      └──one ends──▶ exit 1          └──one ends──▶ another is started, later each time that one dies young
 *
 * A lease can be used through every worker, as it can through every replica: a client with several connections moves its session from
 * worker to worker, which is correct and costs an attach each time. So a client does well to use one connection for one lease.
 */
import cluster, { type Worker } from 'node:cluster';
import type { Logger } from '../log.js';
import { MINUTE, SECOND } from '../time.js';
import { Exchange } from './siblings.js';

const RESTART_BASE_MS = 100;
const RESTART_CAP_MS = 10 * SECOND;
/** One that lived for so long did not die of its start. */
const OLD_MS = MINUTE;

/**
 * node:cluster hands one connection at a time to a worker, and forgets the one that the worker had not taken yet when it died: the client would
 * wait for ever at a connection that nobody reads. To close one that was taken does nothing.
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

/**
 * @param count workers to keep running
 * @returns the exit code of the process, once all workers have ended
 */
export function superviseWorkers(count: number, logger: Logger): Promise<number> {
  const exchange = new Exchange();
  const bornAt = new Map<number, number>();
  const listening = new Set<number>();
  let serving = false;
  let stopping = false;
  let youngDeaths = 0;

  const live = (): Worker[] =>
    Object.values(cluster.workers ?? {}).filter((one) => one?.isConnected() === true) as Worker[];
  const start = (): void => {
    const worker = cluster.fork();
    bornAt.set(worker.id, performance.now());
    // A connection or a question that was on its way to one that has just died: its end is told by `exit`.
    worker.on('error', (error) =>
      logger.debug({ worker: worker.id, reason: error.message }, 'a worker took no message'),
    );
    closeUntaken(worker);
  };

  return new Promise((resolve) => {
    let code = 0;
    const stop = (signal: NodeJS.Signals): void => {
      if (!stopping) logger.info({ signal, workers: live().length }, 'stopping');
      stopping = true;
      for (const worker of Object.values(cluster.workers ?? {})) worker?.process.kill('SIGTERM');
      if (live().length === 0) resolve(code);
    };
    cluster.on('message', (worker, message) => exchange.take(worker, message, live()));
    cluster.on('listening', (worker, address) => {
      listening.add(worker.id);
      if (listening.size < count || serving) return;
      serving = true;
      logger.info({ workers: count, address: address.address, port: address.port }, 'all workers listen');
    });
    cluster.on('exit', (worker, exitCode, signal) => {
      const ageMs = performance.now() - (bornAt.get(worker.id) ?? 0);
      bornAt.delete(worker.id);
      if (stopping) {
        if (Object.keys(cluster.workers ?? {}).length === 0) resolve(code);
        return;
      }
      if (!serving) {
        // It has said why on its way out, unless it was killed: then it has no exit code either.
        if (signal) logger.error({ worker: worker.id, signal }, 'a worker was killed before all were there');
        code = exitCode || 1;
        stop('SIGTERM');
        return;
      }
      youngDeaths = ageMs < OLD_MS ? youngDeaths + 1 : 1;
      const inMs = Math.min(RESTART_CAP_MS, RESTART_BASE_MS * 2 ** (youngDeaths - 1));
      logger.error(
        { worker: worker.id, exitCode, signal, startsInMs: inMs },
        'a worker has ended; another one is started',
      );
      setTimeout(() => {
        if (!stopping) start();
      }, inMs);
    });
    process.on('SIGTERM', stop);
    process.on('SIGINT', stop);
    for (let i = 0; i < count; i += 1) start();
  });
}
