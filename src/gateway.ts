/**
 * The composition root: builds the layers from the settings (`wiring/`, `recipes/index.ts`, `http/routes/index.ts`),
 * and starts and stops them in order.
 *
 * Stop: become unready, and keep serving until balancers have noticed → answer the waiters, which keep their places →
 * accept no new connections and answer the rest → detach the sessions of leases (they live on; their clients go to
 * another replica) → close the control session.
 */
import type { Config } from './config.js';
import { createAuthentication, type Authentication } from './http/access/auth.js';
import { createApp } from './http/frame/app.js';
import type { Routes } from './http/frame/exchange.js';
import { Overload } from './http/overload/overload.js';
import { makeRoutes } from './http/routes/index.js';
import { operationsRoutes } from './http/routes/operations.js';
import { maxConnectionsOf } from './http/server/max-connections.js';
import { startServer, type RunningServer } from './http/server/server.js';
import type { Logger } from './log.js';
import { createMetrics, type Metrics } from './metrics/metrics.js';
import type { Coordination } from './recipes/coordination.js';
import type { HousekeepingTiming } from './recipes/housekeeping/housekeeping.js';
import type { Recipes } from './recipes/index.js';
import { Contention } from './recipes/waiting/contention.js';
import { pause, SECOND, systemClock, type Clock } from './time.js';
import { version } from './version.js';
import type { ServedEnsemble } from './wiring/served-ensemble.js';
import { servedOf, type Served } from './wiring/ensembles/served.js';
import { tellingOf, type Telling } from './wiring/telling.js';
import { shareOf } from './workers/share.js';

/** Prometheus scrapes every few seconds; more frequent scrapes get the same text again. */
const EXPOSITION_MS = SECOND;

export interface GatewayOptions {
  config: Config;
  logger: Logger;
  clock?: Clock;
  housekeeping?: HousekeepingTiming;
  /** Node's own process metrics; off where many gateways share a process. */
  processMetrics?: boolean;
  /** For how long `/metrics` may answer the same. */
  expositionMs?: number;
  /** Timeout of the replica's own session, ms; the ensemble may grant another. */
  controlSessionTimeoutMs?: number;
  /** How often the file of ensembles is looked at, ms. */
  pollMs?: number;
}

export interface Gateway {
  readonly url: string;
  readonly port: number;
  readonly opsPort: number | undefined;
  readonly metrics: Metrics;
  /** Of the ensemble of `POSTERN_ZOOKEEPER`. */
  readonly context: Coordination;
  readonly recipes: Recipes;
  /** That one, and the others in the order of their file. */
  readonly ensembles: readonly ServedEnsemble[];
  /** How many things this replica observes for its clients now, over all recipes. */
  observed(): number;
  /** How many names are being written now, over all recipes. */
  writing(): number;
  /** Stops gracefully: pauses as configured, drains, and after `withinMs` more (default: the setting) ends by force. */
  stop(withinMs?: number): Promise<void>;
}

/** Everything but the listeners. */
interface Parts {
  readonly metrics: Metrics;
  readonly served: Served;
  readonly telling: Telling;
  readonly routes: Routes;
  readonly authentication: Authentication;
  readonly overload: Overload;
  /** Aborted when the replica should get no more requests. */
  readonly leaving: AbortController;
  /** Aborted later, when the drain begins. */
  readonly draining: AbortController;
}

/** @throws Error with one sentence if the listener, the connect string or the key file cannot be used */
export async function startGateway(options: GatewayOptions): Promise<Gateway> {
  const { config } = options;
  const parts = assemble(options);
  const server = await serve(parts, options);
  const { metrics, served } = parts;
  served.start();
  const sum = (count: (ensemble: ServedEnsemble) => number): number =>
    served.all.reduce((total, ensemble) => total + count(ensemble), 0);
  return {
    url: server.url,
    port: server.port,
    opsPort: server.opsPort,
    metrics,
    context: served.first.foundation.context,
    recipes: served.first.recipes,
    ensembles: served.all,
    observed: () => sum(({ observed }) => observed),
    writing: () => sum(({ writing }) => writing),
    stop: (withinMs = config.drainMs) => stop(parts, server, config.drainPauseMs, withinMs),
  };
}

/** Builds the parts; none of them talks to ZooKeeper or is reachable yet. */
function assemble(options: GatewayOptions): Parts {
  const { config, logger, clock = systemClock } = options;
  const metrics = createMetrics({ version, processMetrics: options.processMetrics ?? true });
  const contention = new Contention();
  const [leaving, draining] = [new AbortController(), new AbortController()];
  const served = servedOf({
    config: shareOf(config),
    metrics,
    logger,
    clock,
    contention,
    timing: options.housekeeping,
    sessionTimeoutMs: options.controlSessionTimeoutMs,
    pollMs: options.pollMs,
    leaving: leaving.signal,
    draining: draining.signal,
  });
  const telling = tellingOf({
    metrics,
    contention,
    contendedLabels: config.maxContendedLabels,
    told: served.told,
    tell: () => served.tell(),
    clock,
    workers: config.workers,
    expositionMs: options.expositionMs ?? EXPOSITION_MS,
  });
  const routes = {
    ...operationsRoutes({
      config,
      maxConnections: maxConnectionsOf(config, served.all.length),
      clock,
      version,
      exposition: telling.exposition,
      readiness: () => served.readiness(),
      sessionBounds: () => served.first.foundation.bounds.known,
      leaving: leaving.signal,
    }),
    ...served.routes(({ foundation: { context, format }, recipes }) =>
      makeRoutes({
        config,
        context,
        recipes,
        admit: (deadline) => format.admit(deadline),
        contention: telling.contention,
      }),
    ),
  };
  const authentication = createAuthentication({ config, logger });
  const overload = new Overload({ config, zooKeeperLimit: served.zooKeeperLimit, metrics, logger, clock });
  return { metrics, served, telling, routes, authentication, overload, leaving, draining };
}

/** Starts the listeners; if one fails, stops everything. */
async function serve(parts: Parts, { config, logger, clock = systemClock }: GatewayOptions): Promise<RunningServer> {
  const { metrics, authentication, overload, routes, served } = parts;
  const share = shareOf(config);
  const maxConnections = maxConnectionsOf(share, served.all.length);
  try {
    const signals = { leaving: parts.leaving.signal, draining: parts.draining.signal };
    const app = createApp({ config: share, metrics, logger, clock, authentication, overload, routes, ...signals });
    return await startServer({ app, config: share, maxConnections, logger });
  } catch (error) {
    authentication.close();
    overload.close();
    parts.telling.close();
    served.close();
    throw error;
  }
}

async function stop(parts: Parts, server: RunningServer, pauseMs: number, withinMs: number): Promise<void> {
  const { leaving, draining, served } = parts;
  if (leaving.signal.aborted) return;
  leaving.abort();
  if (pauseMs > 0) await pause(pauseMs);
  draining.abort();
  for (const ensemble of served.all) ensemble.drain();
  await server.stop(withinMs);
  served.close();
  await Promise.all(served.all.map((ensemble) => ensemble.close()));
  parts.authentication.close();
  parts.overload.close();
  parts.telling.close();
}
