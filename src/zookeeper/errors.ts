/**
 * ZooKeeper's error codes become ours here and nowhere else: by number, never by message, and totally.
 * A code that nobody has heard of yet is an error like the others, with its number kept
 * (the library throws on such codes inside its socket handler: defect 7).
 *
 * Source: org.apache.zookeeper.KeeperException.Code, ZooKeeper 3.9.
 */
import { PosternError } from '../errors.js';

const REASONS = {
  [-1]: 'SYSTEM_ERROR',
  [-2]: 'RUNTIME_INCONSISTENCY',
  [-3]: 'DATA_INCONSISTENCY',
  [-4]: 'CONNECTION_LOSS',
  [-5]: 'MARSHALLING_ERROR',
  [-6]: 'UNIMPLEMENTED',
  [-7]: 'OPERATION_TIMEOUT',
  [-8]: 'BAD_ARGUMENTS',
  [-13]: 'NEW_CONFIG_NO_QUORUM',
  [-14]: 'RECONFIG_IN_PROGRESS',
  [-100]: 'API_ERROR',
  [-101]: 'NO_NODE',
  [-102]: 'NO_AUTH',
  [-103]: 'BAD_VERSION',
  [-108]: 'NO_CHILDREN_FOR_EPHEMERALS',
  [-110]: 'NODE_EXISTS',
  [-111]: 'NOT_EMPTY',
  [-112]: 'SESSION_EXPIRED',
  [-113]: 'INVALID_CALLBACK',
  [-114]: 'INVALID_ACL',
  [-115]: 'AUTH_FAILED',
  [-118]: 'SESSION_MOVED',
  [-119]: 'NOT_READ_ONLY',
  [-120]: 'EPHEMERAL_ON_LOCAL_SESSION',
  [-121]: 'NO_WATCHER',
  [-122]: 'REQUEST_TIMEOUT',
  [-123]: 'RECONFIG_DISABLED',
  [-124]: 'SESSION_CLOSED_REQUIRE_SASL_AUTH',
  [-125]: 'QUOTA_EXCEEDED',
  [-127]: 'THROTTLED_OP',
} as const;

export type ZooKeeperReason = (typeof REASONS)[keyof typeof REASONS] | 'UNKNOWN';

export function zooKeeperReason(code: number): ZooKeeperReason {
  return (REASONS as Record<number, ZooKeeperReason>)[code] ?? 'UNKNOWN';
}

/** Refused for now: the same request may be taken a moment later, on another connection or in a new session. */
const TRANSIENT: ReadonlySet<ZooKeeperReason> = new Set(['THROTTLED_OP', 'SESSION_MOVED', 'SESSION_EXPIRED']);

/** The server read the request and refused it: nothing was applied. */
export class ZooKeeperError extends PosternError {
  readonly reason: ZooKeeperReason;
  readonly number: number;
  /** The zxid of the reply's header: how new the state was that the answer speaks of. */
  readonly zxid: number;
  /** In a `multi`: the index of the operation that failed. */
  readonly failedIndex: number | undefined;

  constructor(number: number, operation: string, path: string, zxid: number, failedIndex?: number) {
    const reason = zooKeeperReason(number);
    const code = TRANSIENT.has(reason) ? 'zookeeper-unavailable' : 'zookeeper-error';
    // Most are answers like others ("no such node"). Who asked is not on the stack when they come in, and to write it down costs more than the request.
    const limit = Error.stackTraceLimit;
    Error.stackTraceLimit = 0;
    super(code, `ZooKeeper answered ${reason} (${number}) to ${operation}${path === '' ? '' : ` on ${path}`}.`);
    Error.stackTraceLimit = limit;
    this.name = 'ZooKeeperError';
    this.reason = reason;
    this.number = number;
    this.zxid = zxid;
    this.failedIndex = failedIndex;
  }
}

/**
 * No reply: the connection was lost or the deadline passed. `maybeApplied` separates a write that
 * had been sent (it may have happened) from everything else (nothing happened).
 */
export class NoReplyError extends PosternError {
  readonly maybeApplied: boolean;

  constructor(
    operation: string,
    what: 'not-connected' | 'connection-lost' | 'deadline',
    maybeApplied: boolean,
    cause?: unknown,
  ) {
    const why = {
      'not-connected': 'there was no connection',
      'connection-lost': 'the connection was lost',
      deadline: 'no answer came in time',
    }[what];
    super(
      maybeApplied ? 'outcome-unknown' : 'zookeeper-unavailable',
      maybeApplied
        ? `ZooKeeper was sent ${operation}, but ${why}: it may or may not have been done.`
        : `ZooKeeper did not answer ${operation}: ${why}. Nothing was done.`,
      { cause },
    );
    this.name = 'NoReplyError';
    this.maybeApplied = maybeApplied;
  }
}

/**
 * The server took the TCP connection and closed it before it answered the handshake: it has too many connections from this
 * address, does not serve yet, or is behind what we have seen. Never a statement about the session.
 */
export class HandshakeRefusedError extends Error {
  override readonly name = 'HandshakeRefusedError';

  constructor(cause?: unknown) {
    super('the server closed the connection before it answered the handshake', { cause });
  }
}

/** Not answered, or refused for now (the session is being replaced, has moved, the server is throttled): worth another try. */
export function isTransient(error: unknown): error is NoReplyError | ZooKeeperError {
  return error instanceof NoReplyError || (error instanceof ZooKeeperError && TRANSIENT.has(error.reason));
}

/** Whether what failed may have been done all the same. */
export function mayBeApplied(error: unknown): boolean {
  return error instanceof NoReplyError && error.maybeApplied;
}

export function isReason(error: unknown, ...reasons: readonly ZooKeeperReason[]): error is ZooKeeperError {
  return error instanceof ZooKeeperError && reasons.includes(error.reason);
}

/** `undefined` in place of an error with one of these reasons; every other error goes on. */
export async function unless<T>(promise: Promise<T>, ...reasons: readonly ZooKeeperReason[]): Promise<T | undefined> {
  try {
    return await promise;
  } catch (error) {
    if (isReason(error, ...reasons)) return undefined;
    throw error;
  }
}

/**
 * For what is asked after a write that was done: without an answer to it the request has been done, and nobody knows with which outcome.
 * @param wrote of work that writes more than once: whether any of it was done so far
 * @throws NoReplyError which says so
 */
export async function orUnknown<T>(work: Promise<T>, wrote: () => boolean = () => true): Promise<T> {
  try {
    return await work;
  } catch (error) {
    if (!isTransient(error) || mayBeApplied(error) || !wrote()) throw error;
    throw new NoReplyError('the request', 'connection-lost', true, error);
  }
}
