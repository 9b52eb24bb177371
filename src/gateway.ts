/**
 * The composition root: builds the layers from the settings, and knows in which order they start and stop.
 *
 * Stop: not ready, and serving on until balancers have noticed → the waiters are answered and keep their places → no new
 * connections, the rest is answered → sessions of leases are detached (they live on, their clients go to another replica) → the control session is closed.
 */
import type { Config } from './config.js';
import { createApp } from './http/app.js';
import { createAuthentication } from './http/auth.js';
import { Overload } from './http/overload.js';
import { barrierRoutes } from './http/routes/barriers.js';
import { configRoutes } from './http/routes/config.js';
import { counterRoutes } from './http/routes/counters.js';
import { contentionRoutes } from './http/routes/contention.js';
import { doubleBarrierRoutes } from './http/routes/double-barriers.js';
import { electionRoutes } from './http/routes/elections.js';
import { groupRoutes } from './http/routes/groups.js';
import { leaseRoutes } from './http/routes/leases.js';
import { lockRoutes } from './http/routes/locks.js';
import { queueRoutes } from './http/routes/queues.js';
import { operationsRoutes } from './http/routes/operations.js';
import { transactionRoutes } from './http/routes/transactions.js';
import { startServer, type RunningServer } from './http/server.js';
import { AttachedSessions } from './leases/attached-sessions.js';
import { LeaseKeys } from './leases/keys.js';
import { Layout } from './leases/layout.js';
import { Leases } from './leases/leases.js';
import { SessionBounds } from './leases/session-bounds.js';
import type { Logger } from './log.js';
import { aggregateMetrics, type MetricsTold } from './metrics/aggregate.js';
import { createMetrics, type Metrics } from './metrics/metrics.js';
import { BarrierObservers } from './recipes/barrier-observer.js';
import { Cleanup } from './recipes/cleanup.js';
import { Contention, type ContentionTold } from './recipes/contention.js';
import { ConfigObservers } from './recipes/config/observers.js';
import { TidyConfig } from './recipes/config/tidy.js';
import { ConfigWriter } from './recipes/config/write.js';
import type { Coordination } from './recipes/coordination.js';
import { TidyCounterMarks } from './recipes/counter/tidy.js';
import { CounterObservers } from './recipes/counter/observers.js';
import { CounterWriter } from './recipes/counter/writer.js';
import { FreeLines } from './recipes/free-lines.js';
import { GrantedHolds } from './recipes/granted-holds.js';
import { RoundObservers } from './recipes/double-barrier-observer.js';
import { DoubleBarriers } from './recipes/double-barrier.js';
import { GroupObservers } from './recipes/group-observer.js';
import { HOUSEKEEPING_TIMING, Housekeeping, type HousekeepingTiming } from './recipes/housekeeping.js';
import { Lines } from './recipes/line.js';
import { IdleDirectories } from './recipes/idle-directories.js';
import { LineObservers } from './recipes/line-observer.js';
import { Memberships } from './recipes/membership.js';
import { QueueMetrics } from './recipes/queue/queue-metrics.js';
import { QueueObservers } from './recipes/queue/queue-observers.js';
import { Queues } from './recipes/queue/queues.js';
import { TidyQueues } from './recipes/queue/tidy-queues.js';
import { RevocationWatch } from './recipes/revocation-watch.js';
import { TidyLockDelays } from './recipes/tidy-lock-delays.js';
import { TransactionChore } from './recipes/transaction-chore.js';
import { Transactions } from './recipes/transaction.js';
import { Rounds } from './recipes/rounds.js';
import { pause, SECOND, systemClock, type Clock } from './time.js';
import { version } from './version.js';
import { Siblings } from './workers/siblings.js';
import { CREATOR_ACL, OPEN_ACL } from './zookeeper/acl.js';
import { Backlog } from './zookeeper/backlog.js';
import { BacklogLimit } from './zookeeper/backlog-limit.js';
import type { Ensemble, ZooKeeperObserver } from './zookeeper/client.js';
import { parseConnectString } from './zookeeper/connect-string.js';
import { ControlSession } from './zookeeper/control-session.js';
import { ServerClock } from './zookeeper/server-clock.js';

