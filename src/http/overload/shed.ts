/**
 * Refuses new work under overload before anything is done for it: no express, no credential, no body, no log line. The
 * cost of a refusal decides how much of the machine is left for the requests that are served. Refusals are counted, and
 * the log tells when overload begins and ends.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { PosternError } from '../../errors.js';
import type { Logger } from '../../log.js';
import type { Metrics } from '../../metrics/metrics.js';
import type { Clock } from '../../time.js';
import { prepareAnswer } from '../frame/answer.js';
import { corsHeaders } from '../access/cors.js';
import type { Face } from '../frame/express-face.js';
import { endsUnclearly } from '../frame/framing.js';
import type { Operation } from '../contract/openapi.js';
import type { Overload } from './overload.js';
import { problemOf } from '../frame/problem.js';
import { labelsOf } from '../frame/record.js';
import { parseTarget } from '../frame/request-target.js';
import type { Router } from '../contract/router.js';
import { transportHeaders } from '../server/tls.js';
import { newTraceId, parentOf } from '../frame/trace.js';

/** Clients refused at the same moment should return at different ones. */
const RETRY_AFTER_SECONDS_MAX = 4;

/** Created once: a stack costs more than the rest of a refusal. */
const REFUSALS = Array.from(
  { length: RETRY_AFTER_SECONDS_MAX },
  (_, seconds) =>
    new PosternError('overloaded', 'This replica has more to do than it has time for; ask later, or another one.', {
      retryAfterSeconds: 1 + seconds,
    }),
);

export interface ShedOptions {
  readonly overload: Overload;
  readonly router: Router;
  readonly metrics: Metrics;
  readonly logger: Logger;
  readonly clock: Clock;
  readonly corsOrigins: readonly string[];
  /** Aborted when the replica should get no more requests. */
  readonly leaving: AbortSignal;
}

/** Wraps the face with a check that refuses new work while there is no time for it. */
export function shed(face: Face, options: ShedOptions): Face {
  const { overload } = options;
  return {
    ...face,
    listener: (request, response) => {
      if (overload.active && isRefused(request, response, options)) return;
      face.listener(request, response);
    },
  };
}

function isRefused(request: IncomingMessage, response: ServerResponse, options: ShedOptions): boolean {
  const { overload, metrics, logger, clock } = options;
  const late = overload.tooLate();
  if (late === undefined) return false;
  const operation = operationOf(request, options.router);
  if (operation?.sheddable === false) return false;
  const receivedAt = clock.monotonic();
  const traceId = parentOf(request.headers['traceparent'])?.traceId ?? newTraceId();
  const status = refuse(request, response, { operation, traceId }, options);
  overload.refused(late, request.socket);
  const { route, method } = labelsOf(request, operation);
  const seconds = (clock.monotonic() - receivedAt) / 1_000;
  metrics.httpRequestDurationSeconds.observe({ route, method, status: String(status) }, seconds);
  logger.debug({ traceId, operation: operation?.operationId, route, method, status, late }, 'refused under overload');
  return true;
}

/** @returns the status */
function refuse(
  request: IncomingMessage,
  response: ServerResponse,
  { operation, traceId }: { operation: Operation | undefined; traceId: string },
  { corsOrigins, leaving }: ShedOptions,
): number {
  const { headers, socket } = request;
  const refusal = REFUSALS[Math.floor(Math.random() * REFUSALS.length)];
  const problem = problemOf(refusal, traceId, operation?.retryable);
  prepareAnswer(response, problem, {
    ...corsHeaders(corsOrigins, headers),
    ...transportHeaders(socket),
    'Trace-Id': traceId,
    // A client that sent `Expect: 100-continue` was not told to continue: what follows on the connection is unknown.
    ...(leaving.aborted || headers.expect !== undefined || endsUnclearly(request) ? { Connection: 'close' } : {}),
  }).send();
  return problem.status;
}

/** @returns undefined for unknown paths and methods, and targets that cannot be read */
function operationOf({ method = '', url = '', headers }: IncomingMessage, router: Router): Operation | undefined {
  // A preflight is judged as the request that it announces.
  const asked = method === 'OPTIONS' ? (headers['access-control-request-method'] ?? method) : method;
  try {
    const match = router.match(asked, parseTarget(url).segments);
    return match !== undefined && 'operation' in match ? match.operation : undefined;
  } catch {
    return undefined;
  }
}
