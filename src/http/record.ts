/**
 * What remains of a call: one log line and one observation, and a line of its own for what an administrator did, or was refused.
 *
 * A line names what was asked for, by whom and how it ended; never a token, a key, or what somebody keeps here.
 */
import type { Logger } from '../log.js';
import type { Metrics } from '../metrics/metrics.js';
import type { Clock } from '../time.js';
import type { Call } from './call.js';
import { nameIn } from './call-exchange.js';

/** Label values are bounded: whatever else a client calls its method is `OTHER`. */
const METHODS = new Set(['GET', 'HEAD', 'POST', 'PUT', 'DELETE', 'OPTIONS']);
const UNMATCHED = 'unmatched';
/** What nginx writes for a client that went away before the answer. */
const CLIENT_GONE = '499';
/** Asked for every few seconds by machines. */
const QUIET_OPERATIONS = new Set(['health', 'readiness', 'metrics']);
/** Members of bodies and queries that say what an administrator asked for. None of them is secret. */
const ADMINISTRATIVE = ['holdId', 'graceMs', 'reason', 'to', 'max', 'force'] as const;

export interface Recorders {
  readonly logger: Logger;
  /** For what administrators do; see {@link auditLog}. */
  readonly audit: Logger;
  readonly metrics: Metrics;
  readonly clock: Clock;
}

/** Written at any level of the log but `silent`: who turns down the noise of requests does not mean these. */
export function auditLog(logger: Logger): Logger {
  return logger.child({ audit: true }, { level: logger.level === 'silent' ? 'silent' : 'info' });
}

export function recordCall(call: Call, { logger, audit, metrics, clock }: Recorders): void {
  const { operation, request, response } = call;
  const durationMs = clock.monotonic() - call.receivedAt;
  const histogram = call.waits ? metrics.httpWaitDurationSeconds : metrics.httpRequestDurationSeconds;
  const method = METHODS.has(request.method ?? '') ? (request.method as string) : 'OTHER';
  const status = call.delivered ? String(response.statusCode) : CLIENT_GONE;
  const route = operation?.template ?? UNMATCHED;
  histogram.observe({ route, method, status }, durationMs / 1000);

  const level = operation !== undefined && QUIET_OPERATIONS.has(operation.operationId) ? 'debug' : 'info';
  const outcome = call.code ?? 'done';
  const principal = call.credential?.principal.id;
  const name = nameIn(call.params) ?? call.params['id'];
  const ms = rounded(durationMs);
  // One flat object: members that are undefined are left out, and putting it together from parts costs as much as writing it.
  logger[level](
    {
      traceId: call.traceId,
      principal,
      namespace: call.namespace,
      operation: operation?.operationId,
      name,
      method,
      route,
      status: response.statusCode,
      outcome,
      durationMs: ms,
      waits: call.waits ? (call.streams ? 'stream' : 'answer') : undefined,
      waitedMs: call.waits ? (call.waitedMs ?? ms) : undefined,
      delivered: call.delivered ? undefined : false,
    },
    'request',
  );
  if (call.administers !== undefined) {
    const { kind, asked } = call.administers;
    audit.info(
      {
        traceId: call.traceId,
        principal,
        namespace: call.namespace,
        operation: operation?.operationId,
        name,
        kind,
        keyId: call.credential?.keyId,
        ...detailsOf(asked),
        status: response.statusCode,
        outcome,
      },
      'administrative act',
    );
  }
}

function detailsOf(asked: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(ADMINISTRATIVE.flatMap((member) => (member in asked ? [[member, asked[member]]] : [])));
}

function rounded(ms: number): number {
  return Math.round(ms * 1000) / 1000;
}
