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
import type { Credential } from './credentials.js';
import type { Exchange, Scope, Thing } from './exchange.js';
import type { Operation } from './openapi.js';
import type { RequestTarget } from './request-target.js';
import type { Found } from './router.js';
import { PrincipalLimits, type PrincipalLimitsConfig } from './principal-limits.js';
import type { OperationValidator, Validators } from './validation.js';

export type IntakeLimits = Pick<Config, 'maxWaiters' | 'requestTimeoutMs' | 'maxBodyBytes'> & PrincipalLimitsConfig;

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

  /** @throws PosternError for what the contract or a limit forbids. */
  async read(
    call: Call,
    { operation, params }: Found,
    target: RequestTarget,
    credential: Credential,
  ): Promise<Exchange> {
    const { headers } = call.request;
    if (operation.rateLimited) this.#principals.admitRequest(credential.principal.id);
    const type = negotiate(headers.accept, operation.types);
    if (type === undefined && operation.types.length > 0) throw notAcceptable(operation.types);
    const validator = this.#validators.get(operation.operationId) as OperationValidator;
    const query = validator.checkTarget(params, target.query(), headers);
    const body = await this.#readBody(call, operation, validator);
    const wantsEvents = type === 'text/event-stream';
    call.streams = wantsEvents;
    if (wantsEvents || isWaiting(query) || isWaiting(body)) this.#admitWaiter(call, credential.principal.id);
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
      get signal() {
        return call.signal;
      },
      wantsEvents,
      authorize(scope, namespace, thing) {
        call.namespace = namespace;
        if (scope === 'admin') call.administers ??= { kind: operation.kind, asked: { ...query, ...(body as object) } };
        authorize(credential, [scope].flat(), namespace, thingOf(operation, params, thing));
      },
      allows: (scope, namespace, { kind = operation.kind, name }) => credential.allows(kind, scope, namespace, name),
    };
  }

  /** When the call is over. */
  release(call: Call): void {
    if (!call.waits) return;
    this.#waiters -= 1;
    this.#principals.closeWait(call.credential?.principal.id ?? '', call.streams ? 'streams' : 'waits');
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

/** An empty header is no header: that is what a shell makes of an empty variable. */
export function headerOf(value: string | string[] | undefined): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined;
}

function isWaiting(values: unknown): boolean {
  return Number((values as { waitMs?: unknown }).waitMs ?? 0) > 0;
}

/** Parameters of paths that are the name of the thing that the operation is about. */
const NAMING = ['name', 'key', 'leaseId'] as const;

function thingOf(
  { kind }: Operation,
  params: Found['params'],
  thing: Thing | undefined,
): Partial<Thing> & { kind: string } {
  if (thing !== undefined) return { kind, ...thing };
  const naming = NAMING.find((parameter) => params[parameter] !== undefined);
  return naming === undefined ? { kind } : { kind, name: params[naming] as string };
}

function authorize(
  credential: Credential,
  scopes: readonly Scope[],
  namespace: string,
  { kind, name }: Partial<Thing> & { kind: string },
): void {
  if (scopes.some((scope) => credential.allows(kind, scope, namespace, name))) return;
  const what = name === undefined ? `${kind}s` : `the ${kind} "${name}"`;
  throw new PosternError(
    'forbidden',
    `This needs the scope ${scopes.map((scope) => `"${scope}"`).join(' or ')} on ${what} in the namespace "${namespace}".`,
    { members: { scope: scopes[0], kind, namespace, ...(name === undefined ? {} : { name }) } },
  );
}

function notAcceptable(types: readonly string[]): PosternError {
  return new PosternError('not-acceptable', `The answer exists as ${types.join(' and ')} only.`, {
    members: { types },
  });
}
