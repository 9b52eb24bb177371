/**
 * Refuses new work under overload, before anything is done for it: no express, no credential, no body, no line in the log. What a refusal
 * costs decides how much of the machine is left for those that are served; they are counted, and the log tells when overload begins and ends.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { PosternError } from '../errors.js';
import type { Logger } from '../log.js';
import type { Metrics } from '../metrics/metrics.js';
import type { Clock } from '../time.js';
import { prepareAnswer } from './answer.js';
import type { Authentication } from './auth.js';
import { corsHeaders } from './cors.js';
import type { Face } from './express-face.js';
import type { Operation } from './openapi.js';
import type { Overload } from './overload.js';
import { problemOf } from './problem.js';
import { parseTarget } from './request-target.js';
import type { Router } from './router.js';
import { transportHeaders } from './tls.js';
import { newTraceId, parentOf } from './trace.js';

/** Whoever is refused in the same moment is to come back in different ones. */
const RETRY_AFTER_SECONDS_MAX = 4;

/** Made once: a stack costs more than the rest of a refusal. */
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
  readonly authentication: Authentication;
  readonly metrics: Metrics;
  readonly logger: Logger;
  readonly clock: Clock;
  readonly corsOrigins: readonly string[];
  /** Aborted when the replica is to get no more requests. */
  readonly leaving: AbortSignal;
}

/** The face, with a door in front of it that is shut to new work while there is no time for it. */
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
  const operation = operationOf(request, options);
  if (operation?.rateLimited !== true) return false;
  const receivedAt = clock.monotonic();
  const traceId = parentOf(request.headers['traceparent'])?.traceId ?? newTraceId();
  const status = refuse(request, response, { operation, traceId }, options);
  overload.refused(late, request.socket);
  const { template: route, method, operationId } = operation;
  const seconds = (clock.monotonic() - receivedAt) / 1_000;
  metrics.httpRequestDurationSeconds.observe({ route, method, status: String(status) }, seconds);
  logger.debug({ traceId, operation: operationId, route, method, status, late }, 'refused under overload');
  return true;
}

/** @returns the status */
function refuse(
  { headers, socket }: IncomingMessage,
  response: ServerResponse,
  { operation: { retryable }, traceId }: { operation: Operation; traceId: string },
  { corsOrigins, leaving }: ShedOptions,
): number {
  const refusal = REFUSALS[Math.floor(Math.random() * REFUSALS.length)];
  const problem = problemOf(refusal, traceId, retryable);
  prepareAnswer(response, problem, {
    ...corsHeaders(corsOrigins, headers),
    ...transportHeaders(socket),
    'Trace-Id': traceId,
    // A client that asked whether to send its body was not told to: what follows on the connection is anybody's guess.
    ...(leaving.aborted || headers.expect !== undefined ? { Connection: 'close' } : {}),
  })();
  return problem.status;
}

/** @returns undefined for what the frame answers otherwise: a host that is not served, no such path, a target that cannot be read */
function operationOf(
  { method = '', url = '', headers }: IncomingMessage,
  { router, authentication }: ShedOptions,
): Operation | undefined {
  try {
    const { segments, authority } = parseTarget(url);
    authentication.admit(headers, authority ?? headers.host);
    const match = router.match(method, segments);
    return match !== undefined && 'operation' in match ? match.operation : undefined;
  } catch {
    return undefined;
  }
}
