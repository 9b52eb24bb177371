/** What a replica, a principal and a lease may have, and for how long. */
import { HOUR, MINUTE, SECOND } from '../time.js';
import { flag, integer, optionalInteger, type Setting } from './setting.js';

/** Common proxies cut a silent request at 60 s; this leaves them time for the answer. */
const MAX_WAIT_MS = 55 * SECOND;
const MAX_WAITERS = 20_000;
/** Below the 15 000 sockets that a process with common limits has left beside its clients. */
const MAX_ATTACHED = 12_000;
/**
 * Some turns of that length are what a request takes then: less than clients with the shortest time-outs wait, more
 * than a busy replica needs.
 */
const OVERLOAD_DELAY_MS = 100;
/** Half of what a replica serves at once, so that no principal takes it from all others. */
const MAX_PER_PRINCIPAL = 10_000;
/** Of holds, and of claims. With the names that are usual the bytes of their paths come to an end a little earlier. */
const MAX_PER_LEASE = 10_000;
/**
 * With the reserve (`owned-nodes.ts`) a quarter below 1 MiB, the smallest transaction that some server might not read.
 */
const MAX_PATH_BYTES = 700_000;
/** A listing of so many long names has 20 MB, which is what clients of ZooKeeper can still be told to read. */
const MAX_NAMES = 100_000;
/** A round of housekeeping asks some ten things about each of them. */
const MAX_NAMESPACES = 10_000;
/** A name takes about 4 KB, a key under a prefix 300 bytes. */
const MAX_WATCHED_KEYS = 50_000;
const REQUEST_TIMEOUT_MS = 10 * SECOND;
/** Longer than a participant that was told nothing takes to come back and ask. */
const TRANSACTION_HISTORY_MS = 24 * HOUR;
/** Two years of a monthly job, a good three months of a daily one. */
const RUN_OCCURRENCES = 100;
/** More than a quarter: what is done seldom is not forgotten between two occurrences. */
const RUN_HISTORY_MS = 100 * 24 * HOUR;
/** Of 4 KiB at most each: what a reader that was away for a while catches up with in ten requests. */
const GROUP_MESSAGES = 1_000;
const GROUP_MESSAGE_MS = HOUR;
/** A freeze over a long holiday; what is forgotten does not stand for longer. */
const MAX_RESERVATION_MS = 14 * 24 * HOUR;
/** People and pipelines make them, not requests. */
const MAX_RESERVATIONS = 1_000;
/** A machine that has not come back after a week is repaired by somebody who can also free its slot. */
const FLEETLOCK_HOLD_MS = 7 * 24 * HOUR;
/** No run takes so long, and one that has died overnight is out of the way on the next day. */
const TERRAFORM_LOCK_MS = 24 * HOUR;
const MAX_RESERVATIONS_PER_PRINCIPAL = 200;
/** Each is looked at by housekeeping, with two listings of its members. */
const MAX_POOLS = 1_000;
/** Two listings of so many have some 400 KB, and each assignment reads them. */
const MAX_POOL_MEMBERS = 10_000;
/** The replica that fires keeps some 300 bytes of each, and at midnight pushes them all. */
const MAX_SCHEDULES = 1_000;
/** Of a description of what is to be done; what is larger is better kept in the configuration. */
const MAX_SCHEDULE_BYTES = 4 * 1024;
/** Another replica takes over meanwhile, and ZooKeeper finds another leader. */
const SCHEDULE_GRACE_MS = MINUTE;
const MIB = 1_048_576;
/** Beside what the process needs itself, within the memory that the chart gives it. */
const MAX_BODY_BYTES_AT_ONCE = 128 * MIB;
const MAX_ANSWER_BYTES_AT_ONCE = 128 * MIB;
/** Of some thousand clients that each have a handful of requests on their way. */
const MAX_BYTES_AHEAD = 16 * MIB;
/** Nine of the largest nodes. On a local connection they delay what comes behind them by some 20 ms. */
const MAX_READ_BYTES_AT_ONCE = 9 * MIB;
/** What a text costs goes with them, and not with its bytes: a mebibyte of `[],` took a quarter of a second. */
const MAX_JSON_VALUES = 100_000;

