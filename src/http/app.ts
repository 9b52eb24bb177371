/**
 * The frame around every handler: admits, routes, authenticates, validates, calls, writes, logs and counts.
 *
 * Everything a handler may rely on was checked before it runs; whatever it throws becomes a problem answer. The order
 * of the checks is what a stranger may learn: first whether to be heard at all, then whether the path exists, then who
 * is asking, and only then what is asked.
 */
import type { IncomingMessage } from 'node:http';
import type { Config } from '../config.js';
import { PosternError } from '../errors.js';
import type { Logger } from '../log.js';
import type { Metrics } from '../metrics/metrics.js';
import type { Clock } from '../time.js';
import { writeAnswer } from './answer.js';
import type { Authentication } from './auth.js';
import { Call } from './call.js';
import { headerOf } from './call-exchange.js';
import { corsHeaders } from './cors.js';
import { ANONYMOUS } from './credentials.js';
import { serveEvents, STREAM_TUNING, type StreamTuning } from './events.js';
import type { Answer, EventStream, Handler, Routes } from './exchange.js';
import { createFace, type Face, type Serve } from './express-face.js';
import { Intake, type IntakeLimits } from './intake.js';
import { openApi, type Operation } from './openapi.js';
import type { Overload } from './overload.js';
import { problemOf } from './problem.js';
import { auditLog, recordCall, type Recorders } from './record.js';
import { parseTarget } from './request-target.js';
import { Router } from './router.js';
import { shed } from './shed.js';
import { endSpan } from './span.js';
import { isAwaited, standstill } from './standstill.js';
import { transportHeaders } from './tls.js';
import { createValidators } from './validation.js';

export interface AppOptions {
  readonly config: Pick<Config, 'maxWaitMs' | 'corsOrigins'> & IntakeLimits;
  readonly metrics: Metrics;
  readonly logger: Logger;
  readonly clock: Clock;
  readonly authentication: Authentication;
  readonly overload: Overload;
  /** Exactly one handler for each operation of the contract. */
  readonly routes: Routes;
  /** Aborted when the replica is to get no more requests: those that still come are served, each as the last of its connection. */
  readonly leaving: AbortSignal;
  /** Aborted, some time later, when the replica begins to drain. */
  readonly draining: AbortSignal;
  readonly streamTuning?: StreamTuning;
}

export interface App {
  /** Everything. */
  readonly main: Face;
  /** Health, readiness and metrics only. */
  readonly ops: Face;
  /** Requests that wait and streams, now. */
  waiters(): number;
}

/** For `OPTIONS *`, which asks about the server as a whole. */
const ALL_METHODS = 'DELETE, GET, HEAD, OPTIONS, POST';
const OPS_OPERATIONS = new Set(['health', 'readiness', 'metrics']);

/** @throws Error when the routes and the contract do not name the same operations. */
export function createApp(options: AppOptions): App {
  const { document, operations } = openApi();
  checkRoutes(options.routes, operations);
  const validators = createValidators(document, operations, { maxWaitMs: options.config.maxWaitMs });
  const intake = new Intake(options.config, validators, options.metrics, options.clock);
  const frame = new Frame(options, intake);
  const router = new Router(operations);
  return {
    main: shed(createFace(frame.serve(router)), { ...options, router, corsOrigins: options.config.corsOrigins }),
    ops: createFace(frame.serve(new Router(operations.filter(({ operationId }) => OPS_OPERATIONS.has(operationId))))),
    waiters: () => intake.waiters,
  };
}

function checkRoutes(routes: Routes, operations: readonly Operation[]): void {
  const promised = new Set(operations.map(({ operationId }) => operationId));
  const missing = [...promised].filter((id) => routes[id] === undefined);
  const unknown = Object.keys(routes).filter((id) => !promised.has(id));
  if (missing.length > 0) throw new Error(`openapi.yaml promises operations without a handler: ${missing.join(', ')}`);
  if (unknown.length > 0) throw new Error(`handlers without an operation in openapi.yaml: ${unknown.join(', ')}`);
}

class Frame {
  readonly #options: AppOptions;
  readonly #intake: Intake;
  readonly #recorders: Recorders;
  /** One listener on the process-wide signal and a set, because removing one of thousands from a signal walks over them all. */
  readonly #open = new Set<Call>();

