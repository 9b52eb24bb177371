/**
 * The frame around every handler: admits, routes, authenticates, authorizes, validates, calls, writes, logs and counts.
 *
 * Everything that a handler relies on is checked before it runs, and everything that it throws becomes a problem
 * answer. The order of the checks limits what a stranger may learn and what a request may cost: first whether it is
 * heard at all, then whether the path exists, who is asking and whether they may (`authorization.ts`), and only then
 * the request's content.
 */
import type { IncomingMessage } from 'node:http';
import type { Config } from '../../config.js';
import { ClientGoneError, PosternError } from '../../errors.js';
import { membersLog, type Logger } from '../../log.js';
import type { Metrics } from '../../metrics/metrics.js';
import type { Clock } from '../../time.js';
import { prepareAnswer, writeAnswer, type PreparedAnswer } from './answer.js';
import type { Authentication } from '../access/auth.js';
import { beginRequest, occupyConnection } from '../server/bound-connections.js';
import { BytesAtOnce } from './bytes-at-once.js';
import { Call, headerOf } from './call.js';
import { corsHeaders } from '../access/cors.js';
import { ANONYMOUS } from '../access/credentials.js';
import { inTime } from '../access/oidc/in-time.js';
import { serveEvents, STREAM_TUNING, type StreamTuning } from './events.js';
import type { Answer, EventStream, Exchange, Handler, Routes } from './exchange.js';
import { createFace, type Face, type Serve } from './express-face.js';
import { endsUnclearly } from './framing.js';
import { Intake, type IntakeLimits } from './intake.js';
import { openApi, type Operation } from '../contract/openapi.js';
import type { Overload } from '../overload/overload.js';
import { OpenCalls } from './open-calls.js';
import { inPlaceOf, problemOf } from './problem.js';
import { auditLog, recordCall, type Recorders } from './record.js';
import { withoutReasons } from '../routes/operations.js';
import { parseTarget } from './request-target.js';
import { Router } from '../contract/router.js';
import { shed } from '../overload/shed.js';
import { endSpan } from './span.js';
import { isAwaited, standstill } from '../overload/standstill.js';
import { aheadAtOnce } from '../server/pipelining.js';
import { transportHeaders } from '../server/tls.js';
import { validatorsFor } from '../contract/validation.js';

export interface AppOptions {
  readonly config: Pick<Config, 'maxWaitMs' | 'maxBytesAhead' | 'corsOrigins' | 'opsPort' | 'console'> & IntakeLimits;
  readonly metrics: Metrics;
  readonly logger: Logger;
  readonly clock: Clock;
  readonly authentication: Authentication;
  readonly overload: Overload;
  /** Exactly one handler for each operation of the contract. */
  readonly routes: Routes;
  /**
   * Aborted when the replica should get no more requests: those that still arrive are served, each as the last one of
   * its connection.
   */
  readonly leaving: AbortSignal;
  /** Aborted later, when the drain begins. */
  readonly draining: AbortSignal;
  readonly streamTuning?: StreamTuning;
}

export interface App {
  /** All operations. */
  readonly main: Face;
  /** Health, readiness and metrics only. */
  readonly ops: Face;
  /** Bytes that connections have sent ahead of their turn. */
  readonly ahead: BytesAtOnce;
  /** Number of waiting requests and streams now. */
  waiters(): number;
  /** Call it when all connections are closed: requests that are still being served are recorded as cut off. */
  cutOff(): void;
}

/** For `OPTIONS *`, which is about the server as a whole. */
const ALL_METHODS = 'DELETE, GET, HEAD, OPTIONS, POST, PUT';
const OPS_OPERATIONS = new Set(['health', 'readiness', 'metrics']);
const CONSOLE_OPERATIONS = new Set(['console', 'consoleAsset']);

