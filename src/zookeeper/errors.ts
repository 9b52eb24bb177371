/**
 * Translates ZooKeeper's error codes, here and nowhere else: by number, never by message, and totally. An unknown code
 * is an error like the others, with its number kept (the library throws on it inside its socket handler: defect 7).
 *
 * Source: org.apache.zookeeper.KeeperException.Code, ZooKeeper 3.9.
 */
import { LeaseExpiredError, PosternError } from '../errors.js';
import type { Server } from './connect-string.js';

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

/** Refused for now: the same request may succeed a moment later, on another connection or in a new session. */
const TRANSIENT: ReadonlySet<ZooKeeperReason> = new Set(['THROTTLED_OP', 'SESSION_MOVED', 'SESSION_EXPIRED']);

/** The server read the request and refused it: nothing was applied. */
export class ZooKeeperError extends PosternError {
  readonly reason: ZooKeeperReason;
  readonly number: number;
  /** The zxid of the reply's header: how new the state behind the answer was. */
  readonly zxid: number;
  /** In a `multi`: the index of the operation that failed. */
  readonly failedIndex: number | undefined;

  constructor(number: number, operation: string, path: string, zxid: number, failedIndex?: number) {
    const reason = zooKeeperReason(number);
    const code = TRANSIENT.has(reason) ? 'zookeeper-unavailable' : 'zookeeper-error';
    // Most are answers like others ("no such node"). The caller is not on the stack when they arrive, and capturing one
    // costs more than the request.
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
 * No reply: the connection was lost or the deadline passed. `maybeApplied` separates a write that had been sent (it may
 * have happened) from everything else (nothing happened).
 */
export class NoReplyError extends PosternError {
  readonly maybeApplied: boolean;

  constructor(
    operation: string,
    what: 'not-connected' | 'connection-lost' | 'deadline',
    maybeApplied: boolean,
    cause?: unknown,
  ) {
    const why =
      cause instanceof SessionTimeoutError
        ? cause.message
        : {
            'not-connected': 'there was no connection to it',
            'connection-lost': 'the connection was lost',
            deadline: 'no answer came in time',
          }[what];
    const request = inWords(operation);
    super(
      maybeApplied ? 'outcome-unknown' : 'zookeeper-unavailable',
      maybeApplied
        ? `ZooKeeper was sent ${request}, but ${why}: it may or may not have been done.`
        : `ZooKeeper did not answer ${request}: ${why}. Nothing was done.`,
      { cause },
    );
    this.name = 'NoReplyError';
    this.maybeApplied = maybeApplied;
  }
}

/** An operation's name as part of a sentence; names of composite operations are in words already. */
function inWords(operation: string): string {
  if (operation.startsWith('the ')) return operation;
  return operation === 'quorum' ? 'the quorum read' : `the request "${operation}"`;
}

/**
 * The server took the TCP connection and closed it before answering the handshake: it has too many connections from
 * this address, does not serve yet, or is behind the state seen here. Never a statement about the session.
 */
export class HandshakeRefusedError extends Error {
  override readonly name = 'HandshakeRefusedError';

  constructor(cause?: unknown) {
    super('the server closed the connection before it answered the handshake', { cause });
  }
}

/**
 * The server would keep the session for another time than agreed: its bounds differ from those of the server that
 * opened it. Continuing there would end a lease earlier, or later, than its client was told.
 */
export class SessionTimeoutError extends Error {
  override readonly name = 'SessionTimeoutError';

  constructor(server: string, agreedMs: number, grantedMs: number) {
    super(
      `${server} grants a session timeout of ${grantedMs} ms where ${agreedMs} ms are agreed on: tickTime, minSessionTimeout and maxSessionTimeout must be the same on all servers`,
    );
  }
}

/**
 * A server said that a session has ended. It need not have: a deposed leader that has not noticed knows no session that
 * began since, and takes sessions for ended that were silent while it stood still.
 */
export class SessionDeniedError extends Error {
  override readonly name = 'SessionDeniedError';

  constructor(readonly server: Server) {
    super('it takes living sessions for ended, as a leader does that was replaced and has not noticed');
  }
}

/**
 * Not answered, or refused for now (the session is being replaced, has moved, the server is throttled): worth a retry.
 */
export function isTransient(error: unknown): error is NoReplyError | ZooKeeperError {
  return error instanceof NoReplyError || (error instanceof ZooKeeperError && TRANSIENT.has(error.reason));
}

/** Whether the failed operation may have been applied nevertheless. */
export function mayBeApplied(error: unknown): boolean {
  return error instanceof NoReplyError && error.maybeApplied;
}

export function isReason(error: unknown, ...reasons: readonly ZooKeeperReason[]): error is ZooKeeperError {
  return error instanceof ZooKeeperError && reasons.includes(error.reason);
}

/** Resolves to `undefined` for an error with one of these reasons; rethrows every other one. */
export async function unless<T>(promise: Promise<T>, ...reasons: readonly ZooKeeperReason[]): Promise<T | undefined> {
  try {
    return await promise;
  } catch (error) {
    if (isReason(error, ...reasons)) return undefined;
    throw error;
  }
}

/** For the `catch` of a question that may stay without an answer: `undefined` then; every other error goes on. */
export function noAnswer(error: unknown): undefined {
  if (!isTransient(error)) throw error;
  return undefined;
}

/**
 * For requests that follow a successful write: if they get no answer, the work was done with an unknown outcome.
 * @param wrote for work with several writes: whether any of them was done so far
 * @throws NoReplyError, LeaseExpiredError that says so
 */
export async function orUnknown<T>(work: Promise<T>, wrote: () => boolean = () => true): Promise<T> {
  try {
    return await work;
  } catch (error) {
    if (error instanceof LeaseExpiredError && wrote()) throw new LeaseExpiredError(error, 'unknown');
    if (!isTransient(error) || mayBeApplied(error) || !wrote()) throw error;
    throw new NoReplyError('the request', 'connection-lost', true, error);
  }
}