  constructor(options: AppOptions, intake: Intake) {
    this.#options = options;
    this.#intake = intake;
    this.#recorders = { ...options, audit: auditLog(options.logger) };
    standstill.watch();
    options.draining.addEventListener('abort', () => {
      for (const call of this.#open) call.abort('draining');
    });
  }

  serve(router: Router): Serve {
    const { metrics, clock, draining, logger, overload } = this.#options;
    return async (request, response) => {
      const call = new Call(request, response, clock);
      this.#open.add(call);
      if (draining.aborted) call.abort('draining');
      metrics.httpRequestsInFlight.inc();
      try {
        // Who has too much to do does what it took on at once: that is how it knows how much it is.
        const isLate = !overload.active && standstill.isJustOver(call.receivedAt);
        if (!isLate || (await isAwaited(response))) await this.#run(call, router);
        else giveUp(call);
      } catch (error) {
        // Not even the problem could be written; there is nothing left to answer with.
        logger.error({ err: error, traceId: call.traceId }, 'an answer could not be written');
        response.destroy();
      } finally {
        this.#open.delete(call);
        call.close();
        metrics.httpRequestsInFlight.dec();
        recordCall(call, this.#recorders);
        endSpan(call);
      }
    };
  }

  async #run(call: Call, router: Router): Promise<void> {
    let answer: Answer | EventStream;
    try {
      answer = await this.#answer(call, router);
    } catch (error) {
      answer = this.#problem(call, error);
    }
    try {
      if ('events' in answer) await this.#stream(call, answer);
      else await this.#write(call, answer);
    } finally {
      this.#intake.release(call);
    }
  }

  async #answer(call: Call, router: Router): Promise<Answer | EventStream> {
    const { request } = call;
    const method = request.method ?? '';
    const { config, authentication } = this.#options;
    if (method === 'OPTIONS' && request.url === '*') return { status: 204, headers: { Allow: ALL_METHODS } };
    const target = parseTarget(request.url ?? '');
    authentication.admit(request.headers, target.authority ?? hostOf(request));
    call.answerHeaders = corsHeaders(config.corsOrigins, request.headers);

    const match = router.match(method, target.segments);
    if (match === undefined) throw new PosternError('not-found', 'There is no such path; /docs lists those there are.');
    if ('allow' in match) {
      if (method !== 'OPTIONS') throw notAllowed(method, match.allow);
      call.answerHeaders = corsHeaders(config.corsOrigins, request.headers, match.allow);
      return { status: 204, headers: { Allow: match.allow } };
    }
    call.operation = match.operation;
    call.params = match.params;
    const found = match.operation.isPublic ? ANONYMOUS : authentication.authenticate(request.headers);
    const credential = found instanceof Promise ? await found : found;
    call.credential = credential;
    const read = this.#intake.read(call, match, target, credential);
    const exchange = read instanceof Promise ? await read : read;
    return await this.#handler(match.operation)(exchange);
  }

  #handler({ operationId }: Operation): Handler {
    return this.#options.routes[operationId] as Handler;
  }

  async #write(call: Call, answer: Answer): Promise<void> {
    call.waitedMs = waitedMsOf(answer);
    const common = this.#commonHeaders(call);
    try {
      call.delivered = await writeAnswer(call.response, answer, common);
      if (!call.delivered) answer.undelivered?.();
    } catch (error) {
      // It could not be put into words, which only a fault of the handler explains; the client has not seen any of it.
      answer.undelivered?.();
      call.delivered = await writeAnswer(call.response, this.#problem(call, error), common);
    }
  }

  async #stream(call: Call, stream: EventStream): Promise<void> {
    await serveEvents(call.response, stream, {
      headers: this.#commonHeaders(call),
      maxMs: this.#options.config.maxWaitMs,
      lastEventId: headerOf(call.request.headers['last-event-id']),
      signal: call.signal,
      tuning: this.#options.streamTuning ?? STREAM_TUNING,
      explain: (error) => this.#problem(call, error).body,
    });
  }

  /** A failed call's answer. What is a fault, and not an answer of the contract, is logged here with its stack. */
  #problem(call: Call, error: unknown): Answer {
    const { status, headers, body, contentType, fault } = problemOf(error, call.traceId, call.operation?.retryable);
    call.code = body.code;
    if (fault) {
      const { traceId, operation } = call;
      this.#options.logger.error({ err: error, traceId, operation: operation?.operationId }, 'a request failed');
    }
    return { status, headers, body, contentType };
  }

  #commonHeaders(call: Call): Record<string, string> {
    const common: Record<string, string> = {
      ...call.answerHeaders,
      ...transportHeaders(call.request.socket),
      'Trace-Id': call.traceId,
    };
    const { leaving, draining } = this.#options;
    if (leaving.aborted || draining.aborted || call.mustCloseConnection) common['Connection'] = 'close';
    return common;
  }
}

/** Nothing is done, and nobody is answered. */
function giveUp(call: Call): void {
  call.code = 'client-gone';
  call.delivered = false;
}

function waitedMsOf({ body }: Answer): number | undefined {
  const waitedMs = (body as { waitedMs?: unknown } | undefined)?.waitedMs;
  return typeof waitedMs === 'number' ? waitedMs : undefined;
}

/** HTTP/1.1 requires it, and who may be served depends on it. */
function hostOf({ headers, httpVersion }: IncomingMessage): string | undefined {
  if (headers.host === undefined && httpVersion === '1.1')
    throw new PosternError('malformed', 'The Host header is missing.');
  return headers.host;
}

function notAllowed(method: string, allow: string): PosternError {
  return new PosternError('method-not-allowed', `This resource has no ${method}; it has ${allow}.`, {
    members: { allow },
  });
}
