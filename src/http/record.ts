/** What remains of a call: one log line and one observation. */
import type { Logger } from '../log.js';
import type { Metrics } from '../metrics/metrics.js';
import type { Clock } from '../time.js';
import type { Call } from './call.js';

/** Label values are bounded: whatever else a client calls its method is `OTHER`. */
const METHODS = new Set(['GET', 'HEAD', 'POST', 'PUT', 'DELETE', 'OPTIONS']);
const UNMATCHED = 'unmatched';
/** What nginx writes for a client that went away before the answer. */
const CLIENT_GONE = '499';
/** Asked for every few seconds by machines. */
const QUIET_OPERATIONS = new Set(['health', 'readiness', 'metrics']);

export function recordCall(
  call: Call,
  { logger, metrics, clock }: { logger: Logger; metrics: Metrics; clock: Clock },
): void {
  const { operation, request, response } = call;
  const durationMs = clock.monotonic() - call.receivedAt;
  const histogram = call.waits ? metrics.httpWaitDurationSeconds : metrics.httpRequestDurationSeconds;
  const method = METHODS.has(request.method ?? '') ? (request.method as string) : 'OTHER';
  const status = call.delivered ? String(response.statusCode) : CLIENT_GONE;
  histogram.observe({ route: operation?.template ?? UNMATCHED, method, status }, durationMs / 1000);

  const level = operation !== undefined && QUIET_OPERATIONS.has(operation.operationId) ? 'debug' : 'info';
  logger[level](
    {
      traceId: call.traceId,
      principal: call.principal?.id,
      operation: operation?.operationId,
      method,
      status: response.statusCode,
      code: call.code,
      durationMs: Math.round(durationMs * 1000) / 1000,
      ...(call.delivered ? {} : { delivered: false }),
    },
    'request',
  );
}
