/**
 * The vocabulary of failure: one base class and one table, read by the HTTP layer only.
 *
 * Two errors look alike and must never be mixed up: *not done* (`zookeeper-unavailable`: nothing was sent, or the
 * server refused it) and *may be done* (`outcome-unknown`: the connection went away after a write was sent). A recipe
 * that reads its own mark back may turn the second into an answer; nobody may turn it into the first.
 *
 * A wait in vain is a result, not an error; see `recipes/`.
 */

/** `retryable` is the default for the code; `ErrorOptions.retryable` overrides it. */
export const ERROR_CODES = {
  malformed: { status: 400, retryable: false, title: 'The request cannot be read' },
  'lease-token-required': { status: 400, retryable: false, title: 'The Lease-Token header is missing' },
  unauthenticated: { status: 401, retryable: false, title: 'No valid credential' },
  forbidden: { status: 403, retryable: false, title: 'The credential does not allow this' },
  'invalid-lease-token': { status: 403, retryable: false, title: 'The lease token does not open here' },
  'invalid-reservation-token': { status: 403, retryable: false, title: 'The reservation token does not open here' },
  'not-found': { status: 404, retryable: false, title: 'There is nothing here' },
  'method-not-allowed': { status: 405, retryable: false, title: 'This resource has no such method' },
  'not-acceptable': { status: 406, retryable: false, title: 'The answer exists in other types only' },
  'lock-held': { status: 409, retryable: true, title: 'It is not free' },
  'not-holder': { status: 409, retryable: false, title: 'The caller does not hold this' },
  'too-many-holds': { status: 409, retryable: true, title: 'This lease has as much as one may have' },
  'too-many-names': { status: 409, retryable: true, title: 'This namespace has as many names as one may have' },
  'too-many-reservations': { status: 409, retryable: true, title: 'There are as many reservations as there may be' },
  conflict: { status: 409, retryable: true, title: 'The state does not allow this' },
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

/** Whether anything may have happened: `unknown` for `outcome-unknown` and `internal`, `not-applied` for the rest. */
export type Outcome = 'not-applied' | 'unknown';

export interface ErrorOptions {
  cause?: unknown;
  /**
   * Members that help the caller: `holder`, `minTtlMs`, `maxBytes`, `field` … They are shown as they are: never put a
   * secret in one.
   */
  members?: Record<string, unknown>;
  /** Seconds for the `Retry-After` header. Default: 1 for every retryable 429 and 503. */
  retryAfterSeconds?: number;
  outcome?: Outcome;
  /** Whether the same request may succeed later. Default: the code's. */
  retryable?: boolean;
}

/** An answer other than success, in the words of the contract. `message` is the `detail` of the problem. */
export class PosternError extends Error {
  readonly code: ErrorCode;
  readonly members: Record<string, unknown>;
  readonly retryAfterSeconds: number | undefined;
  readonly outcome: Outcome;
  readonly retryable: boolean;

  constructor(code: ErrorCode, detail: string, options: ErrorOptions = {}) {
    super(detail, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = 'PosternError';
    this.code = code;
    this.members = options.members ?? {};
    const { status } = ERROR_CODES[code];
    this.retryable = options.retryable ?? ERROR_CODES[code].retryable;
    this.retryAfterSeconds =
      options.retryAfterSeconds ?? (this.retryable && (status === 503 || status === 429) ? 1 : undefined);
    this.outcome = options.outcome ?? (code === 'outcome-unknown' || code === 'internal' ? 'unknown' : 'not-applied');
  }
}

/** Where a value stood in the request. */
export type Place = 'path' | 'query' | 'header' | 'body';

export interface BrokenRule {
  readonly field: string;
  readonly detail: string;
}

/** The contract's 422: the first broken rule, where it stood, and the first few. */
export class BrokenRulesError extends PosternError {
  constructor(place: Place, errors: readonly [BrokenRule, ...BrokenRule[]], members: Record<string, unknown> = {}) {
    const [{ field, detail }] = errors;
    super('invalid', detail, { members: { field, in: place, errors, ...members } });
  }
}

/** One broken rule: names the field, shows the value and says the rule. */
export class InvalidError extends BrokenRulesError {
  /** @param where `in`: where the field stands (default: the body); and further members */
  constructor(
    field: string,
    value: unknown,
    rule: string,
    { in: place = 'body', ...members }: { in?: Place } & Record<string, unknown> = {},
  ) {
    super(place, [{ field, detail: brokenRule(field, value, rule) }], members);
  }
}

/** One sentence: the value and its rule. */
export function brokenRule(field: string, value: unknown, rule: string): string {
  return `${field} is ${describe(value)}; it must be ${rule}.`;
}

/**
 * The request contradicts the present state, which will not change by itself: 409. If the state merely changed while
 * the request was running, it is a `conflict`, which may be repeated.
 */
export class StandingConflictError extends PosternError {
  constructor(detail: string, members: Record<string, unknown> = {}) {
    super('conflict', detail, { members, retryable: false });
  }
}

/** The lease's session is gone for good: 410. */
export class LeaseExpiredError extends PosternError {
  /** @param outcome `unknown`: something was sent for the request before the lease was found to have ended */
  constructor(cause?: unknown, outcome: Outcome = 'not-applied') {
    super('lease-expired', 'The lease has ended and everything it held was freed; start again with a new lease.', {
      cause,
      outcome,
    });
  }
}

/**
 * The client hung up before this was sent to ZooKeeper, so neither this nor any later step is done; earlier steps may
 * have been. Nobody is answered.
 */
export class ClientGoneError extends Error {
  override readonly name = 'ClientGoneError';

  constructor(operation: string) {
    super(`${operation} was not sent: the client that asked for it has gone`);
  }
}

export class NotHolderError extends PosternError {
  /** @param by what the request identified the hold by */
  constructor(
    kind: string,
    name: string,
    by = kind === 'election' ? 'candidateId or requestId' : 'holdId or requestId',
  ) {
    // A `requestId` identifies a place in the line, held or waiting.
    const norWaits = by.endsWith('requestId') ? ' (nor waits for it)' : '';
    super('not-holder', `This lease does not hold ${kind} "${name}"${norWaits} under the given ${by}.`);
  }
}

/** The semaphore has a different number of permits than the caller says: 409 with the number that all agreed on. */
export class LimitMismatchError extends StandingConflictError {
  constructor(name: string, asked: number, limit: number) {
    super(
      `Semaphore "${name}" has a limit of ${limit}, not ${asked}; name that, or none, which is always right. PUT changes it.`,
      { limit },
    );
  }
}

export function isPosternError(error: unknown, code?: ErrorCode): error is PosternError {
  return error instanceof PosternError && (code === undefined || error.code === code);
}

const SHOWN_VALUE_MAX = 80;

/** A recognisable, bounded form of a value, so that no answer grows with its request. */
function describe(value: unknown): string {
  if (value === undefined) return 'missing';
  const text = JSON.stringify(value) ?? typeof value;
  if (text.length <= SHOWN_VALUE_MAX) return text;
  // The length of a text is its own, without quotes and escapes: its rule is about that.
  return `${text.slice(0, SHOWN_VALUE_MAX)}… (${typeof value === 'string' ? value.length : text.length} characters)`;
}
