/**
 * The record of a call: one log line and one observation, and an extra line for an administrative act, allowed or
 * refused.
 *
 * A line says what was asked for, by whom, and how it ended; it never contains a token, a key, or a stored value.
 */
import type { IncomingMessage } from 'node:http';
import type { Logger } from '../../log.js';
import type { Metrics } from '../../metrics/metrics.js';
import type { Clock } from '../../time.js';
import { nameIn, type Call } from './call.js';
import { masked } from './masked.js';
import { NAME_SHOWN_MAX } from '../access/authorization.js';
import type { Operation } from '../contract/openapi.js';

/** Label values are bounded: any other method counts as `OTHER`. */
const METHODS = new Set(['GET', 'HEAD', 'POST', 'PUT', 'DELETE', 'OPTIONS']);
const UNMATCHED = 'unmatched';
/** Machines call these every few seconds. */
const QUIET_OPERATIONS = new Set(['health', 'readiness', 'metrics']);
/** Members of bodies and queries that describe an administrative act. None of them is secret. */
const ADMINISTRATIVE = ['holdId', 'graceMs', 'reason', 'to', 'max', 'force'] as const;

export interface Recorders {
  readonly logger: Logger;
  /** For administrative acts; see {@link auditLog}. */
  readonly audit: Logger;
  readonly metrics: Metrics;
  readonly clock: Clock;
}

/** Logs at every level but `silent`: turning down the noise of requests should not hide administrative acts. */
export function auditLog(logger: Logger): Logger {
  return logger.child({ audit: true }, { level: logger.level === 'silent' ? 'silent' : 'info' });
}

/** The metric labels of a request, valid or not. */
export function labelsOf(
  { method = '' }: IncomingMessage,
  operation: Operation | undefined,
): { route: string; method: string } {
  return { route: operation?.template ?? UNMATCHED, method: METHODS.has(method) ? method : 'OTHER' };
}

export function recordCall(call: Call, { logger, audit, metrics, clock }: Recorders): void {
  const { operation, request, status } = call;
  const durationMs = clock.monotonic() - call.receivedAt;
  const histogram = call.waits ? metrics.httpWaitDurationSeconds : metrics.httpRequestDurationSeconds;
  const { route, method } = labelsOf(request, operation);
  histogram.observe({ route, method, status: String(status) }, durationMs / 1000);

  const level = operation !== undefined && QUIET_OPERATIONS.has(operation.operationId) ? 'debug' : 'info';
  const outcome = call.code ?? 'done';
  const principal = call.credential?.principal.id;
  // Not validated yet if the request was refused.
  const name = masked(nameIn(call.params) ?? call.params['id'], request)?.slice(0, NAME_SHOWN_MAX);
  const namespace = masked(call.namespace, request)?.slice(0, NAME_SHOWN_MAX);
  const ms = rounded(durationMs);
  // One flat object: pino omits undefined members, and merging several objects costs as much as writing the line.
  logger[level](
    {
      traceId: call.traceId,
      principal,
      namespace,
      operation: operation?.operationId,
      name,
      method,
      route,
      status,
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
        namespace,
        operation: operation?.operationId,
        name,
        kind,
        keyId: call.credential?.keyId,
        ...detailsOf(asked, request),
        status,
        outcome,
      },
      'administrative act',
    );
  }
}

function detailsOf(asked: Readonly<Record<string, unknown>>, request: IncomingMessage): Record<string, unknown> {
  return Object.fromEntries(
    ADMINISTRATIVE.flatMap((member) => (member in asked ? [[member, masked(asked[member], request)]] : [])),
  );
}

function rounded(ms: number): number {
  return Math.round(ms * 1000) / 1000;
}
