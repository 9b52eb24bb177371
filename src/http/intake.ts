/**
 * Takes in what a handler will see of a request: reads it, holds it against the contract and the limits, and hands it over.
 */
import type { Config } from '../config.js';
import { PosternError } from '../errors.js';
import type { Metrics } from '../metrics/metrics.js';
import type { Clock } from '../time.js';
import { negotiate } from './accept.js';
import { readJsonBody, readRawBody } from './body.js';
import type { Call } from './call.js';
import { CallExchange } from './call-exchange.js';
import type { Credential } from './credentials.js';
import type { Exchange } from './exchange.js';
import type { RequestTarget } from './request-target.js';
import type { Found } from './router.js';
import { PrincipalLimits, type PrincipalLimitsConfig } from './principal-limits.js';
import type { OperationValidator, Validators } from './validation.js';

export type IntakeLimits = Pick<Config, 'maxWaiters' | 'requestTimeoutMs' | 'maxBodyBytes'> & PrincipalLimitsConfig;

type MaybePromise<T> = T | Promise<T>;

export class Intake {
  readonly #limits: IntakeLimits;
  readonly #validators: Validators;
  readonly #principals: PrincipalLimits;
  readonly #metrics: Metrics;
  #waiters = 0;

  constructor(limits: IntakeLimits, validators: Validators, metrics: Metrics, clock: Clock) {
    this.#limits = limits;
    this.#validators = validators;
    this.#principals = new PrincipalLimits(limits, metrics, clock);
    this.#metrics = metrics;
  }

  /** Requests that wait and streams, now. */
  get waiters(): number {
    return this.#waiters;
  }

  /**
   * At once where there is no body to wait for.
   * @throws PosternError for what the contract or a limit forbids.
   */
  read(
    call: Call,
    { operation, params }: Found,
    target: RequestTarget,
    credential: Credential,
  ): MaybePromise<Exchange> {
    const { headers } = call.request;
    if (operation.rateLimited) this.#principals.admitRequest(credential.principal.id);
    const type = negotiate(headers.accept, operation.types);
    if (type === undefined && operation.types.length > 0) throw notAcceptable(operation.types);
    const validator = this.#validators.get(operation.operationId) as OperationValidator;
    const query = validator.checkTarget(params, target.query(), headers);
    call.streams = type === 'text/event-stream';
    const admit = (body: unknown): Exchange => {
      if (call.streams || isWaiting(query) || isWaiting(body)) this.#admitWaiter(call, credential.principal.id);
      return new CallExchange(call, operation, params, credential, query, body, this.#limits.requestTimeoutMs);
    };
    return operation.body === undefined ? admit({}) : this.#readBody(call, operation.body, validator, admit);
  }

  /** When the call is over. */
  release(call: Call): void {
    if (!call.waits) return;
    this.#waiters -= 1;
    this.#principals.closeWait(call.credential?.principal.id ?? '', call.streams ? 'streams' : 'waits');
  }

  async #readBody(
    call: Call,
    kind: 'json' | 'raw',
    validator: OperationValidator,
    admit: (body: unknown) => Exchange,
  ): Promise<Exchange> {
    const options = { maxBytes: this.#limits.maxBodyBytes, onReading: () => call.sendContinue() };
    if (kind === 'raw') return admit(await readRawBody(call.request, options));
    const { value, bytes } = await readJsonBody(call.request, options);
    validator.checkBody(value, bytes);
    return admit(value);
  }

  /** A wait costs memory for as long as it lasts; what is short needs no such limit. */
  #admitWaiter(call: Call, principal: string): void {
    const { maxWaiters } = this.#limits;
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

function isWaiting(values: unknown): boolean {
  return Number((values as { waitMs?: unknown }).waitMs ?? 0) > 0;
}

function notAcceptable(types: readonly string[]): PosternError {
  return new PosternError('not-acceptable', `The answer exists as ${types.join(' and ')} only.`, {
    members: { types },
  });
}
