/**
 * Every metric of the gateway in one list: name, help, unit, labels. Seconds and bytes; counters end in `_total`.
 *
 * Herd and contention come first: `wakeups / handoffs` is the herd factor (1 is none). Names of locks
 * are never labels. Label sets are bounded and set to zero at start, so that a rate exists from the first scrape.
 *
 * `aggregator` says how a gauge of several workers becomes one of their replica (`aggregate.ts`); the others are summed.
 */
import { Counter, Gauge, Histogram, Registry, collectDefaultMetrics } from 'prom-client';

export const KINDS = ['lock', 'rwlock', 'semaphore', 'election', 'queue', 'barrier'] as const;
export type Kind = (typeof KINDS)[number];

export const ACQUIRE_OUTCOMES = ['immediate', 'waited', 'refused', 'left', 'expired'] as const;
export type AcquireOutcome = (typeof ACQUIRE_OUTCOMES)[number];

export const COUNTER_OUTCOMES = ['applied', 'repeated', 'refused', 'unknown'] as const;
export type CounterOutcome = (typeof COUNTER_OUTCOMES)[number];

export const CONFIG_WRITE_OUTCOMES = ['written', 'repeated', 'refused', 'unknown'] as const;
export type ConfigWriteOutcome = (typeof CONFIG_WRITE_OUTCOMES)[number];
export const TRANSACTION_OUTCOMES = ['committed', 'voted', 'participant-lost', 'deadline', 'requested'] as const;

/** What an overloaded replica waits for. */
export const LATE = ['event_loop', 'zookeeper'] as const;
export type Late = (typeof LATE)[number];

const WATCH_EVENT_TYPES = ['created', 'deleted', 'changed', 'children', 'reset'] as const;
const LIMITS = ['waiters', 'requests', 'waits', 'streams', 'leases'] as const;
const ATTACH_REASONS = ['new', 'moved', 'evicted'] as const;
/** What is done with messages; `expire` ends a claim whose time is over. */
export const QUEUE_OPS = ['push', 'pop', 'claim', 'ack', 'nack', 'expire', 'dead_letter', 'purge', 'redrive'] as const;
export type QueueOp = (typeof QUEUE_OPS)[number];
const HEARTBEAT_OUTCOMES = ['ok', 'expired', 'failed'] as const;

/** A bound at each objective of the project: 1, 5, 10, 50, 100, 250 ms and the longest wait of 55 s. */
const LATENCY_BUCKETS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];
const WAIT_BUCKETS = [0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 55, 120, 600];

/**
 * Process metrics that prom-client brings along and nobody should read: gauges that are named like counters, and two that go
 * through every open socket at every scrape to say what `active_resources` says.
 */
const UNWANTED = [
  'active_handles',
  'active_handles_total',
  'active_requests',
  'active_requests_total',
  'active_resources_total',
];

export type Metrics = ReturnType<typeof createMetrics>;

export interface MetricsOptions {
  version: string;
  /** Node's own process metrics; off in tests that count handles. */
  processMetrics?: boolean;
}