/** Long enough for the ensemble to elect a leader, short enough that a dead replica's watches and housekeeping end soon. */
const CONTROL_SESSION_TIMEOUT_MS = 10 * SECOND;
const HANDSHAKE_TIMEOUT_MS = 3 * SECOND;
/** A shorter loss of ZooKeeper is survived by waiting requests; only a longer one takes the replica out of service. */
const NOT_READY_AFTER_MS = 10 * SECOND;
const CLOSE_CONTROL_MS = SECOND;

export interface GatewayOptions {
  config: Config;
  logger: Logger;
  clock?: Clock;
  housekeeping?: HousekeepingTiming;
  /** Node's own process metrics; off where many gateways share a process. */
  processMetrics?: boolean;
}

export interface Gateway {
  readonly url: string;
  readonly port: number;
  readonly opsPort: number | undefined;
  readonly metrics: Metrics;
  readonly context: Coordination;
  readonly observers: LineObservers;
  /** Of all kinds: what this replica observes for its clients now. */
  observed(): number;
  readonly transactions: Transactions;
  /** Those that this replica uses now. */
  readonly queues: Queues;
  /** How much is in them, counted every few seconds. */
  readonly queueMetrics: QueueMetrics;
  /** Configuration keys and counters that are being written. */
  writing(): number;
  /** Lets go gracefully: after the pause of the setting, and by force after `withinMs` more (default: the setting). */
  stop(withinMs?: number): Promise<void>;
}