/** @throws Error if the routes and the contract do not name the same operations */
export function createApp(options: AppOptions): App {
  const { operations } = openApi();
  checkRoutes(options.routes, operations);
  const validators = validatorsFor(options.config);
  const intake = new Intake(options.config, validators, options.metrics, options.clock);
  const frame = new Frame(options, intake);
  const { routes } = options;
  const { opsPort } = options.config;
  // Reasons appear on the operations port only: the main port is open to strangers.
  const router = new Router(operations.filter(({ operationId }) => isOnMainPort(operationId, options.config)));
  return {
    main: shed(createFace(frame.serve(router, opsPort === undefined ? routes : withoutReasons(routes))), {
      ...options,
      router,
      corsOrigins: options.config.corsOrigins,
    }),
    ops: createFace(
      frame.serve(new Router(operations.filter(({ operationId }) => OPS_OPERATIONS.has(operationId))), routes),
    ),
    ahead: new BytesAtOnce(aheadAtOnce(options.config), options.metrics),
    waiters: () => intake.waiters,
    cutOff: () => frame.cutOff(),
  };
}

function isOnMainPort(operationId: string, config: Pick<Config, 'opsPort' | 'console'>): boolean {
  if (CONSOLE_OPERATIONS.has(operationId)) return config.console;
  return operationId !== 'metrics' || config.opsPort === undefined;
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
  readonly #open: OpenCalls;

  constructor(options: AppOptions, intake: Intake) {
    this.#options = options;
    this.#intake = intake;
    this.#recorders = { ...options, log: membersLog(options.logger), audit: auditLog(options.logger) };
    this.#open = new OpenCalls(options.authentication, options.draining);
    standstill.watch();
  }

  serve(router: Router, routes: Routes): Serve {
    const { metrics, clock, logger, overload } = this.#options;
    return async (request, response) => {
      const call = new Call(request, response, clock);
      this.#open.add(call);
      metrics.httpRequestsInFlight.inc();
      try {
        // Under overload, admitted requests run at once, so that the load can be measured.
        const isLate = !overload.active && standstill.isJustOver(call.receivedAt);
        const isWanted = !isLate || (await isAwaited(response));
        const reply = isWanted ? await this.#reply(call, router, routes) : undefined;
        // The source of an answer is not kept alive while the answer is written.
        await this.#respond(call, reply);
      } catch (error) {
        // Not even the problem could be written; there is nothing left to answer with.
        logger.error({ err: error, traceId: call.traceId }, 'failed to write a response');
        response.destroy();
      } finally {
        this.#intake.release(call);
        call.close();
        metrics.httpRequestsInFlight.dec();
        this.#record(call);
      }
    };
  }

  cutOff(): void {
    for (const call of this.#open.all) {
      // A stream that has begun was told of the end.
      if (!call.streams || !call.response.headersSent) giveUp(call, 'cut-off');
      this.#record(call);
    }
  }

  /** Once: what was cut off is recorded before it is over. */
  #record(call: Call): void {
    if (!this.#open.delete(call)) return;
    recordCall(call, this.#recorders);
    endSpan(call);
  }

  #respond(call: Call, reply: Reply | EventStream | undefined): Promise<void> | void {
    if (reply === undefined) return giveUp(call, 'client-gone');
    return 'events' in reply ? this.#stream(call, reply) : this.#write(call, reply);
  }

  /** @returns undefined if there is nobody to answer */
  async #reply(call: Call, router: Router, routes: Routes): Promise<Reply | EventStream | undefined> {
    let answer: Answer | EventStream;
    try {
      const admitted = await this.#admit(call, router);
      // Not awaited in `admit` as well: each function that waits with a request takes half a KiB.
      answer = 'status' in admitted ? admitted : await (routes[admitted.operationId] as Handler)(admitted);
    } catch (error) {
      if (error instanceof ClientGoneError && call.gone) return undefined;
      const why = call.waits && call.refusal !== undefined ? inPlaceOf(error, call.refusal) : error;
      return this.#prepare(call, this.#problem(call, why));
    }
    return 'events' in answer ? answer : this.#prepare(call, answer);
  }

  /** @returns the answer, if that needs no handler */
  async #admit(call: Call, router: Router): Promise<Exchange | Answer> {
    const { request } = call;
    beginRequest(request.socket);
    checkFraming(call);
    const method = request.method ?? '';
    const { config, authentication } = this.#options;
    if (method === 'OPTIONS' && request.url === '*') return { status: 204, headers: { Allow: ALL_METHODS } };
    const target = parseTarget(request.url ?? '');
    const host = hostOf(request);
    authentication.admit(request.headers, target.authority ?? host);
    call.answerHeaders = corsHeaders(config.corsOrigins, request.headers);

    const match = router.match(method, target.segments);
    if (match === undefined) return pageWithoutSlash(router, method, target.segments);
    if ('allow' in match) {
      if (method !== 'OPTIONS') throw notAllowed(method, match.allow, router.verbsBelow(target.segments));
      call.answerHeaders = corsHeaders(config.corsOrigins, request.headers, match.allow);
      return { status: 204, headers: { Allow: match.allow } };
    }
    call.operation = match.operation;
    call.params = match.params;
    if (!match.operation.isPublic) this.#checkHeld(call);
    const found = match.operation.isPublic ? ANONYMOUS : authentication.authenticate(request.headers);
    const credential = found instanceof Promise ? await inTime(found, this.#leftMs(call)) : found;
    call.credential = credential;
    const read = this.#intake.read(call, match, target, credential);
    const exchange = read instanceof Promise ? await read : read;
    if (!match.operation.isPublic) occupyConnection(request.socket);
    if (call.waits) this.#open.beginWait(call);
    return exchange;
  }

  /** Refuses a request whose deadline passed before its turn came. */
  #checkHeld({ arrivedAt, receivedAt }: Call): void {
    const { requestTimeoutMs } = this.#options.config;
    if (receivedAt - arrivedAt < requestTimeoutMs) return;
    throw new PosternError(
      'overloaded',
      `It waited for the answers to earlier requests of its connection for longer than ${requestTimeoutMs} ms; send it on another connection.`,
      { members: { requestTimeoutMs } },
    );
  }

  #leftMs({ arrivedAt }: Call): number {
    const { config, clock } = this.#options;
    return arrivedAt + config.requestTimeoutMs - clock.monotonic();
  }

  #prepare(call: Call, answer: Answer): Reply {
    call.waitedMs = waitedMsOf(answer);
    const common = this.#commonHeaders(call);
    try {
      const prepared = prepareAnswer(call.response, answer, common);
      this.#intake.admitAnswer(call, call.request.method === 'HEAD' ? 0 : prepared.bytes);
      return { prepared, undelivered: answer.undelivered };
    } catch (error) {
      // There is no room for the answer, or it could not be serialised, which only a fault of the handler explains; the
      // client has not seen any of it.
      answer.undelivered?.();
      return { prepared: prepareAnswer(call.response, this.#problem(call, untold(call, error)), common) };
    }
  }

  async #write(call: Call, { prepared, undelivered }: Reply): Promise<void> {
    call.delivered = await writeAnswer(call.response, prepared);
    if (!call.delivered) undelivered?.();
  }

  async #stream(call: Call, stream: EventStream): Promise<void> {
    await serveEvents(call.response, stream, {
      headers: this.#commonHeaders(call),
      maxMs: this.#options.config.maxWaitMs,
      lastEventId: headerOf(call.request.headers['last-event-id']),
      signal: call.signal,
      tuning: this.#options.streamTuning ?? STREAM_TUNING,
      backlog: this.#intake.shareOfAnswers(call),
      explain: (error) => this.#problem(call, error).body,
      refusal: () => this.#problem(call, call.refusal).body,
    });
  }

  /** The answer to a failed call. Faults, as opposed to answers of the contract, are logged here with their stack. */
  #problem(call: Call, error: unknown): Answer {
    const { status, headers, body, contentType, fault } = problemOf(error, call.traceId, call.operation?.retryable);
    call.code = body.code;
    const isOfFleetLock = call.operation?.source['x-kind-and-value'] === true;
    if (fault) {
      const { traceId, operation } = call;
      this.#options.logger.error({ err: error, traceId, operation: operation?.operationId }, 'request failed');
    }
    const shown = isOfFleetLock ? { kind: body.code, ...body, value: body['detail'] } : body;
    return { status, headers, body: shown, contentType };
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

