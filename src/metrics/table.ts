/**
 * Every metric of the gateway: name, help, unit, labels. Seconds and bytes; counters end in `_total`.
 *
 * Herd and contention come first: `wakeups / handoffs` is the herd factor (1 means none). Label sets are bounded; names
 * of locks are labels only in the short list of `postern_contended_waiters`.
 *
 * `aggregator` says how the gauges of several workers become one of their replica (`aggregate.ts`); by default they are
 * summed.
 */
import {
  ACQUIRE_OUTCOMES,
  ATTACH_REASONS,
  CONFIG_WRITE_OUTCOMES,
  COUNTER_OUTCOMES,
  GROUP_COMMIT_FAILURES,
  GROUP_MESSAGE_OUTCOMES,
  HEARTBEAT_OUTCOMES,
  KINDS,
  LATE,
  LIMITS,
  QUEUE_OPS,
  RESERVATION_OUTCOMES,
  RUN_FINISH_OUTCOMES,
  POOL_MEMBER_OUTCOMES,
  RUN_START_OUTCOMES,
  SCHEDULE_OUTCOMES,
  SET_ASIDE_REASONS,
  TRANSACTION_OUTCOMES,
  WATCH_EVENT_TYPES,
} from './labels.js';
import { counter, gauge, histogram } from './metric.js';

/** A bound at each latency objective: 1, 5, 10, 50, 100, 250 ms and the longest wait of 55 s. */
const LATENCY_BUCKETS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];
const WAIT_BUCKETS = [0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 55, 120, 600];
/** On time, after another replica took over, and after an outage. */
const LATENESS_BUCKETS = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 3_600, 86_400];