/** @throws Error with one sentence when the listener, the connect string or the file of keys cannot be used */
export async function startGateway(options: GatewayOptions): Promise<Gateway> {
  const { config, logger, clock = systemClock } = options;
  if (config.zookeeper === undefined)
    throw new Error(
      'POSTERN_ZOOKEEPER is not set; it names the ensemble to use, for example 127.0.0.1:2181. `npm start` without it starts one.',
    );
  const share = shareOf(config);
  const metrics = createMetrics({ version, processMetrics: options.processMetrics ?? true });
  const backlog = new Backlog();
  const ensemble = ensembleOf(config, backlog, zooKeeperObserver(metrics, logger));
  const control = new ControlSession(ensemble, { sessionTimeoutMs: CONTROL_SESSION_TIMEOUT_MS });
  const layout = new Layout(config.root);
  const sessions = new AttachedSessions({ ensemble, cap: share.maxAttached, metrics });
  const bounds = new SessionBounds(sessions);
  const keys = new LeaseKeys(control, layout, config.leaseKeys);
  const { maxLeasesPerPrincipal } = share;
  const leases = new Leases({ control, sessions, keys, bounds, layout, clock, metrics, maxLeasesPerPrincipal });
  const cleanup = new Cleanup(control);
  const context: Coordination = {
    control,
    leases,
    layout,
    zooKeeperClock: ensemble.clock,
    metrics,
    lines: new Lines(control, metrics),
    granted: new GrantedHolds(),
    freeLines: new FreeLines(),
    cleanup,
    contention: new Contention(),
  };
  const observers = new LineObservers(control);
  const groups = new GroupObservers(control);
  const barriers = new BarrierObservers(context);
  const memberships = new Memberships(context);
  const rounds = new Rounds(control);
  const roundObservers = new RoundObservers(control, rounds);
  const doubleBarriers = new DoubleBarriers(context, memberships, rounds, roundObservers);
  const configuration = { observers: new ConfigObservers(context), writer: new ConfigWriter(context) };
  const transactions = new Transactions(context, (error) =>
    logger.warn({ err: error }, 'a transaction could not be looked after; it is tried again'),
  );
  const counters = new CounterWriter(context);
  const counterObservers = new CounterObservers(context);
  const housekeepingTiming = options.housekeeping ?? HOUSEKEEPING_TIMING;
  const queues = new Queues(context);
  const queueObservers = new QueueObservers(context, queues);
  const queueMetrics = new QueueMetrics(context, queues, config.maxQueueLabels, (error) =>
    logger.warn({ err: error }, 'queues could not be counted; they are counted next time'),
  );
  const housekeeping = new Housekeeping(
    context,
    (error) => logger.warn({ err: error }, 'housekeeping failed; it is tried again'),
    housekeepingTiming,
    [
      new IdleDirectories(context, housekeepingTiming.idleMs),
      new TidyLockDelays(context),
      new TidyConfig(context, housekeepingTiming.tombstoneMs),
      new TransactionChore(context, transactions, config.transactionHistoryMs),
      new TidyQueues(context, queues),
      new TidyCounterMarks(context, housekeepingTiming.counterMarkMs),
    ],
  );
  const revocations = new RevocationWatch(context, (error) =>
    logger.warn({ err: error }, 'a revocation could not be looked after; it is tried again'),
  );
  const leaving = new AbortController();
  const draining = new AbortController();
  const authentication = createAuthentication({ config, logger });
  const zooKeeperLimit = new BacklogLimit(backlog, config.overloadDelayMs, clock.monotonic());
  const overload = new Overload({ config, zooKeeperLimit, metrics, logger, clock });
  let prepared = false;

  const readiness = (): { ready: boolean; reasons: string[] } => {
    const reasons: string[] = [];
    if (leaving.signal.aborted) reasons.push('It is shutting down.');
    const away = control.disconnectedSince;
    if (!prepared) reasons.push('ZooKeeper has not been reached yet.');
    else if (away !== undefined && clock.monotonic() - away >= NOT_READY_AFTER_MS)
      reasons.push(`ZooKeeper has been away for ${Math.round((clock.monotonic() - away) / SECOND)} s.`);
    return { ready: reasons.length === 0, reasons };
  };

  const siblings = new Siblings({
    metrics: () => metrics.registry.getMetricsAsJSON(),
    contention: (namespace) => context.contention.tell(namespace as string),
  });
  const exposition = async (): Promise<string> =>
    config.workers === 1 ? metrics.registry.metrics() : aggregateMetrics(await siblings.gather<MetricsTold>('metrics'));

  let server: RunningServer;
  try {
    const app = createApp({
      config: share,
      metrics,
      logger,
      clock,
      authentication,
      overload,
      routes: {
        ...operationsRoutes({
          config,
          exposition,
          clock,
          version,
          readiness,
          sessionBounds: () => bounds.known,
          leaving: leaving.signal,
        }),
        ...contentionRoutes((namespace) => siblings.gather<ContentionTold[]>('contention', namespace)),
        ...leaseRoutes(context, observers),
        ...lockRoutes(context, observers),
        ...electionRoutes(context, observers),
        ...groupRoutes(context, memberships, groups),
        ...configRoutes({ context, ...configuration }),
        ...transactionRoutes(context, transactions),
        ...barrierRoutes(context, barriers),
        ...queueRoutes({ context, queues, observers: queueObservers, maxMessageBytes: config.maxMessageBytes }),
        ...counterRoutes(context, counters, counterObservers),
        ...doubleBarrierRoutes(context, doubleBarriers, roundObservers),
      },
      leaving: leaving.signal,
      draining: draining.signal,
    });
    server = await startServer({ app, config, logger });
  } catch (error) {
    authentication.close();
    overload.close();
    throw error;
  }
  control.start();
  control.onNewSession(() => void prepare());
  // Leases can do without a connection of their own; the replica cannot.
  control.onRefused(() => sessions.makeRoom());

  /** Makes what every request relies on, and reads what it needs to know, as soon as there is an ensemble. */
  async function prepare(): Promise<void> {
    try {
      const deadline = performance.now() + config.requestTimeoutMs;
      await control.ensureChroot(deadline);
      await control.ensurePath(layout.namespaces, deadline);
      await keys.ring(deadline);
      await bounds.read(deadline);
      if (!prepared) revocations.start();
      prepared = true;
    } catch (error) {
      if (draining.signal.aborted) return;
      logger.warn({ err: error }, 'ZooKeeper was reached but could not be prepared; it is tried again');
      setTimeout(() => void prepare(), SECOND).unref();
    }
  }

  housekeeping.start();
  queueMetrics.start();
  return {
    url: server.url,
    port: server.port,
    opsPort: server.opsPort,
    metrics,
    context,
    observers,
    observed: () =>
      observers.size +
      groups.size +
      barriers.size +
      roundObservers.size +
      configuration.observers.size +
      counterObservers.size +
      transactions.observers.size +
      queueObservers.size,
    writing: () => configuration.writer.size + counters.size,
    transactions,
    queues,
    queueMetrics,
    async stop(withinMs = config.drainMs) {
      if (leaving.signal.aborted) return;
      leaving.abort();
      if (config.drainPauseMs > 0) await pause(config.drainPauseMs);
      draining.abort();
      housekeeping.stop();
      revocations.stop();
      transactions.watch.stop();
      await server.stop(withinMs);
      queueMetrics.stop();
      queues.close();
      await cleanup.stop();
      sessions.detachAll();
      await control.stop(performance.now() + CLOSE_CONTROL_MS);
      authentication.close();
      overload.close();
      siblings.close();
    },
  };
}