export function createMetrics(options: MetricsOptions) {
  const registry = new Registry();
  const registers = [registry];

  const metrics = {
    registry,

    acquireTotal: new Counter({
      name: 'postern_acquire_total',
      help: 'Requests to acquire, by how they ended: granted at once, granted after waiting, refused, given up by the client, or ended by the loss of the lease.',
      labelNames: ['kind', 'outcome'],
      registers,
    }),
    acquireWaitSeconds: new Histogram({
      name: 'postern_acquire_wait_seconds',
      help: 'Time from the arrival of a request to its grant, granted requests only.',
      labelNames: ['kind'],
      buckets: WAIT_BUCKETS,
      registers,
    }),
    holdSeconds: new Histogram({
      name: 'postern_hold_seconds',
      help: 'Time from grant to release, for holds that were granted and released through the same replica.',
      labelNames: ['kind'],
      buckets: WAIT_BUCKETS,
      registers,
    }),
    waiters: new Gauge({
      name: 'postern_waiters',
      help: 'Requests that wait in line in this replica now.',
      labelNames: ['kind'],
      registers,
    }),
    handoffsTotal: new Counter({
      name: 'postern_handoffs_total',
      help: 'Grants to a contender that had waited.',
      labelNames: ['kind'],
      registers,
    }),
    wakeupsTotal: new Counter({
      name: 'postern_wakeups_total',
      help: 'Times a waiting contender was woken; divided by handoffs this is the herd factor.',
      labelNames: ['kind'],
      registers,
    }),
    spuriousWakeupsTotal: new Counter({
      name: 'postern_spurious_wakeups_total',
      help: 'Wake-ups after which the contender had to go on waiting.',
      labelNames: ['kind'],
      registers,
    }),
    lineListingsTotal: new Counter({
      name: 'postern_line_listings_total',
      help: 'Listings of a line (getChildren) that this replica asked ZooKeeper for.',
      labelNames: ['kind'],
      registers,
    }),
    watchEventsTotal: new Counter({
      name: 'postern_watch_events_total',
      help: 'Watch notifications received from ZooKeeper; reset counts the re-evaluations after the control session was replaced.',
      labelNames: ['type'],
      registers,
    }),
    watches: new Gauge({
      name: 'postern_watches',
      help: 'Watches that this replica has set in ZooKeeper now.',
      registers,
    }),

    counterOperationsTotal: new Counter({
      name: 'postern_counters_operations_total',
      help: 'Operations on counters: applied, found done by an earlier try, refused or failed with nothing done, or of unknown outcome.',
      labelNames: ['outcome'],
      registers,
    }),
    counterTransactionsTotal: new Counter({
      name: 'postern_counters_transactions_total',
      help: 'Transactions that changed a counter; operations divided by them is how many one carries.',
      registers,
    }),
    configWritesTotal: new Counter({
      name: 'postern_config_writes_total',
      help: 'Writes of configuration keys (one for all operations of a request): written, found done by an earlier try, refused or failed with nothing done, or of unknown outcome.',
      labelNames: ['outcome'],
      registers,
    }),
    transactionsDecidedTotal: new Counter({
      name: 'postern_transactions_decided_total',
      help: 'Transactions that this replica has decided: committed, or the reason for which they were aborted.',
      labelNames: ['outcome'],
      registers,
    }),
    transactionSeconds: new Histogram({
      name: 'postern_transaction_seconds',
      help: 'Time from the creation of a transaction to its decision, of those that this replica has decided.',
      labelNames: ['outcome'],
      buckets: WAIT_BUCKETS,
      registers,
    }),

    leasesAttached: new Gauge({
      name: 'postern_leases_attached',
      help: 'Lease sessions that this replica has a connection for now.',
      registers,
    }),
    leaseAttachesTotal: new Counter({
      name: 'postern_lease_attaches_total',
      help: 'Connections made for lease sessions: for a new lease, because the lease was last used elsewhere, or because the connection had been evicted here.',
      labelNames: ['reason'],
      registers,
    }),
    leaseHeartbeatsTotal: new Counter({
      name: 'postern_lease_heartbeats_total',
      help: 'Heartbeats of clients, by result.',
      labelNames: ['outcome'],
      registers,
    }),
    leasesExpiredTotal: new Counter({
      name: 'postern_leases_expired_total',
      help: 'Leases that this replica found to have ended without being ended by their client.',
      registers,
    }),

    queueDepth: new Gauge({
      name: 'postern_queue_depth',
      help: 'Messages in a queue, claimed ones among them, for queues that this replica has used lately. Every replica tells the same: take the maximum.',
      labelNames: ['queue'],
      aggregator: 'max',
      registers,
    }),
    queueOldestMessageTimestampSeconds: new Gauge({
      name: 'postern_queue_oldest_message_timestamp_seconds',
      help: 'When the oldest message of a queue was pushed, for queues that this replica has used lately; 0 when it is empty.',
      labelNames: ['queue'],
      aggregator: 'max',
      registers,
    }),
    queueMessagesTotal: new Counter({
      name: 'postern_queue_messages_total',
      help: 'Messages by what was done with them.',
      labelNames: ['op'],
      registers,
    }),
    queueClaimConflictsTotal: new Counter({
      name: 'postern_queue_claim_conflicts_total',
      help: 'Messages that were to be taken and had been taken by somebody else in that moment.',
      registers,
    }),
    queueRedeliveriesTotal: new Counter({
      name: 'postern_queue_redeliveries_total',
      help: 'Messages that were handed out again because an earlier claim had ended without an acknowledgement.',
      registers,
    }),

    zookeeperRequestDurationSeconds: new Histogram({
      name: 'postern_zookeeper_request_duration_seconds',
      help: 'Time from sending a request to ZooKeeper to its reply.',
      labelNames: ['op'],
      buckets: LATENCY_BUCKETS,
      registers,
    }),
    zookeeperConnected: new Gauge({
      name: 'postern_zookeeper_connected',
      help: 'Whether the control session is connected (1) or not (0).',
      aggregator: 'min',
      registers,
    }),
    zookeeperReconnectsTotal: new Counter({
      name: 'postern_zookeeper_reconnects_total',
      help: 'Times the control session was connected again after its connection was lost.',
      registers,
    }),

    httpRequestDurationSeconds: new Histogram({
      name: 'postern_http_request_duration_seconds',
      help: 'Time from the arrival of a request to the end of its answer, without requests that may wait and streams.',
      labelNames: ['route', 'method', 'status'],
      buckets: LATENCY_BUCKETS,
      registers,
    }),
    httpWaitDurationSeconds: new Histogram({
      name: 'postern_http_wait_duration_seconds',
      help: 'The same for requests that asked to wait (waitMs above 0) and for event streams.',
      labelNames: ['route', 'method', 'status'],
      buckets: WAIT_BUCKETS,
      registers,
    }),
    httpRequestsInFlight: new Gauge({
      name: 'postern_http_requests_in_flight',
      help: 'Requests being served now, waits and streams included.',
      registers,
    }),

    limitRefusalsTotal: new Counter({
      name: 'postern_limit_refusals_total',
      help: 'Requests refused by a limit of this replica (waiters) or of a principal in it (requests, waits, streams, leases).',
      labelNames: ['limit'],
      registers,
    }),

    overloaded: new Gauge({
      name: 'postern_overloaded',
      help: 'Whether this replica is overloaded (1) or not (0), and refuses new work that there is no time for: its event loop is late, or ZooKeeper.',
      labelNames: ['late'],
      aggregator: 'max',
      registers,
    }),
    overloadRefusalsTotal: new Counter({
      name: 'postern_overload_refusals_total',
      help: 'Requests that were refused under overload, before anything was done for them, by what was late.',
      labelNames: ['late'],
      registers,
    }),

    buildInfo: new Gauge({
      name: 'postern_build_info',
      help: 'Always 1; the labels tell the version.',
      labelNames: ['version', 'node'],
      aggregator: 'first',
      registers,
    }),
  };

  metrics.buildInfo.set({ version: options.version, node: process.version }, 1);
  for (const kind of KINDS) {
    for (const outcome of ACQUIRE_OUTCOMES) metrics.acquireTotal.inc({ kind, outcome }, 0);
    metrics.waiters.set({ kind }, 0);
    metrics.handoffsTotal.inc({ kind }, 0);
    metrics.wakeupsTotal.inc({ kind }, 0);
    metrics.spuriousWakeupsTotal.inc({ kind }, 0);
    metrics.lineListingsTotal.inc({ kind }, 0);
  }
  for (const outcome of TRANSACTION_OUTCOMES) metrics.transactionsDecidedTotal.inc({ outcome }, 0);
  for (const op of QUEUE_OPS) metrics.queueMessagesTotal.inc({ op }, 0);
  for (const type of WATCH_EVENT_TYPES) metrics.watchEventsTotal.inc({ type }, 0);
  for (const outcome of COUNTER_OUTCOMES) metrics.counterOperationsTotal.inc({ outcome }, 0);
  for (const outcome of CONFIG_WRITE_OUTCOMES) metrics.configWritesTotal.inc({ outcome }, 0);
  for (const late of LATE) {
    metrics.overloaded.set({ late }, 0);
    metrics.overloadRefusalsTotal.inc({ late }, 0);
  }
  for (const limit of LIMITS) metrics.limitRefusalsTotal.inc({ limit }, 0);
  for (const reason of ATTACH_REASONS) metrics.leaseAttachesTotal.inc({ reason }, 0);
  for (const outcome of HEARTBEAT_OUTCOMES) metrics.leaseHeartbeatsTotal.inc({ outcome }, 0);
  if (options.processMetrics ?? true) {
    collectDefaultMetrics({ register: registry, prefix: 'postern_' });
    for (const name of UNWANTED) registry.removeSingleMetric(`postern_nodejs_${name}`);
  }
  return metrics;
}
