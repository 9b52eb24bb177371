/** Label values that are known in advance: each exists from the first scrape. */

export const KINDS = ['lock', 'rwlock', 'semaphore', 'election', 'pool', 'queue', 'barrier'] as const;
export type Kind = (typeof KINDS)[number];

export const ACQUIRE_OUTCOMES = ['immediate', 'waited', 'refused', 'left', 'expired'] as const;
export type AcquireOutcome = (typeof ACQUIRE_OUTCOMES)[number];

export const COUNTER_OUTCOMES = ['applied', 'repeated', 'refused', 'unknown'] as const;
export type CounterOutcome = (typeof COUNTER_OUTCOMES)[number];

export const CONFIG_WRITE_OUTCOMES = ['written', 'repeated', 'refused', 'unknown'] as const;
export type ConfigWriteOutcome = (typeof CONFIG_WRITE_OUTCOMES)[number];
export const TRANSACTION_OUTCOMES = ['committed', 'voted', 'participant-lost', 'deadline', 'requested'] as const;

/** What a start was told. */
export const RUN_START_OUTCOMES = ['started', 'repeated', 'running', 'done', 'failed'] as const;
export const RUN_FINISH_OUTCOMES = ['done', 'failed'] as const;
/** What becomes of members of pools: `lost` with their lease, where that was found before they were given out again. */
export const POOL_MEMBER_OUTCOMES = ['assigned', 'released', 'lost'] as const;
export const SCHEDULE_OUTCOMES = ['pushed', 'missed'] as const;

/** What became of messages to groups: `dropped` because there were too many, `expired` because they were too old. */
export const GROUP_MESSAGE_OUTCOMES = ['posted', 'repeated', 'dropped', 'expired'] as const;
/** What becomes of reservations: `abandoned` while they waited, `undelivered` to whom asked for them. */
export const RESERVATION_OUTCOMES = ['reserved', 'extended', 'released', 'ended', 'abandoned', 'undelivered'] as const;

/** What is late under overload. */
export const LATE = ['event_loop', 'zookeeper'] as const;
export type Late = (typeof LATE)[number];

export const WATCH_EVENT_TYPES = ['created', 'deleted', 'changed', 'children', 'reset'] as const;
export const LIMITS = [
  'waiters',
  'requests',
  'waits',
  'streams',
  'leases',
  'holds',
  'bodies',
  'answers',
  'ahead',
  'watched',
  'reservations',
] as const;
export const ATTACH_REASONS = ['new', 'moved', 'evicted', 'overdue'] as const;
/**
 * Operations on messages; `expire` ends a claim whose time is over, `message_expire` removes a message that nobody got
 * in time.
 */
export const QUEUE_OPS = [
  'push',
  'pop',
  'claim',
  'ack',
  'nack',
  'expire',
  'message_expire',
  'dead_letter',
  'purge',
  'redrive',
] as const;
export type QueueOp = (typeof QUEUE_OPS)[number];
export const SET_ASIDE_REASONS = ['silent', 'session-timeout'] as const;
export const HEARTBEAT_OUTCOMES = ['ok', 'expired', 'failed'] as const;
/** How a transaction of gathered writes failed. */
export const GROUP_COMMIT_FAILURES = ['refused', 'no-reply'] as const;
export type GroupCommitFailure = (typeof GROUP_COMMIT_FAILURES)[number];
