/**
 * The record of a call: one log line and one observation, and an extra line for an administrative act, allowed or
 * refused.
 *
 * A line says what was asked for, by whom, and how it ended; it never contains a token, a key, or a stored value.
 */
import type { IncomingMessage } from 'node:http';
import type { Logger, LogMembers } from '../../log.js';
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
const NEEDS_NO_ESCAPE = /^[\w.~/-]*$/;
/** Members of bodies and queries that describe an administrative act. None of them is secret. */
const ADMINISTRATIVE = [
  'holdId',
  'candidateId',
  'graceMs',
  'reason',
  'to',
  'max',
  'force',
  'occurrence',
  'node',
  'version',
] as const;

export interface Recorders {
  /** For the line of each request. */
  readonly log: LogMembers;
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

export function recordCall(call: Call, { log, audit, metrics, clock }: Recorders): void {
  const { operation, request, status } = call;
  const durationMs = clock.monotonic() - call.receivedAt;
  const histogram = call.waits ? metrics.httpWaitDurationSeconds : metrics.httpRequestDurationSeconds;
  const { route, method } = labelsOf(request, operation);
  histogram.observe({ route, method, status: String(status) }, durationMs / 1000);

  const level = operation !== undefined && QUIET_OPERATIONS.has(operation.operationId) ? 'debug' : 'info';
  const outcome = call.code ?? 'done';
  const principal = call.credential?.principal.id;
  // Not validated yet if the request was refused.
  const name = masked(nameIn(call.params) ?? call.params['id'] ?? call.params['state'], request)?.slice(
    0,
    NAME_SHOWN_MAX,
  );
  const namespace = masked(call.namespace, request)?.slice(0, NAME_SHOWN_MAX);
  const ms = rounded(durationMs);
  log(
    level,
    `"traceId":"${call.traceId}"${member('principal', principal)}${member('namespace', namespace)}` +
      `${member('operation', operation?.operationId)}${member('name', name)},"method":"${method}","route":"${route}",` +
      `"status":${status},"outcome":"${outcome}","durationMs":${ms}` +
      (call.waits ? `,"waits":"${call.streams ? 'stream' : 'answer'}","waitedMs":${call.waitedMs ?? ms}` : '') +
      (call.delivered ? '' : ',"delivered":false'),
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
        id:
          call.params['name'] === undefined ? undefined : masked(call.params['id'], request)?.slice(0, NAME_SHOWN_MAX),
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

/** A member after others, if it has a value. */
function member(name: string, value: string | undefined): string {
  if (value === undefined) return '';
  return `,"${name}":${NEEDS_NO_ESCAPE.test(value) ? `"${value}"` : JSON.stringify(value)}`;
}

function detailsOf(asked: Readonly<Record<string, unknown>>, request: IncomingMessage): Record<string, unknown> {
  return Object.fromEntries(
    ADMINISTRATIVE.flatMap((member) => (member in asked ? [[member, masked(asked[member], request)]] : [])),
  );
}

function rounded(ms: number): number {
  return Math.round(ms * 1000) / 1000;
}
