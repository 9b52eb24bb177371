/**
 * What a handler sees of a call. A class with all its members in place, because an object with accessors of its own is put together slowly.
 */
import type { IncomingHttpHeaders } from 'node:http';
import { PosternError } from '../errors.js';
import type { Call } from './call.js';
import type { Credential } from './credentials.js';
import type { Exchange, Principal, Scope, Thing } from './exchange.js';
import type { Operation } from './openapi.js';

export class CallExchange implements Exchange {
  readonly operationId: string;
  readonly principal: Principal;
  readonly headers: IncomingHttpHeaders;
  readonly namespace: string | undefined;
  readonly leaseToken: string | undefined;
  readonly idempotencyKey: string | undefined;
  readonly traceId: string;
  readonly receivedAt: number;
  readonly deadline: number;
  readonly wantsEvents: boolean;
  readonly #call: Call;
  readonly #operation: Operation;
  readonly #credential: Credential;

  /** @param requestTimeoutMs by when it must be answered, apart from its wait */
  constructor(
    call: Call,
    operation: Operation,
    readonly params: Readonly<Record<string, string>>,
    credential: Credential,
    readonly query: Readonly<Record<string, unknown>>,
    readonly body: unknown,
    requestTimeoutMs: number,
  ) {
    const { headers } = call.request;
    this.operationId = operation.operationId;
    this.principal = credential.principal;
    this.headers = headers;
    this.namespace = headerOf(headers['namespace']);
    this.leaseToken = headerOf(headers['lease-token']);
    this.idempotencyKey = headerOf(headers['idempotency-key']);
    this.traceId = call.traceId;
    this.receivedAt = call.receivedAt;
    this.deadline = call.receivedAt + requestTimeoutMs;
    this.wantsEvents = call.streams;
    this.#call = call;
    this.#operation = operation;
    this.#credential = credential;
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
    authorize(this.#credential, scope, namespace, thing?.kind ?? kind, name);
  }

  allows(scope: Scope, namespace: string, { kind = this.#operation.kind, name }: Thing): boolean {
    return this.#credential.allows(kind, scope, namespace, name);
  }
}

/** An empty header is no header: that is what a shell makes of an empty variable. */
export function headerOf(value: string | string[] | undefined): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined;
}

/** Of the parameters of a path, the one that is the name of the thing that the operation is about. */
export function nameIn({ name, key, leaseId }: Readonly<Record<string, string>>): string | undefined {
  return name ?? key ?? leaseId;
}

function authorize(
  credential: Credential,
  asked: Scope | readonly Scope[],
  namespace: string,
  kind: string,
  name: string | undefined,
): void {
  const scopes = typeof asked === 'string' ? [asked] : asked;
  if (scopes.some((scope) => credential.allows(kind, scope, namespace, name))) return;
  const what = name === undefined ? `${kind}s` : `the ${kind} "${name}"`;
  throw new PosternError(
    'forbidden',
    `This needs the scope ${scopes.map((scope) => `"${scope}"`).join(' or ')} on ${what} in the namespace "${namespace}".`,
    { members: { scope: scopes[0], kind, namespace, ...(name === undefined ? {} : { name }) } },
  );
}
