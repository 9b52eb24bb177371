/** Builds a handler's view of a request: reads it, checks it against the contract and the limits, and hands it over. */
import type { Config } from '../../config.js';
import { PosternError } from '../../errors.js';
import type { Metrics } from '../../metrics/metrics.js';
import type { Clock } from '../../time.js';
import { negotiate } from './accept.js';
import { authorizeNames, authorizeOperation } from '../access/authorization.js';
import { BytesAtOnce, type ByteShare } from './bytes-at-once.js';
import { readJsonBody, readRawBody } from './body.js';
import type { Call } from './call.js';
import { CallExchange } from './call-exchange.js';
import { ANONYMOUS, type Credential } from '../access/credentials.js';
import type { Exchange } from './exchange.js';
import type { Operation } from '../contract/openapi.js';
import type { RequestTarget } from './request-target.js';
import type { Found } from '../contract/router.js';
import { PrincipalLimits, type PrincipalLimitsConfig } from '../access/principal-limits.js';
import { ownConnection } from '../server/bound-connections.js';
import type { OperationValidator, Validators } from '../contract/validation.js';

export type IntakeLimits = Pick<
  Config,
  'maxWaiters' | 'requestTimeoutMs' | 'maxBodyBytes' | 'maxBodyBytesAtOnce' | 'maxAnswerBytesAtOnce' | 'maxJsonValues'
> &
  PrincipalLimitsConfig;

const KIB = 1024;

type MaybePromise<T> = T | Promise<T>;

export class Intake {
  readonly #limits: IntakeLimits;
  readonly #validators: Validators;
  readonly #principals: PrincipalLimits;
  readonly #bodies: BytesAtOnce;
  readonly #answers: BytesAtOnce;
  readonly #metrics: Metrics;
  #waiters = 0;

  constructor(limits: IntakeLimits, validators: Validators, metrics: Metrics, clock: Clock) {
    this.#limits = limits;
    this.#validators = validators;
    this.#principals = new PrincipalLimits(limits, metrics, clock);
    this.#bodies = bodiesAtOnce(limits, metrics);
    this.#answers = answersAtOnce(limits, metrics);
    this.#metrics = metrics;
  }

  /** Number of waiting requests and streams now. */
  get waiters(): number {
    return this.#waiters;
  }

  /**
   * Synchronous if there is no body to wait for.
   * @throws PosternError if the contract or a limit forbids the request
   */
  read(
    call: Call,
    { operation, params }: Found,
    target: RequestTarget,
    credential: Credential,
  ): MaybePromise<Exchange> {
    const { headers } = call.request;
    if (operation.rateLimited) this.#principals.admitRequest(credential.principal.id);
    authorizeOperation(call, operation, credential);
    if (!operation.isPublic)
      ownConnection(call.request.socket, credential === ANONYMOUS ? undefined : credential.principal.id);
    const type = negotiate(headers.accept, operation.types);
    if (type === undefined && operation.types.length > 0) throw notAcceptable(operation.types);
    const validator = this.#validators.get(operation.operationId) as OperationValidator;
    const query = validator.checkTarget(params, target.query(), headers);
    call.streams = type === 'text/event-stream';
    return operation.body === undefined
      ? this.#admit(call, query, {})
      : this.#readBody(call, operation, validator, query);
  }

  countRequest(principal: string): void {
    this.#principals.admitRequest(principal);
  }

