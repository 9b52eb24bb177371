/**
 * Turns an error into `application/problem+json` (RFC 9457). Anything but a {@link PosternError} is a fault of the
 * gateway: its message goes to the log, never into the answer.
 */
import { ERROR_CODES, PosternError, type ErrorCode } from '../../errors.js';

export const PROBLEM_TYPE = 'application/problem+json';

export interface Problem {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly contentType: string;
  readonly body: Readonly<Record<string, unknown>> & { readonly code: ErrorCode };
  /** Whether the gateway itself is to blame, so that somebody should look. */
  readonly fault: boolean;
}

const FAULTS: ReadonlySet<ErrorCode> = new Set(['internal', 'zookeeper-error']);

/** @param repeatable false if the contract says that the operation must never be repeated, whatever the code */
export function problemOf(error: unknown, traceId: string, repeatable = true): Problem {
  const known = asPosternError(error);
  const { status, title } = ERROR_CODES[known.code];
  const own = {
    type: `/problems/${known.code}`,
    title,
    status,
    detail: known.message,
    code: known.code,
    retryable: known.retryable && repeatable,
    outcome: known.outcome,
    instance: traceId,
  };
  return {
    status,
    headers: headersOf(known),
    contentType: PROBLEM_TYPE,
    fault: FAULTS.has(known.code),
    // First because people read them in this order, and again last so that no further member hides one.
    body: { ...own, ...known.members, ...own },
  };
}

/**
 * A wait whose credential has ended failed for that reason, whatever its handler reports. Only the handler knows what
 * was done by then; and a fault of the gateway stays one.
 */
export function inPlaceOf(error: unknown, refusal: PosternError): unknown {
  if (!(error instanceof PosternError) || FAULTS.has(error.code)) return error;
  return new PosternError(refusal.code, refusal.message, { members: refusal.members, outcome: error.outcome });
}

function asPosternError(error: unknown): PosternError {
  if (error instanceof PosternError) return error;
  return new PosternError('internal', 'The gateway failed; its log has the reason under this trace id.', {
    cause: error,
  });
}

function headersOf({ code, retryAfterSeconds, members }: PosternError): Record<string, string> {
  const headers: Record<string, string> = {};
  if (retryAfterSeconds !== undefined) headers['Retry-After'] = String(retryAfterSeconds);
  if (code === 'unauthenticated') headers['WWW-Authenticate'] = 'Bearer realm="postern"';
  if (code === 'method-not-allowed') headers['Allow'] = String(members['allow']);
  return headers;
}
