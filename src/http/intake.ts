/**
 * Takes in what a handler will see of a request: reads it, holds it against the contract and the limits, and hands it over.
 */
import type { Config } from '../config.js';
import { PosternError } from '../errors.js';
import { negotiate } from './accept.js';
import { readJsonBody, readRawBody } from './body.js';
import type { Call } from './call.js';
import type { Credential } from './credentials.js';
import type { Exchange, Scope } from './exchange.js';
import type { Operation } from './openapi.js';
import type { RequestTarget } from './request-target.js';
import type { Found } from './router.js';
import type { OperationValidator, Validators } from './validation.js';

export type IntakeLimits = Pick<Config, 'maxWaiters' | 'requestTimeoutMs' | 'maxBodyBytes'>;

export class Intake {
  readonly #limits: IntakeLimits;
  readonly #validators: Validators;
  #waiters = 0;

  constructor(limits: IntakeLimits, validators: Validators) {
    this.#limits = limits;
    this.#validators = validators;
  }

  /** Requests that wait and streams, now. */
  get waiters(): number {
    return this.#waiters;
  }

  /** @throws PosternError for what the contract or a limit forbids. */
  async read(
    call: Call,
    { operation, params }: Found,
    target: RequestTarget,
    credential: Credential,
  ): Promise<Exchange> {
    const { headers } = call.request;
    const type = negotiate(headers.accept, operation.types);
    if (type === undefined && operation.types.length > 0) throw notAcceptable(operation.types);
    const validator = this.#validators.get(operation.operationId) as OperationValidator;
    const query = validator.checkTarget(params, target.query, headers);
    const body = await this.#readBody(call, operation, validator);
    const wantsEvents = type === 'text/event-stream';
    if (wantsEvents || isWaiting(query) || isWaiting(body)) this.#admitWaiter(call);
    return {
      operationId: operation.operationId,
      params,
      query,
      body,
      headers,
      principal: credential.principal,
      namespace: headerOf(headers['namespace']),
      leaseToken: headerOf(headers['lease-token']),
      idempotencyKey: headerOf(headers['idempotency-key']),
      traceId: call.traceId,
      receivedAt: call.receivedAt,
      deadline: call.receivedAt + this.#limits.requestTimeoutMs,
      signal: call.signal,
      wantsEvents,
      authorize: (scope, namespace) => authorize(credential, operation, scope, namespace),
    };
  }

  /** When the call is over. */
  release(call: Call): void {
    if (call.waits) this.#waiters -= 1;
  }

  async #readBody(call: Call, operation: Operation, validator: OperationValidator): Promise<unknown> {
    if (operation.body === undefined) return {};
    const options = { maxBytes: this.#limits.maxBodyBytes, onReading: () => call.sendContinue() };
    if (operation.body === 'raw') return readRawBody(call.request, options);
    const { value, bytes } = await readJsonBody(call.request, options);
    validator.checkBody(value, bytes);
    return value;
  }

  /** A wait costs memory for as long as it lasts; what is short needs no such limit. */
  #admitWaiter(call: Call): void {
    const { maxWaiters } = this.#limits;
    if (this.#waiters >= maxWaiters) {
      throw new PosternError('overloaded', `${maxWaiters} requests wait in this replica already; ask another one.`, {
        members: { maxWaiters },
      });
    }
    this.#waiters += 1;
    call.waits = true;
  }
}

/** An empty header is no header: that is what a shell makes of an empty variable. */
export function headerOf(value: string | string[] | undefined): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined;
}

function isWaiting(values: unknown): boolean {
  return Number((values as { waitMs?: unknown }).waitMs ?? 0) > 0;
}

function authorize(credential: Credential, { kind }: Operation, scope: Scope, namespace: string): void {
  if (credential.allows(kind, scope, namespace)) return;
  throw new PosternError('forbidden', `This needs the scope "${scope}" on ${kind}s in the namespace "${namespace}".`, {
    members: { scope, kind, namespace },
  });
}

function notAcceptable(types: readonly string[]): PosternError {
  return new PosternError('not-acceptable', `The answer exists as ${types.join(' and ')} only.`, {
    members: { types },
  });
}