  /** @returns `overloaded` if there is no room for an answer of this length */
  reserveAnswer(call: Call, bytes: number): PosternError | undefined {
    if (bytes <= this.#answers.uncounted) return undefined;
    return this.shareOfAnswers(call).grow(bytes);
  }

  /**
   * Counts an answer until its call is over.
   * @throws PosternError `overloaded` if there is no room and none was reserved
   */
  admitAnswer(call: Call, bytes: number): void {
    const isReserved = call.answer !== undefined;
    if (!isReserved && bytes <= this.#answers.uncounted) return;
    if (isReserved) call.answer?.set(bytes);
    else {
      const refused = this.shareOfAnswers(call).grow(bytes);
      if (refused !== undefined) throw refused;
    }
  }

  /** The bytes of a call's answer while it is not written. */
  shareOfAnswers(call: Call): ByteShare {
    const { credential, operation, request } = call;
    // Probes and scrapes on the operations port are not refused because of what strangers leave unread on the main one.
    const principal =
      credential === undefined || operation?.isPublic === true
        ? `anybody at port ${request.socket.localPort}`
        : credential.principal.id;
    return (call.answer ??= this.#answers.open(principal, operation?.rateLimited === false));
  }

  /** Call it when the call is over. */
  release(call: Call): void {
    call.body?.close();
    call.answer?.close();
    if (!call.waits) return;
    this.#waiters -= 1;
    this.#principals.closeWait(call.credential?.principal.id ?? '', call.streams ? 'streams' : 'waits');
  }

  async #readBody(
    call: Call,
    operation: Operation,
    validator: OperationValidator,
    query: Readonly<Record<string, unknown>>,
  ): Promise<Exchange> {
    const maxBytes = Math.min(this.#limits.maxBodyBytes, operation.maxBodyBytes);
    call.body = this.#bodies.open(call.credential?.principal.id ?? '', !operation.rateLimited);
    const { maxJsonValues } = this.#limits;
    const options = { maxBytes, share: call.body, client: call, maxJsonValues };
    const begunAt = performance.now();
    const isRaw = operation.body === 'raw';
    const body = isRaw ? await readRawBody(call.request, options) : await readJsonBody(call.request, options);
    call.readingMs = performance.now() - begunAt;
    call.checkCredential();
    if ('contentType' in body) return this.#admit(call, query, body);
    authorizeNames(call, operation, call.credential as Credential, body.value);
    validator.checkBody(body.value, body.bytes);
    return this.#admit(call, query, body.value);
  }

  #admit(call: Call, query: Readonly<Record<string, unknown>>, body: unknown): Exchange {
    if (call.streams || isWaiting(query) || isWaiting(body)) this.#admitWaiter(call);
    return new CallExchange(call, query, body, this.#limits.requestTimeoutMs, this);
  }

  /** A wait costs memory for as long as it lasts; short requests need no such limit. */
  #admitWaiter(call: Call): void {
    const { maxWaiters } = this.#limits;
    const principal = (call.credential as Credential).principal.id;
    if (this.#waiters >= maxWaiters) {
      this.#metrics.limitRefusalsTotal.inc({ limit: 'waiters' });
      throw new PosternError('overloaded', `${maxWaiters} requests wait in this replica already; ask another one.`, {
        members: { maxWaiters },
      });
    }
    this.#principals.openWait(principal, call.streams ? 'streams' : 'waits');
    this.#waiters += 1;
    call.waits = true;
  }
}

/** A principal that sends one body of the largest size is never refused because of its own share. */
function bodiesAtOnce({ maxBodyBytes, maxBodyBytesAtOnce }: IntakeLimits, metrics: Metrics): BytesAtOnce {
  const max = Math.max(maxBodyBytesAtOnce, 2 * maxBodyBytes);
  return new BytesAtOnce({ kind: 'bodies', limit: 'maxBodyBytesAtOnce', max, uncounted: 64 * KIB }, metrics);
}

function answersAtOnce({ maxAnswerBytesAtOnce: max }: IntakeLimits, metrics: Metrics): BytesAtOnce {
  return new BytesAtOnce({ kind: 'answers', limit: 'maxAnswerBytesAtOnce', max, uncounted: 16 * KIB }, metrics);
}

function isWaiting(values: unknown): boolean {
  return Number((values as { waitMs?: unknown }).waitMs ?? 0) > 0;
}

function notAcceptable(types: readonly string[]): PosternError {
  return new PosternError('not-acceptable', `The answer exists as ${types.join(' and ')} only.`, {
    members: { types },
  });
}
