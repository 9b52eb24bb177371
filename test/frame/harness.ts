/**
 * The frame without ZooKeeper: real operations routes, and for leases and locks whatever handlers a test gives.
 */
import { Writable } from 'node:stream';
import { loadConfig, type Config } from '../../src/config.js';
import { createApp, type App } from '../../src/http/frame/app.js';
import { createAuthentication } from '../../src/http/access/auth.js';
import type { StreamTuning } from '../../src/http/frame/events.js';
import type { Handler, Routes } from '../../src/http/frame/exchange.js';
import { openApi } from '../../src/http/contract/openapi.js';
import { Overload, type ZooKeeperLimit } from '../../src/http/overload/overload.js';
import { operationsRoutes, type Readiness } from '../../src/http/routes/operations.js';
import { maxConnectionsOf } from '../../src/http/server/max-connections.js';
import { startServer, type RunningServer, type ServerTimeouts } from '../../src/http/server/server.js';
import { createLog, type Log, type Logger } from '../../src/log.js';
import { createMetrics, type Metrics } from '../../src/metrics/metrics.js';
import { systemClock } from '../../src/time.js';
import { timing } from '../support/timing.js';

const NO_LIMIT: ZooKeeperLimit = { set: false, admit: () => true, look: () => undefined };

export interface FrameOptions {
  config?: Partial<Config>;
  routes?: Routes;
  readiness?: () => Readiness;
  timeouts?: Partial<ServerTimeouts>;
  streamTuning?: StreamTuning;
  authPollMs?: number;
  tlsPollMs?: number;
  oidcPauseMs?: number;
  oidcRefreshMs?: number;
  zooKeeperLimit?: ZooKeeperLimit;
}

export interface Frame extends AsyncDisposable {
  url: string;
  app: App;
  server: RunningServer;
  metrics: Metrics;
  leave: AbortController;
  drain: AbortController;
  /** The lines of the log so far, parsed. */
  log(): Record<string, unknown>[];
}

export async function startFrame(options: FrameOptions = {}): Promise<Frame> {
  // What a test does delays the event loop as well, and is no load.
  const calm = { overloadDelayMs: 0 };
  const config: Config = { ...loadConfig({ POSTERN_PORT: '0' }).config, ...calm, ...options.config };
  const { logger, log } = keptLog();
  const metrics = createMetrics({ version: 'test', processMetrics: false });
  const [leave, drain] = [new AbortController(), new AbortController()];
  drain.signal.addEventListener('abort', () => leave.abort());
  const authentication = authenticationOf(config, logger, options);
  const maxConnections = maxConnectionsOf(config, 1);
  const operations = operationsRoutes({
    config,
    maxConnections,
    exposition: () => metrics.registry.metrics(),
    clock: systemClock,
    version: '0.0.0-test',
    readiness: options.readiness ?? (() => ({ ready: true, reasons: [] })),
    sessionBounds: () => ({ minTtlMs: 4000, maxTtlMs: 40_000 }),
    leaving: leave.signal,
  });
  const { zooKeeperLimit = NO_LIMIT } = options;
  const overload = new Overload({ config, zooKeeperLimit, metrics, logger, clock: systemClock });
  const app = createApp({
    config,
    metrics,
    logger,
    clock: systemClock,
    authentication,
    overload,
    routes: { ...unserved(Object.keys(operations)), ...operations, ...options.routes },
    leaving: leave.signal,
    draining: drain.signal,
    ...(options.streamTuning === undefined ? {} : { streamTuning: options.streamTuning }),
  });
  const server = await startServer({
    app,
    config,
    maxConnections,
    logger,
    tlsPollMs: options.tlsPollMs,
    ...(options.timeouts === undefined ? {} : { timeouts: options.timeouts }),
  });
  return {
    url: server.url,
    app,
    server,
    metrics,
    leave,
    drain,
    log,
    async [Symbol.asyncDispose]() {
      drain.abort();
      await server.stop(timing.pollMs);
      authentication.close();
      overload.close();
    },
  };
}

function authenticationOf(
  config: Config,
  logger: Logger,
  { authPollMs, oidcPauseMs, oidcRefreshMs }: FrameOptions,
): ReturnType<typeof createAuthentication> {
  return createAuthentication({
    config,
    logger,
    ...(authPollMs === undefined ? {} : { pollMs: authPollMs }),
    ...(oidcPauseMs === undefined ? {} : { oidcPauseMs }),
    ...(oidcRefreshMs === undefined ? {} : { oidcRefreshMs }),
  });
}

/** Of level `trace`, into memory. */
function keptLog(): Pick<Frame, 'log'> & Pick<Log, 'logger'> {
  const lines: string[] = [];
  const sink = new Writable({
    write(chunk: Buffer, _encoding, done) {
      lines.push(chunk.toString());
      done();
    },
  });
  const { logger } = createLog({ logLevel: 'trace' }, sink);
  return { logger, log: () => lines.map((line) => JSON.parse(line) as Record<string, unknown>) };
}

/** Operations that the test at hand does not call. */
function unserved(served: readonly string[]): Routes {
  const handler: Handler = ({ operationId }) => Promise.reject(new Error(`the test has no handler for ${operationId}`));
  const others = openApi().operations.filter(({ operationId }) => !served.includes(operationId));
  return Object.fromEntries(others.map(({ operationId }) => [operationId, handler]));
}