/** If a request that may have changed something has no room for its answer, nobody can say that it was not done. */
function untold({ operation }: Call, error: unknown): unknown {
  if (!(error instanceof PosternError) || operation?.method === 'GET') return error;
  const { message, members } = error;
  return new PosternError('outcome-unknown', `It has no answer: ${message}`, { members, cause: error });
}

/** What to write, and whom to tell if it could not be written. */
interface Reply {
  readonly prepared: PreparedAnswer;
  readonly undelivered?: Answer['undelivered'];
}

/** Ends a call without an answer. */
function giveUp(call: Call, why: 'client-gone' | 'cut-off'): void {
  call.code = why;
  call.delivered = false;
}

function waitedMsOf({ body }: Answer): number | undefined {
  const waitedMs = (body as { waitedMs?: unknown } | undefined)?.waitedMs;
  return typeof waitedMs === 'number' ? waitedMs : undefined;
}

function checkFraming({ request, response }: Call): void {
  if (!endsUnclearly(request)) return;
  response.shouldKeepAlive = false;
  const rule = request.httpVersion === '1.0' ? 'HTTP/1.0 has no such header' : 'it must be "chunked" and nothing else';
  const coding = JSON.stringify(request.headers['transfer-encoding']?.slice(0, 100));
  throw new PosternError('malformed', `Transfer-Encoding is ${coding}; ${rule}.`);
}

