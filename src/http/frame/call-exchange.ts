/**
 * A handler's view of a call. A class with fixed members, because objects with their own accessors are slow to build.
 */
import type { IncomingHttpHeaders } from 'node:http';
import type { PosternError } from '../../errors.js';
import type { Caller } from '../../time.js';
import { authorizeNames, authorizeOperation, forbidden, isAllowed } from '../access/authorization.js';
import { headerOf, nameIn, type Call } from './call.js';
import type { Credential } from '../access/credentials.js';
import type { Exchange, Principal, Scope, Thing } from './exchange.js';
import type { Operation } from '../contract/openapi.js';

/** What a handler may draw from its principal's limits. */
export interface ExchangeLimits {
  countRequest(principal: string): void;
  reserveAnswer(call: Call, bytes: number): PosternError | undefined;
}

export class CallExchange implements Exchange {
  readonly operationId: string;
  readonly params: Readonly<Record<string, string>>;
  readonly principal: Principal;
  readonly headers: IncomingHttpHeaders;
  readonly leaseToken: string | undefined;
  readonly idempotencyKey: string | undefined;
  readonly traceId: string;
  readonly receivedAt: number;
  readonly deadline: number;
  readonly wantsEvents: boolean;
  readonly #call: Call;
  readonly #operation: Operation;
  readonly #limits: ExchangeLimits;
  #namespace: string | undefined;

  /**
   * @param call its operation, parameters and credential are known
   * @param requestTimeoutMs within this it must be answered, its wait aside
   */
  constructor(
    call: Call,
    readonly query: Readonly<Record<string, unknown>>,
    readonly body: unknown,
    requestTimeoutMs: number,
    limits: ExchangeLimits,
  ) {
    const operation = call.operation as Operation;
    const { headers } = call.request;
    this.operationId = operation.operationId;
    this.params = call.params;
    this.principal = (call.credential as Credential).principal;
    this.headers = headers;
    this.#namespace = headerOf(headers['namespace']);
    this.leaseToken = headerOf(headers['lease-token']);
    this.idempotencyKey = headerOf(headers['idempotency-key']);
    this.traceId = call.traceId;
    this.receivedAt = call.receivedAt;
    this.deadline = call.arrivedAt + call.readingMs + requestTimeoutMs;
    this.wantsEvents = call.streams;
    this.#call = call;
    this.#operation = operation;
    this.#limits = limits;
  }

  get namespace(): string | undefined {
    return this.#namespace;
  }

  settleNamespace(namespace: string): void {
    const [call, operation, credential] = [this.#call, this.#operation, this.#credential];
    authorizeOperation(call, operation, credential, namespace);
    authorizeNames(call, operation, credential, this.body, namespace);
    this.#namespace = namespace;
  }

  /** The current one: a stream shows what may be read now. */
  get #credential(): Credential {
    return this.#call.credential as Credential;
  }

  get requester(): Caller {
    return this.#call;
  }

  get signal(): AbortSignal {
    return this.#call.signal;
  }

  authorize(scope: Scope | readonly Scope[], namespace: string, thing?: Thing): void {
    this.#call.namespace = namespace;
    const { kind } = this.#operation;
    if (scope === 'admin')
      this.#call.administers ??= { kind, asked: { ...this.query, ...(this.body as object | undefined) } };
    const name = thing === undefined ? nameIn(this.params) : thing.name;
    const asked = { scopes: typeof scope === 'string' ? [scope] : scope, namespace, kind: thing?.kind ?? kind, name };
    if (!isAllowed(this.#credential, asked)) throw forbidden(asked);
    this.#call.needs.push(asked);
  }

  withdraw(refusal: PosternError): void {
    this.#call.withdraw(refusal);
  }

  countRequest(): void {
    this.#limits.countRequest(this.principal.id);
  }

  reserveAnswer(bytes: number): PosternError | undefined {
    return this.#limits.reserveAnswer(this.#call, bytes);
  }

  allows(scope: Scope, namespace: string, { kind = this.#operation.kind, name }: Thing): boolean {
    return this.#credential.allows(kind, scope, namespace, name);
  }
}
