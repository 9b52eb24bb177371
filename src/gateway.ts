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
import { startServer, type RunningServer } from './http/server/server.js';
import type { Logger } from './log.js';
import { createMetrics, type Metrics } from './metrics/metrics.js';
import type { Coordination } from './recipes/coordination.js';
import { HOUSEKEEPING_TIMING, Housekeeping, type HousekeepingTiming } from './recipes/housekeeping/housekeeping.js';
import { makeRecipes, type Recipes } from './recipes/index.js';
import type { Recipe } from './recipes/recipe.js';
import { pause, SECOND, systemClock, type Clock } from './time.js';
import { version } from './version.js';
import { ensembleOf } from './wiring/ensemble.js';
import { foundationOf, type Foundation } from './wiring/foundation.js';
import { Preparation } from './wiring/readiness.js';
import { tellingOf, type Telling } from './wiring/telling.js';
import { shareOf } from './workers/share.js';
import { Backlog } from './zookeeper/connection/backlog.js';
import { BacklogLimit } from './zookeeper/connection/backlog-limit.js';

/**
 * Long enough for the ensemble to elect a leader; short enough to end a dead replica's watches and housekeeping soon.
 */
const CONTROL_SESSION_TIMEOUT_MS = 10 * SECOND;
const CLOSE_CONTROL_MS = SECOND;
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
}

export interface Gateway {
  readonly url: string;
  readonly port: number;
  readonly opsPort: number | undefined;
  readonly metrics: Metrics;
  readonly context: Coordination;
  readonly recipes: Recipes;
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
  readonly foundation: Foundation;
  readonly recipes: Recipes;
  readonly housekeeping: Housekeeping;
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
  const { metrics, recipes } = parts;
  const { context } = parts.foundation;
  context.control.start();
  const sum = (count: (recipe: Recipe) => number | undefined): number =>
    listOf(recipes).reduce((total, recipe) => total + (count(recipe) ?? 0), 0);
  return {
    url: server.url,
    port: server.port,
    opsPort: server.opsPort,
    metrics,
    context,
    recipes,
    observed: () => sum((recipe) => recipe.observed?.()),
    writing: () => sum((recipe) => recipe.writing?.()),
    stop: (withinMs = config.drainMs) => stop(parts, server, config.drainPauseMs, withinMs),
  };
}

/** Builds the parts; none of them talks to ZooKeeper or is reachable yet. */
function assemble(options: GatewayOptions): Parts {
  const { config, logger, clock = systemClock } = options;
  const share = shareOf(config);
  const metrics = createMetrics({ version, processMetrics: options.processMetrics ?? true });
  const backlog = new Backlog();
  const ensemble = ensembleOf(config, backlog, metrics, logger);
  const sessionTimeoutMs = options.controlSessionTimeoutMs ?? CONTROL_SESSION_TIMEOUT_MS;
  const foundation = foundationOf({ config: share, ensemble, metrics, logger, clock, sessionTimeoutMs });
  const { context, bounds } = foundation;
  const timing = options.housekeeping ?? HOUSEKEEPING_TIMING;
  const warn = (error: unknown, message: string): void => logger.warn({ err: error }, message);
  const recipes = makeRecipes(context, { config: share, timing, warn });
  const onFault = (error: unknown): void => warn(error, 'housekeeping failed; retrying');
  const chores = listOf(recipes).flatMap((recipe) => recipe.chores ?? []);
  const housekeeping = new Housekeeping(context, onFault, timing, chores);
  const [leaving, draining] = [new AbortController(), new AbortController()];
  const preparation = new Preparation({
    ...foundation,
    requestTimeoutMs: config.requestTimeoutMs,
    clock,
    logger,
    leaving: leaving.signal,
    draining: draining.signal,
    onPrepared: () => {
      listOf(recipes).forEach((recipe) => recipe.start?.());
      housekeeping.start();
    },
  });
  const telling = tellingOf({
    metrics,
    contention: context.contention,
    contendedLabels: config.maxContendedLabels,
    control: context.control,
    clock,
    workers: config.workers,
    expositionMs: options.expositionMs ?? EXPOSITION_MS,
  });
  const routes = makeRoutes({
    config,
    context,
    recipes,
    admit: (deadline) => foundation.format.admit(deadline),
    clock,
    version,
    exposition: telling.exposition,
    contention: telling.contention,
    readiness: () => preparation.readiness(),
    sessionBounds: () => bounds.known,
    leaving: leaving.signal,
  });
  const authentication = createAuthentication({ config, logger });
  const zooKeeperLimit = new BacklogLimit(backlog, config.overloadDelayMs, clock.monotonic());
  const overload = new Overload({ config, zooKeeperLimit, metrics, logger, clock });
  return { metrics, foundation, recipes, housekeeping, telling, routes, authentication, overload, leaving, draining };
}

function listOf(recipes: Recipes): readonly Recipe[] {
  return Object.values(recipes);
}

/** Starts the listeners; if one fails, stops everything. */
async function serve(parts: Parts, { config, logger, clock = systemClock }: GatewayOptions): Promise<RunningServer> {
  const { metrics, authentication, overload, routes } = parts;
  const share = shareOf(config);
  try {
    const signals = { leaving: parts.leaving.signal, draining: parts.draining.signal };
    const app = createApp({ config: share, metrics, logger, clock, authentication, overload, routes, ...signals });
    return await startServer({ app, config: share, logger });
  } catch (error) {
    authentication.close();
    overload.close();
    parts.telling.close();
    throw error;
  }
}

async function stop(parts: Parts, server: RunningServer, pauseMs: number, withinMs: number): Promise<void> {
  const { leaving, draining, foundation } = parts;
  const { context, sessions } = foundation;
  const recipes = listOf(parts.recipes);
  if (leaving.signal.aborted) return;
  leaving.abort();
  if (pauseMs > 0) await pause(pauseMs);
  draining.abort();
  parts.housekeeping.stop();
  for (const recipe of recipes) recipe.stop?.();
  await server.stop(withinMs);
  for (const recipe of recipes) recipe.close?.();
  await context.cleanup.stop();
  sessions.detachAll();
  await context.control.stop(performance.now() + CLOSE_CONTROL_MS);
  parts.authentication.close();
  parts.overload.close();
  parts.telling.close();
}