/** HTTP/1.1 requires it, and admission depends on it. */
function hostOf({ headers, rawHeaders, httpVersion }: IncomingMessage): string | undefined {
  // Of repeated headers Node keeps the first; a proxy in front of this gateway may have looked at another one.
  let [hosts, credentials] = [0, 0];
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at] as string;
    if (name.length === 4 && name.toLowerCase() === 'host') hosts += 1;
    else if (name.length === 13 && name.toLowerCase() === 'authorization') credentials += 1;
  }
  if (hosts > 1) throw new PosternError('malformed', 'There is more than one Host header.');
  if (credentials > 1) throw new PosternError('malformed', 'There is more than one Authorization header.');
  if (headers.host === undefined && httpVersion === '1.1')
    throw new PosternError('malformed', 'The Host header is missing.');
  return headers.host;
}

/** @param verbs the actions on it that have a path of their own */
function notAllowed(method: string, allow: string, verbs: readonly string[]): PosternError {
  const hint = verbs.length === 0 ? '' : ` Below it there are ${verbs.map((verb) => `/${verb}`).join(', ')}.`;
  return new PosternError('method-not-allowed', `This resource has no ${method}; it has ${allow}.${hint}`, {
    members: { allow },
  });
}

/**
 * People type `/docs/`: where the path without its last slash is a page, they are sent there.
 * @throws PosternError `not-found` everywhere else
 */
function pageWithoutSlash(router: Router, method: string, segments: readonly string[]): Answer {
  const shorter = segments.slice(0, -1);
  const match = segments.at(-1) === '' && shorter.length > 0 ? router.match(method, shorter) : undefined;
  if (match === undefined || !('operation' in match) || !match.operation.types.includes('text/html'))
    throw noSuchPath(segments);
  return { status: 308, headers: { Location: `/${shorter.map(encodeURIComponent).join('/')}` } };
}

function noSuchPath(segments: readonly string[]): PosternError {
  return new PosternError(
    'not-found',
    `There is no such path here; /docs, at the port of the API, lists those there are.${hintOf(segments)}`,
  );
}

function hintOf(segments: readonly string[]): string {
  if (segments.at(-1) === '' && segments.length > 1) return ' No path ends with a "/".';
  // More segments than any path has: probably a name that contains a slash, which escaping does not allow either.
  if (segments[0] === 'v1' && segments.length > 3)
    return ' A name never holds a "/", except in the keys of the configuration: join its parts with "." or "-".';
  return '';
}