export const TABLE = {
  acquireTotal: counter({
    name: 'postern_acquire_total',
    help: 'Requests to acquire, by how they ended: granted at once, granted after waiting, refused, given up by the client, or ended by the loss of the lease.',
    labels: { kind: KINDS, outcome: ACQUIRE_OUTCOMES },
  }),
  acquireWaitSeconds: histogram({
    name: 'postern_acquire_wait_seconds',
    help: 'Time from the arrival of a request to its grant, granted requests only.',
    labels: ['kind'],
    buckets: WAIT_BUCKETS,
  }),
  holdSeconds: histogram({
    name: 'postern_hold_seconds',
    help: 'Time from grant to release, for holds that were granted and released through the same replica.',
    labels: ['kind'],
    buckets: WAIT_BUCKETS,
  }),
  waiters: gauge({
    name: 'postern_waiters',
    help: 'Requests that wait in line in this replica now.',
    labels: { kind: KINDS },
  }),
  contendedWaiters: gauge({
    name: 'postern_contended_waiters',
    help: 'Requests that wait now, of the names with the longest lines in each process: POSTERN_MAX_CONTENDED_LABELS of them, and within an hour at most ten times as many. Elsewhere names are no labels.',
    labels: ['namespace', 'kind', 'name'],
  }),
  oldestWaitSeconds: gauge({
    name: 'postern_oldest_wait_seconds',
    help: 'How long the request that has been waiting longest in this replica has been waiting; 0 when none waits.',
    labels: { kind: KINDS },
    aggregator: 'max',
  }),
  successionSeconds: histogram({
    name: 'postern_succession_seconds',
    help: 'Time from the notice that the turn of a waiting contender has come (the lease of the one before it ended, or another replica or library released) to the reply to its grant. Releases that hand over in one transaction, and waits for a lock-delay, are not in it.',
    labels: ['kind'],
    buckets: LATENCY_BUCKETS,
  }),
  handoffsTotal: counter({
    name: 'postern_handoffs_total',
    help: 'Grants to a contender that had waited.',
    labels: { kind: KINDS },
  }),
  wakeupsTotal: counter({
    name: 'postern_wakeups_total',
    help: 'Times a waiting contender was woken; divided by handoffs this is the herd factor.',
    labels: { kind: KINDS },
  }),
  spuriousWakeupsTotal: counter({
    name: 'postern_spurious_wakeups_total',
    help: 'Wake-ups after which the contender had to go on waiting.',
    labels: { kind: KINDS },
  }),
  revocationsTotal: counter({
    name: 'postern_revocations_total',
    help: 'Holds that were asked back, and holds that this replica broke when their time had come.',
    labels: ['kind', 'outcome'],
  }),
  lineListingsTotal: counter({
    name: 'postern_line_listings_total',
    help: 'Listings of a line (getChildren) that this replica asked ZooKeeper for.',
    labels: { kind: KINDS },
  }),
  watchEventsTotal: counter({
    name: 'postern_watch_events_total',
    help: 'Watch notifications received from ZooKeeper; reset counts the re-evaluations after the control session was replaced.',
    labels: { type: WATCH_EVENT_TYPES },
  }),
  watches: gauge({
    name: 'postern_watches',
    help: 'Watches that this replica has set in ZooKeeper now.',
  }),

  counterOperationsTotal: counter({
    name: 'postern_counters_operations_total',
    help: 'Operations on counters: applied, found done by an earlier try, refused or failed with nothing done, or of unknown outcome.',
    labels: { outcome: COUNTER_OUTCOMES },
  }),
  counterTransactionsTotal: counter({
    name: 'postern_counters_transactions_total',
    help: 'Transactions that changed a counter; operations divided by them is how many one carries.',
  }),
  configWritesTotal: counter({
    name: 'postern_config_writes_total',
    help: 'Writes of configuration keys (one for all operations of a request): written, found done by an earlier try, refused or failed with nothing done, or of unknown outcome.',
    labels: { outcome: CONFIG_WRITE_OUTCOMES },
  }),
  transactionsDecidedTotal: counter({
    name: 'postern_transactions_decided_total',
    help: 'Transactions that this replica has decided: committed, or the reason for which they were aborted.',
    labels: { outcome: TRANSACTION_OUTCOMES },
  }),
  transactionSeconds: histogram({
    name: 'postern_transaction_seconds',
    help: 'Time from the creation of a transaction to its decision, of those that this replica has decided.',
    labels: ['outcome'],
    buckets: WAIT_BUCKETS,
  }),

  leasesAttached: gauge({
    name: 'postern_leases_attached',
    help: 'Lease sessions that this replica has a connection for now.',
  }),
  reservations: gauge({
    name: 'postern_reservations',
    help: 'Reservations of locks that stand now, in all namespaces; every replica knows all of them.',
    aggregator: 'max',
  }),
  reservationsTotal: counter({
    name: 'postern_reservations_total',
    help: 'What this replica did with reservations of locks: reserved, extended, released by their token, ended at their time, removed because nobody asked for them any more while they waited, or given back because the answer could not be delivered.',
    labels: { outcome: RESERVATION_OUTCOMES },
  }),
  reservationLateSeconds: histogram({
    name: 'postern_reservation_late_seconds',
    help: "How long after its time a reservation was freed, on the ensemble's clock; of those that this replica freed.",
    labels: [],
    buckets: [0.05, 0.1, 0.25, 0.5, 1, 2, 5, 15, 60],
  }),
  poolMembersTotal: counter({
    name: 'postern_pool_members_total',
    help: 'Members of pools that were assigned, that were released, and that were found lost with their lease, in pools with a quarantine.',
    labels: { outcome: POOL_MEMBER_OUTCOMES },
  }),
  runStartsTotal: counter({
    name: 'postern_run_starts_total',
    help: 'Starts of an occurrence, by what they were told: started, started by an earlier try, or that it is running, done or failed.',
    labels: { outcome: RUN_START_OUTCOMES },
  }),
  runFinishesTotal: counter({
    name: 'postern_run_finishes_total',
    help: 'Attempts at an occurrence that were finished, by their outcome; those whose lease ended are not in it.',
    labels: { outcome: RUN_FINISH_OUTCOMES },
  }),
  groupMessagesTotal: counter({
    name: 'postern_group_messages_total',
    help: 'Messages to groups: posted, found posted by an earlier try, dropped because there were more than are kept, expired because they were older.',
    labels: { outcome: GROUP_MESSAGE_OUTCOMES },
  }),
  scheduleOccurrencesTotal: counter({
    name: 'postern_schedule_occurrences_total',
    help: 'Occurrences of schedules that were pushed to their queue, or missed: too late, and so passed over.',
    labels: { outcome: SCHEDULE_OUTCOMES },
  }),
  scheduleLatenessSeconds: histogram({
    name: 'postern_schedule_lateness_seconds',
    help: 'How long after its time an occurrence of a schedule was pushed.',
    buckets: LATENESS_BUCKETS,
  }),
  scheduleRefusalsTotal: counter({
    name: 'postern_schedule_refusals_total',
    help: 'Pushes of schedules that their queue refused, as when it is full; each is tried again until it is too late.',
  }),
  schedules: gauge({
    name: 'postern_schedules',
    help: 'Schedules that this replica fires: all there are in one replica, none in the others.',
  }),
  leaseAttachesTotal: counter({
    name: 'postern_lease_attaches_total',
    help: 'Connections made for lease sessions: for a new lease, because the lease was last used elsewhere, because the connection had been evicted here, or because nothing was answered on it for half the TTL.',
    labels: { reason: ATTACH_REASONS },
  }),
  leaseHeartbeatsTotal: counter({
    name: 'postern_lease_heartbeats_total',
    help: 'Heartbeats of clients, by result.',
    labels: { outcome: HEARTBEAT_OUTCOMES },
  }),
  leasesExpiredTotal: counter({
    name: 'postern_leases_expired_total',
    help: 'Leases that this replica found to have ended without being ended by their client.',
  }),

  queueDepth: gauge({
    name: 'postern_queue_depth',
    help: 'Messages in a queue, claimed ones among them, for queues that this replica has used lately. Every replica tells the same: take the maximum.',
    labels: ['queue'],
    aggregator: 'max',
  }),
  queueOldestMessageTimestampSeconds: gauge({
    name: 'postern_queue_oldest_message_timestamp_seconds',
    help: 'When the oldest message of a queue came into it, for queues that this replica has used lately; 0 when it is empty.',
    labels: ['queue'],
    aggregator: 'max',
  }),
  queuePaused: gauge({
    name: 'postern_queue_paused',
    help: '1 for each queue that is paused and that this replica has used lately; of those summed as `other`, how many are.',
    labels: ['queue'],
    aggregator: 'max',
  }),
  queueMessagesTotal: counter({
    name: 'postern_queue_messages_total',
    help: 'Messages by what was done with them.',
    labels: { op: QUEUE_OPS },
  }),
  queueClaimConflictsTotal: counter({
    name: 'postern_queue_claim_conflicts_total',
    help: 'Messages that were to be taken and had been taken by somebody else in that moment.',
  }),
  queueRedeliveriesTotal: counter({
    name: 'postern_queue_redeliveries_total',
    help: 'Messages that were handed out again because an earlier claim had ended without an acknowledgement.',
  }),

  zookeeperRequestDurationSeconds: histogram({
    name: 'postern_zookeeper_request_duration_seconds',
    help: 'Time from sending a request to ZooKeeper to its reply.',
    labels: ['op'],
    buckets: LATENCY_BUCKETS,
  }),
  zookeeperGroupCommitWrites: histogram({
    name: 'postern_zookeeper_group_commit_writes',
    help: 'Writes of requests (releases, hand-overs, grants, pushes, pops, acknowledgements) in one transaction of ZooKeeper; the count is that of the transactions.',
    buckets: [1, 2, 4, 8, 16, 32, 64, 128, 256],
  }),
  zookeeperGroupCommitQueue: gauge({
    name: 'postern_zookeeper_group_commit_queue',
    help: 'Writes that wait for a transaction now, because as many as may be are on their way.',
  }),
  fencingTokenHighest: gauge({
    name: 'postern_fencing_token_highest',
    help: 'The newest transaction of ZooKeeper that the replica has heard of, with the fencing floor: all fencing tokens handed out so far are about as high at most. What to give to POSTERN_FENCING_FLOOR when ZooKeeper is lost.',
    aggregator: 'max',
  }),
  zookeeperGroupCommitFailuresTotal: counter({
    name: 'postern_zookeeper_group_commit_failures_total',
    help: 'Such transactions of several writes that failed: refused (then each write is sent by itself), or without a reply (then nobody knows).',
    labels: { outcome: GROUP_COMMIT_FAILURES },
  }),
  zookeeperConnected: gauge({
    name: 'postern_zookeeper_connected',
    help: 'Whether the control session is connected (1) or not (0).',
    aggregator: 'min',
  }),
  ensembleReady: gauge({
    name: 'postern_ensemble_ready',
    help: 'Where there are several ensembles: whether this one is served by the replica (1) or not (0), as the reasons of /readyz tell.',
    labels: ['ensemble'],
    aggregator: 'min',
  }),
  ensembleMapVersion: gauge({
    name: 'postern_ensemble_map_version',
    help: 'Where there are several ensembles: the version of the map of namespaces by which the replica serves this one.',
    labels: ['ensemble'],
    aggregator: 'min',
  }),
  ensembleAgreedVersion: gauge({
    name: 'postern_ensemble_agreed_version',
    help: 'Where there are several ensembles: the version of the map by which, or by a later one, all processes serve this one, also those that hang; 0 if that is not known. A namespace is exported once this is the version that closes it.',
    labels: ['ensemble'],
    aggregator: 'min',
  }),
  ensembleFileRefused: gauge({
    name: 'postern_ensemble_file_refused',
    help: 'Whether the file of ensembles is not in force (1) or is (0): it is older than the map in force, or another one of its version, or what it changes may not be; the reasons of /readyz tell.',
    aggregator: 'max',
  }),
  zookeeperClockLeapsTotal: counter({
    name: 'postern_zookeeper_clock_leaps_total',
    help: "Times the ensemble's clock, as writes tell it, was off its course by more than a second: its servers' clocks disagree, or one was set.",
  }),
  zookeeperReconnectsTotal: counter({
    name: 'postern_zookeeper_reconnects_total',
    help: 'Times the control session was connected again after its connection was lost.',
  }),
  zookeeperServersSetAsideTotal: counter({
    name: 'postern_zookeeper_servers_set_aside_total',
    help: 'Times that leases began to avoid a server of ZooKeeper: it did not answer in time, grants other session timeouts than the rest, or takes living sessions for ended.',
    labels: { reason: SET_ASIDE_REASONS },
  }),

  httpRequestDurationSeconds: histogram({
    name: 'postern_http_request_duration_seconds',
    help: 'Time from the arrival of a request to the end of its answer, without requests that may wait and streams.',
    labels: ['route', 'method', 'status'],
    buckets: LATENCY_BUCKETS,
  }),
  httpWaitDurationSeconds: histogram({
    name: 'postern_http_wait_duration_seconds',
    help: 'The same for requests that asked to wait (waitMs above 0) and for event streams.',
    labels: ['route', 'method', 'status'],
    buckets: WAIT_BUCKETS,
  }),
  httpRequestsInFlight: gauge({
    name: 'postern_http_requests_in_flight',
    help: 'Requests being served now, waits and streams included.',
  }),

  limitRefusalsTotal: counter({
    name: 'postern_limit_refusals_total',
    help: 'Requests refused by a limit of this replica (waiters, bodies, answers, watched; ahead: connections closed), of a principal in it (requests, waits, streams, leases, bodies, answers, ahead, watched), or of a lease (holds).',
    labels: { limit: LIMITS },
  }),

  overloaded: gauge({
    name: 'postern_overloaded',
    help: 'Whether this replica is overloaded (1) or not (0), and refuses new work that there is no time for: its event loop is late, or ZooKeeper.',
    labels: { late: LATE },
    aggregator: 'max',
  }),
  overloadRefusalsTotal: counter({
    name: 'postern_overload_refusals_total',
    help: 'Requests that were refused under overload, before anything was done for them, by what was late.',
    labels: { late: LATE },
  }),

  buildInfo: gauge({
    name: 'postern_build_info',
    help: 'Always 1; the labels tell the version.',
    labels: ['version', 'node'],
    aggregator: 'first',
  }),
};
