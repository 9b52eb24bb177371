/**
 * From an error to `application/problem+json` (RFC 9457). What is not a {@link PosternError} is a fault of the gateway: its
 * words go to the log, never into the answer.
 */
import { ERROR_CODES, PosternError, type ErrorCode } from '../errors.js';

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

/** @param repeatable false for an operation of which the contract says that it is never to be repeated, whatever the code */
export function problemOf(error: unknown, traceId: string, repeatable = true): Problem {
  const known = asPosternError(error);
  const { status, retryable, title } = ERROR_CODES[known.code];
  const own = {
    type: `/problems/${known.code}`,
    title,
    status,
    detail: known.message,
    code: known.code,
    retryable: retryable && repeatable,
    outcome: known.outcome,
    instance: traceId,
  };
  return {
    status,
    headers: headersOf(known),
    contentType: PROBLEM_TYPE,
    fault: FAULTS.has(known.code),
    // First for the order in which people read them, and last so that no further member covers one.
    body: { ...own, ...known.members, ...own },
  };
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