/** What one worker of the replica may have of its limits. */
function shareOf(config: Config): Config {
  const of = (limit: number): number => Math.ceil(limit / config.workers);
  return {
    ...config,
    maxWaiters: of(config.maxWaiters),
    maxAttached: of(config.maxAttached),
    maxWaitsPerPrincipal: of(config.maxWaitsPerPrincipal),
    maxStreamsPerPrincipal: of(config.maxStreamsPerPrincipal),
    maxLeasesPerPrincipal: of(config.maxLeasesPerPrincipal),
    rateLimit: of(config.rateLimit),
    rateBurst: of(config.rateBurst),
  };
}

function ensembleOf(config: Config, backlog: Backlog, observer: ZooKeeperObserver): Ensemble {
  const { servers, chroot } = parseConnectString(config.zookeeper as string);
  const { zookeeperAuth, zookeeperTls, zookeeperTlsCa, zookeeperTlsCert, zookeeperTlsKey } = config;
  return {
    servers,
    chroot,
    credentials: zookeeperAuth === undefined ? [] : [{ scheme: 'digest', auth: Buffer.from(zookeeperAuth) }],
    tls: zookeeperTls ? { ca: zookeeperTlsCa, cert: zookeeperTlsCert, key: zookeeperTlsKey } : undefined,
    // With credentials every node belongs to the gateway alone.
    acl: zookeeperAuth === undefined ? OPEN_ACL : CREATOR_ACL,
    handshakeTimeoutMs: HANDSHAKE_TIMEOUT_MS,
    clock: new ServerClock(),
    backlog,
    observer,
  };
}

function zooKeeperObserver(metrics: Metrics, logger: Logger): ZooKeeperObserver {
  const durations = new Map<string, { observe(seconds: number): void }>();
  return {
    request(operation, ms) {
      let duration = durations.get(operation);
      if (duration === undefined)
        durations.set(operation, (duration = metrics.zookeeperRequestDurationSeconds.labels({ op: operation })));
      duration.observe(ms / 1_000);
    },
    connected(connected) {
      metrics.zookeeperConnected.set(connected ? 1 : 0);
      if (connected) logger.info('connected to ZooKeeper');
      else logger.warn('the connection to ZooKeeper was lost');
    },
    reconnected: () => metrics.zookeeperReconnectsTotal.inc(),
    watchEvent: (type) => metrics.watchEventsTotal.inc({ type }),
    watches: (count) => metrics.watches.set(count),
    fault: (error) => logger.warn({ err: error }, 'a connection to ZooKeeper failed'),
  };
}
