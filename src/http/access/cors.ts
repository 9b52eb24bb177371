/** Cross-origin access for the web pages that the operator named; without `POSTERN_CORS_ORIGINS` there is none. */
import type { IncomingHttpHeaders } from 'node:http';

const REQUEST_HEADERS = [
  'Authorization',
  'Content-Type',
  'Lease-Token',
  'Namespace',
  'Guard',
  'Idempotency-Key',
  'If-Match',
  'If-None-Match',
  'Last-Event-ID',
  'traceparent',
].join(', ');
const ANSWER_HEADERS = 'Trace-Id, ETag, Retry-After, Allow';
const PREFLIGHT_MAX_AGE_SECONDS = '600';

const NONE: Readonly<Record<string, string>> = {};

/**
 * The CORS headers of an answer to this request.
 * @param allow the methods, for the answer to OPTIONS
 */
export function corsHeaders(
  origins: readonly string[],
  headers: IncomingHttpHeaders,
  allow?: string,
): Readonly<Record<string, string>> {
  if (origins.length === 0) return NONE;
  const { origin } = headers;
  // Caches must not serve one origin's answer to another, allowed or not.
  if (origin === undefined || !origins.includes(origin)) return { Vary: 'Origin' };
  const common = { Vary: 'Origin', 'Access-Control-Allow-Origin': origin };
  if (allow === undefined || headers['access-control-request-method'] === undefined) {
    return { ...common, 'Access-Control-Expose-Headers': ANSWER_HEADERS };
  }
  return {
    ...common,
    'Access-Control-Allow-Methods': allow,
    'Access-Control-Allow-Headers': REQUEST_HEADERS,
    'Access-Control-Max-Age': PREFLIGHT_MAX_AGE_SECONDS,
  };
}
