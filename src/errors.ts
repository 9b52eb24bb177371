/**
 * The vocabulary of failure: one base class and one table, read by the HTTP layer only.
 *
 * Two errors that look alike must never be mixed up: *not done* (`zookeeper-unavailable`: nothing was
 * sent, or the server refused it) and *may be done* (`outcome-unknown`: the connection went away after
 * a write had been sent). A recipe that re-reads its own mark and so knows may turn the second into
 * an answer; nobody may turn it into the first.
 *
 * Waiting in vain is a result, not an error; see `recipes/`.
 */

export const ERROR_CODES = {
  malformed: { status: 400, retryable: false, title: 'The request cannot be read' },
  'lease-token-required': { status: 400, retryable: false, title: 'The Lease-Token header is missing' },
  unauthenticated: { status: 401, retryable: false, title: 'No valid credential' },
  forbidden: { status: 403, retryable: false, title: 'The credential does not allow this' },
  'invalid-lease-token': { status: 403, retryable: false, title: 'The lease token does not open here' },
  'not-found': { status: 404, retryable: false, title: 'There is nothing here' },
  'method-not-allowed': { status: 405, retryable: false, title: 'This resource has no such method' },
  'not-acceptable': { status: 406, retryable: false, title: 'The answer exists in other types only' },
  'lock-held': { status: 409, retryable: true, title: 'Somebody else holds it' },
  'not-holder': { status: 409, retryable: false, title: 'This lease does not hold it' },
  conflict: { status: 409, retryable: true, title: 'The state changed in the meantime' },
  'lease-expired': { status: 410, retryable: false, title: 'The lease has ended' },
  'version-mismatch': { status: 412, retryable: false, title: 'The value is at another version' },
  'fencing-token-stale': { status: 412, retryable: false, title: 'The fencing token is not current' },
  'too-large': { status: 413, retryable: false, title: 'The body is too large' },
  'uri-too-long': { status: 414, retryable: false, title: 'The request target is too long' },
  'unsupported-media-type': { status: 415, retryable: false, title: 'The body has a type that is not read here' },
  invalid: { status: 422, retryable: false, title: 'A value breaks its rule' },
  'rate-limited': { status: 429, retryable: true, title: 'Too many requests' },
  'queue-full': { status: 429, retryable: true, title: 'The queue is full' },
  'too-many-leases': { status: 429, retryable: true, title: 'This principal has too many leases' },
  'headers-too-large': { status: 431, retryable: false, title: 'The request headers are too large' },
  internal: { status: 500, retryable: true, title: 'The gateway failed' },
  'zookeeper-error': { status: 500, retryable: false, title: 'ZooKeeper answered with an unexpected code' },
  'zookeeper-unavailable': { status: 503, retryable: true, title: 'ZooKeeper did not take the request' },
  'outcome-unknown': { status: 503, retryable: true, title: 'It is not known whether this happened' },
  'identity-provider-unavailable': { status: 503, retryable: true, title: 'The identity provider cannot be asked' },
  overloaded: { status: 503, retryable: true, title: 'This replica is at its limit' },
  draining: { status: 503, retryable: true, title: 'This replica is shutting down' },
} as const;

export type ErrorCode = keyof typeof ERROR_CODES;

/** Whether anything may have happened. Everything but `outcome-unknown` and `internal` is `not-applied`. */
export type Outcome = 'not-applied' | 'unknown';

export interface ErrorOptions {
  cause?: unknown;
  /** Members that help the caller: `holder`, `minTtlMs`, `maxBytes`, `field` … They are shown as they are: never a secret. */
  members?: Record<string, unknown>;
  /** Seconds for the `Retry-After` header. Default: 1 for every retryable 429 and 503. */
  retryAfterSeconds?: number;
  outcome?: Outcome;
}

/** An answer other than success, in the words of the contract. `message` is the `detail` of the problem. */
export class PosternError extends Error {
  readonly code: ErrorCode;
  readonly members: Record<string, unknown>;
  readonly retryAfterSeconds: number | undefined;
  readonly outcome: Outcome;

  constructor(code: ErrorCode, detail: string, options: ErrorOptions = {}) {
    super(detail, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = 'PosternError';
    this.code = code;
    this.members = options.members ?? {};
    const { status, retryable } = ERROR_CODES[code];
    this.retryAfterSeconds =
      options.retryAfterSeconds ?? (retryable && (status === 503 || status === 429) ? 1 : undefined);
    this.outcome = options.outcome ?? (code === 'outcome-unknown' || code === 'internal' ? 'unknown' : 'not-applied');
  }
}

/** The contract's 422: names the field, shows the value and says the rule. */
export class InvalidError extends PosternError {
  constructor(field: string, value: unknown, rule: string, members: Record<string, unknown> = {}) {
    super('invalid', `${field} is ${describe(value)}; it must be ${rule}.`, { members: { field, ...members } });
  }
}

/** The lease's session is gone for good: 410. */
export class LeaseExpiredError extends PosternError {
  constructor(cause?: unknown) {
    super('lease-expired', 'The lease has ended and everything it held was freed; start again with a new lease.', {
      cause,
    });
  }
}

export class NotHolderError extends PosternError {
  constructor(kind: string, name: string) {
    super(
      'not-holder',
      `This lease does not hold ${kind} "${name}" (nor waits for it) under the given holdId or requestId.`,
    );
  }
}

/** A semaphore has another number of permits than the caller says: 409 with the number that all agreed on. */
export class LimitMismatchError extends PosternError {
  constructor(name: string, asked: number, limit: number) {
    super(
      'conflict',
      `Semaphore "${name}" has a limit of ${limit}, not ${asked}; all who use it say the same, and PUT changes it.`,
      { members: { limit } },
    );
  }
}

export function isPosternError(error: unknown, code?: ErrorCode): error is PosternError {
  return error instanceof PosternError && (code === undefined || error.code === code);
}

const SHOWN_VALUE_MAX = 80;

/** A value as a reader can recognise it, bounded, so that no answer grows with what was sent. */
function describe(value: unknown): string {
  if (value === undefined) return 'missing';
  const text = JSON.stringify(value) ?? typeof value;
  return text.length <= SHOWN_VALUE_MAX ? text : `${text.slice(0, SHOWN_VALUE_MAX)}… (${text.length} characters)`;
}
