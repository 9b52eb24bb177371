/** What goes wrong, for callers: a request that was refused or not answered, and a hold that is gone. */
import type { Problem } from './contract.js';

export interface PosternErrorOptions {
  code: string;
  status?: number;
  retryable?: boolean;
  outcome?: 'not-applied' | 'unknown';
  problem?: Problem;
  retryAfterMs?: number | undefined;
  cause?: unknown;
}

/** A request that did not succeed. `message` is the `detail` of the problem. */
export class PosternError extends Error {
  override readonly name: string = 'PosternError';
  /**
   * The code of the problem, `lock-held` for example (`/problems/{code}` explains each); or one of the client's own:
   * `unreachable` if no gateway answered, `closed` after `close()`.
   */
  readonly code: string;
  /** The HTTP status; 0 if there was no answer. */
  readonly status: number;
  /** Whether the same request may succeed later without any other action. */
  readonly retryable: boolean;
  /** `not-applied`: nothing was done. `unknown`: it may have been done; repeat the same request to find out. */
  readonly outcome: 'not-applied' | 'unknown';
  /** The whole problem with its further members, such as `holder`; undefined if there was no answer. */
  readonly problem: Problem | undefined;
  /** How long the gateway asks to wait before the request is repeated, in milliseconds. */
  readonly retryAfterMs: number | undefined;

  constructor(detail: string, options: PosternErrorOptions) {
    super(detail, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = options.code;
    this.status = options.status ?? 0;
    this.retryable = options.retryable ?? false;
    this.outcome = options.outcome ?? 'not-applied';
    this.problem = options.problem;
    this.retryAfterMs = options.retryAfterMs;
  }

  get detail(): string {
    return this.message;
  }
}

/** What a problem says. */
export function problemError(problem: Problem, retryAfterMs?: number): PosternError {
  const { code, status, retryable, outcome, detail } = problem;
  return new PosternError(detail, { code, status, retryable, outcome, problem, retryAfterMs });
}

/** No gateway answered. `outcome` says whether the request had been sent. */
export function unreachable(where: string, sent: boolean, cause: unknown): PosternError {
  const why = cause instanceof Error ? cause.message : String(cause);
  const outcome = sent ? 'unknown' : 'not-applied';
  return new PosternError(`${where} did not answer: ${why}`, { code: 'unreachable', retryable: true, outcome, cause });
}

/** A success that no gateway answers: a page of something in between, for example. */
export function notOfGateway(status: number): PosternError {
  const options = { code: 'unreachable', status, retryable: true, outcome: 'unknown' } as const;
  return new PosternError(`answered ${status} with what no gateway answers`, options);
}

/**
 * Why a hold is gone: `lost`, its node disappeared although the lease is alive; `revoked`, somebody with the right to
 * do so asked for it back, or broke it; `lease-expired`, the lease ended, or may end before the client hears of it;
 * `closed`, this program called `close()`.
 */
export type LossCause = 'lost' | 'revoked' | 'lease-expired' | 'closed';

/** The `reason` of the signal of a hold, a term, a membership or a job: it is gone, or has to be taken for gone. */
export class HoldLostError extends Error {
  override readonly name = 'HoldLostError';
  override readonly cause: LossCause;

  constructor(cause: LossCause, detail: string) {
    super(detail);
    this.cause = cause;
  }
}