export const LIMITS = {
  maxWaitMs: integer(
    {
      env: 'POSTERN_MAX_WAIT_MS',
      sentence: 'The longest wait and the longest stream; keep it below the time-out of the proxies in between.',
    },
    { fallback: MAX_WAIT_MS, min: 1, max: HOUR, unit: 'ms' },
  ),
  maxWaiters: integer(
    {
      env: 'POSTERN_MAX_WAITERS',
      sentence: 'How many requests may wait and streams may be open in this replica at once, together.',
    },
    { fallback: MAX_WAITERS, min: 1, max: 1_000_000 },
  ),
  maxConnections: optionalInteger(
    {
      env: 'POSTERN_MAX_CONNECTIONS',
      sentence:
        'How many client connections the main port of this replica may have open at once; by default what the limit of open files leaves after POSTERN_MAX_ATTACHED for each ensemble, and at least a quarter of that limit.',
    },
    { min: 1, max: 1_000_000 },
  ),
  maxWaitsPerPrincipal: integer(
    {
      env: 'POSTERN_MAX_WAITS_PER_PRINCIPAL',
      sentence: 'How many requests of one principal may wait in this replica at once.',
    },
    { fallback: MAX_PER_PRINCIPAL, min: 1, max: 1_000_000 },
  ),
  maxStreamsPerPrincipal: integer(
    {
      env: 'POSTERN_MAX_STREAMS_PER_PRINCIPAL',
      sentence: 'How many streams of one principal may be open in this replica at once.',
    },
    { fallback: MAX_PER_PRINCIPAL, min: 1, max: 1_000_000 },
  ),
  maxLeasesPerPrincipal: integer(
    {
      env: 'POSTERN_MAX_LEASES_PER_PRINCIPAL',
      sentence:
        'For how many leases of one principal this replica may keep connections; beyond that it grants the principal no more leases.',
    },
    { fallback: MAX_PER_PRINCIPAL, min: 1, max: 1_000_000 },
  ),
  maxHoldsPerLease: integer(
    {
      env: 'POSTERN_MAX_HOLDS_PER_LEASE',
      sentence:
        'How many holds, places in line, candidacies, memberships, double-barrier entries and votes one lease may have, in total.',
    },
    { fallback: MAX_PER_LEASE, min: 1, max: 1_000_000 },
  ),
  maxClaimsPerLease: integer(
    {
      env: 'POSTERN_MAX_CLAIMS_PER_LEASE',
      sentence: 'How many messages one lease may have claimed and not acknowledged.',
    },
    { fallback: MAX_PER_LEASE, min: 1, max: 1_000_000 },
  ),
  maxPathBytesPerLease: integer(
    {
      env: 'POSTERN_MAX_PATH_BYTES_PER_LEASE',
      sentence:
        'The largest total length of the paths of everything that one lease owns in ZooKeeper: the end of the lease is one transaction that lists all of them.',
    },
    { fallback: MAX_PATH_BYTES, min: 10_000, max: 900_000, unit: 'bytes' },
  ),
  rateLimit: integer(
    {
      env: 'POSTERN_RATE_LIMIT',
      sentence:
        'Requests per second that this replica accepts from one principal; heartbeats, releases and the like do not count. 0 means no limit.',
    },
    { fallback: 0, min: 0, max: 1_000_000 },
  ),
  rateBurst: integer(
    {
      env: 'POSTERN_RATE_BURST',
      sentence: 'How many requests of one principal may arrive at once; 0 means as many as in a second.',
    },
    { fallback: 0, min: 0, max: 1_000_000 },
  ),
  overloadDelayMs: integer(
    {
      env: 'POSTERN_OVERLOAD_DELAY_MS',
      sentence:
        'How late the event loop may be before new work is refused; heartbeats, releases and the like never are. 0 means any delay.',
    },
    { fallback: OVERLOAD_DELAY_MS, min: 0, max: MINUTE, unit: 'ms' },
  ),
  maxAttached: integer(
    {
      env: 'POSTERN_MAX_ATTACHED',
      sentence: 'For how many lease sessions this replica keeps connections; each is a connection to the ensemble.',
    },
    { fallback: MAX_ATTACHED, min: 1, max: 1_000_000 },
  ),
  requestTimeoutMs: integer(
    {
      env: 'POSTERN_REQUEST_TIMEOUT_MS',
      sentence: 'The time within which a request is answered, not counting the wait that it asked for.',
    },
    { fallback: REQUEST_TIMEOUT_MS, min: 100, max: 5 * MINUTE, unit: 'ms' },
  ),
  maxBodyBytes: integer(
    { env: 'POSTERN_MAX_BODY_BYTES', sentence: 'The largest request body.' },
    { fallback: MIB, min: 1024, max: 64 * MIB, unit: 'bytes' },
  ),
  maxBodyBytesAtOnce: integer(
    {
      env: 'POSTERN_MAX_BODY_BYTES_AT_ONCE',
      sentence:
        'Total size of the request bodies that this replica reads or works on at once, of which one principal may have half; the first 64 KiB of each body are not counted. At least twice POSTERN_MAX_BODY_BYTES.',
    },
    { fallback: MAX_BODY_BYTES_AT_ONCE, min: MIB, max: 1_024 * MIB, unit: 'bytes' },
  ),
  maxAnswerBytesAtOnce: integer(
    {
      env: 'POSTERN_MAX_ANSWER_BYTES_AT_ONCE',
      sentence:
        'Total size of the answers that this replica holds because their clients have not read them yet, of which one principal may have half; the first 16 KiB of each answer are not counted.',
    },
    { fallback: MAX_ANSWER_BYTES_AT_ONCE, min: MIB, max: 1_024 * MIB, unit: 'bytes' },
  ),
  maxBytesAhead: integer(
    {
      env: 'POSTERN_MAX_BYTES_AHEAD',
      sentence:
        'Total size of the requests that clients have sent to this replica before the answers to earlier ones (pipelining), of which one principal may have half; a connection that sends more is closed.',
    },
    { fallback: MAX_BYTES_AHEAD, min: MIB, max: 1_024 * MIB, unit: 'bytes' },
  ),
  maxReadBytesAtOnce: integer(
    {
      env: 'POSTERN_MAX_READ_BYTES_AT_ONCE',
      sentence:
        'Total size of the large reads that this replica may have on their way from ZooKeeper at once, in each worker; further ones wait. More is faster where ZooKeeper is far away, and delays everything else on the same connection.',
    },
    { fallback: MAX_READ_BYTES_AT_ONCE, min: MIB, max: 1_024 * MIB, unit: 'bytes' },
  ),
  maxJsonValues: integer(
    {
      env: 'POSTERN_MAX_JSON_VALUES',
      sentence:
        'How many values (numbers, strings, objects, arrays, names of members) a JSON body may have; each costs time in which nothing else is served.',
    },
    { fallback: MAX_JSON_VALUES, min: 1_000, max: 10_000_000 },
  ),
  maxNames: integer(
    {
      env: 'POSTERN_MAX_NAMES',
      sentence:
        'How many names of one kind (locks, queues, keys in one configuration directory …) a namespace may have, and how many members a group or double barrier; beyond that no more are created. 0 means no limit.',
    },
    { fallback: MAX_NAMES, min: 0, max: 10_000_000 },
  ),
  maxNamespaces: integer(
    {
      env: 'POSTERN_MAX_NAMESPACES',
      sentence:
        'How many namespaces there may be under POSTERN_ROOT; beyond that no more are created. 0 means no limit.',
    },
    { fallback: MAX_NAMESPACES, min: 0, max: 10_000_000 },
  ),
  maxWatchedKeys: integer(
    {
      env: 'POSTERN_MAX_WATCHED_KEYS',
      sentence:
        'How many names, and configuration keys under prefixes, all streams of many things in this replica may watch together, of which those of one principal may have half; a single stream watches at most 10 000. Streams of one thing do not count: POSTERN_MAX_STREAMS_PER_PRINCIPAL bounds them.',
    },
    { fallback: MAX_WATCHED_KEYS, min: 1, max: 10_000_000 },
  ),
  transactionHistoryMs: integer(
    {
      env: 'POSTERN_TRANSACTION_HISTORY_MS',
      sentence: 'How long a transaction can be looked up after its decision.',
    },
    { fallback: TRANSACTION_HISTORY_MS, min: 0, max: 30 * 24 * HOUR, unit: 'ms' },
  ),
  runOccurrences: integer(
    {
      env: 'POSTERN_RUN_OCCURRENCES',
      sentence:
        'How many occurrences of each run are remembered: those that were first started last. One that is forgotten can be started again.',
    },
    // Of at most 4 KB each, in one znode of at most 1 MiB.
    { fallback: RUN_OCCURRENCES, min: 1, max: 200 },
  ),
  runHistoryMs: integer(
    {
      env: 'POSTERN_RUN_HISTORY_MS',
      sentence: 'How long a run is remembered, with all its occurrences, after it was last started or finished.',
    },
    // No write that was sent before is still on its way then.
    { fallback: RUN_HISTORY_MS, min: HOUR, max: 400 * 24 * HOUR, unit: 'ms' },
  ),
  groupMessages: integer(
    {
      env: 'POSTERN_GROUP_MESSAGES',
      sentence: 'How many messages to each group are kept; when there are more, the oldest are dropped.',
    },
    { fallback: GROUP_MESSAGES, min: 1, max: 10_000 },
  ),
  groupMessageMs: integer(
    {
      env: 'POSTERN_GROUP_MESSAGE_MS',
      sentence:
        'How long a message to a group is kept. Housekeeping looks 24 times in that time, and once a minute at most.',
    },
    { fallback: GROUP_MESSAGE_MS, min: MINUTE, max: 30 * 24 * HOUR, unit: 'ms' },
  ),
  maxReservationMs: integer(
    {
      env: 'POSTERN_MAX_RESERVATION_MS',
      sentence: 'How far ahead a lock can be reserved, or a reservation extended.',
    },
    { fallback: MAX_RESERVATION_MS, min: SECOND, max: 400 * 24 * HOUR, unit: 'ms' },
  ),
  maxReservations: integer(
    {
      env: 'POSTERN_MAX_RESERVATIONS',
      sentence: 'How many reservations a namespace may have, those that wait for their lock included.',
    },
    // A listing of so many ids has 250 KB.
    { fallback: MAX_RESERVATIONS, min: 0, max: 5_000 },
  ),
  maxReservationsPerPrincipal: integer(
    {
      env: 'POSTERN_MAX_RESERVATIONS_PER_PRINCIPAL',
      sentence: 'How many of them one principal may have in a namespace.',
    },
    { fallback: MAX_RESERVATIONS_PER_PRINCIPAL, min: 0, max: 5_000 },
  ),
  fleetlockHoldMs: integer(
    {
      env: 'POSTERN_FLEETLOCK_HOLD_MS',
      sentence:
        'How long a machine that asked to reboot (FleetLock) holds the slot of its group if it does not come back; each request to reboot begins that time anew.',
    },
    { fallback: FLEETLOCK_HOLD_MS, min: MINUTE, max: 400 * 24 * HOUR, unit: 'ms' },
  ),
  terraformLockMs: integer(
    {
      env: 'POSTERN_TERRAFORM_LOCK_MS',
      sentence: 'How long Terraform holds the lock of a state at most; a run that takes longer cannot write its state.',
    },
    { fallback: TERRAFORM_LOCK_MS, min: MINUTE, max: 400 * 24 * HOUR, unit: 'ms' },
  ),
  maxPools: integer(
    {
      env: 'POSTERN_MAX_POOLS',
      sentence: 'How many pools a namespace may have; beyond that no more are created. 0 means no limit.',
    },
    { fallback: MAX_POOLS, min: 0, max: 100_000 },
  ),
  maxPoolMembers: integer(
    { env: 'POSTERN_MAX_POOL_MEMBERS', sentence: 'How many members a pool may have.' },
    { fallback: MAX_POOL_MEMBERS, min: 1, max: 10_000 },
  ),
  maxSchedules: integer(
    {
      env: 'POSTERN_MAX_SCHEDULES',
      sentence: 'How many schedules a namespace may have; beyond that no more are created. 0 means no limit.',
    },
    { fallback: MAX_SCHEDULES, min: 0, max: 100_000 },
  ),
  maxScheduleBytes: integer(
    { env: 'POSTERN_MAX_SCHEDULE_BYTES', sentence: 'The largest body of the message that a schedule pushes.' },
    // A hundred of them are read at once, in an answer of at most 1 MiB.
    { fallback: MAX_SCHEDULE_BYTES, min: 256, max: 8 * 1024, unit: 'bytes' },
  ),
  scheduleSeconds: flag({
    env: 'POSTERN_SCHEDULE_SECONDS',
    sentence:
      'Whether the cron expression of a schedule may have a sixth field in front, for seconds; without, nothing is pushed more often than once a minute.',
  }),
  scheduleGraceMs: integer(
    {
      env: 'POSTERN_SCHEDULE_GRACE_MS',
      sentence:
        'How late an occurrence of a schedule may be pushed; after that it is missed, and the schedule says what follows from that. The same for all replicas.',
    },
    { fallback: SCHEDULE_GRACE_MS, min: SECOND, max: 24 * HOUR, unit: 'ms' },
  ),
  maxMessageBytes: integer(
    { env: 'POSTERN_MAX_MESSAGE_BYTES', sentence: 'The largest body of a queue message.' },
    { fallback: MIB / 4, min: 1024, max: 900 * 1024, unit: 'bytes' },
  ),
  maxQueueLabels: integer(
    {
      env: 'POSTERN_MAX_QUEUE_LABELS',
      sentence: 'How many queues have metrics under their own names; all others are counted together as "other".',
    },
    { fallback: 50, min: 0, max: 1000 },
  ),
  maxContendedLabels: integer(
    {
      env: 'POSTERN_MAX_CONTENDED_LABELS',
      sentence:
        'How many names, those with the longest lines, are labels of postern_contended_waiters in each process. With credentials but without POSTERN_OPS_PORT it is 0 unless set, because everybody reads /metrics.',
    },
    { fallback: 10, min: 0, max: 100 },
  ),
} satisfies Record<string, Setting<unknown>>;
