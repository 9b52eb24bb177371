/**
 * The interface between the frame and route handlers. Handlers know nothing of express: the frame (`app.ts`) reads,
 * authenticates and validates the request against the contract, calls the handler with the operation's id, and writes
 * the answer or the problem.
 */
import type { PosternError } from '../../errors.js';
import type { Caller, EndReason } from '../../time.js';

/** The caller's identity. Without configured credentials every caller is `anonymous`, with every scope. */
export interface Principal {
  /** Stable, public name, 1 to 200 characters of the name alphabet. */
  readonly id: string;
}

export type Scope = 'read' | 'use' | 'admin';

export interface Exchange {
  readonly operationId: string;
  /** Path parameters, percent-decoded and validated. */
  readonly params: Readonly<Record<string, string>>;
  /** Query parameters, validated and converted to the types of the contract. */
  readonly query: Readonly<Record<string, unknown>>;
  /** The JSON body, validated, `{}` if the request had none; a `RawBody` where the contract takes any type. */
  readonly body: unknown;
  /** Request headers as node provides them (lower case). */
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly principal: Principal;
  /** The `Namespace` header; undefined if absent (then the lease token's namespace counts, else `default`). */
  readonly namespace: string | undefined;
  /** Has the request be for this namespace as if it named it. @throws PosternError `forbidden` */
  settleNamespace(namespace: string): void;
  /** The `Lease-Token` header, unopened. */
  readonly leaseToken: string | undefined;
  /** The `Idempotency-Key` header: the `requestId` for a body that has none. */
  readonly idempotencyKey: string | undefined;
  readonly traceId: string;
  /** When the request's turn came (see `pipelining.ts`), monotonic. */
  readonly receivedAt: number;
  /**
   * When an answer is due, the caller's own `waitMs` aside: the request timeout after the request arrived with its
   * body.
   */
  readonly deadline: number;
  /**
   * Aborted with an `EndReason` when the client leaves, the replica drains, or the credential no longer allows this.
   */
  readonly signal: AbortSignal;
  /** Passed on by every write, so that nothing is written once the client is gone. */
  readonly requester: Caller;
  /** Whether the client asked for an event stream (`Accept: text/event-stream` or a path that ends in `/events`). */
  readonly wantsEvents: boolean;
  /**
   * Fails with 403 unless the principal has this scope (or one of these) in this namespace for the thing. Default: for
   * what the path names; if it names nothing, for anything of the operation's kind.
   */
  authorize(scope: Scope | readonly Scope[], namespace: string, thing?: Thing): void;
  /** Ends its waits and its stream, for a reason that its client did not give. The handler has to answer. */
  withdraw(refusal: PosternError): void;
  /**
   * Charges one further request to the principal's rate.
   * @throws PosternError `rate-limited` if none is left
   */
  countRequest(): void;
  /**
   * Reserves bytes for the answer before the work is done: the answer cannot be refused for its length afterwards.
   * @returns `overloaded` if there is no room; then nothing must be done
   */
  reserveAnswer(bytes: number): PosternError | undefined;
  /** Whether the principal has this scope for the thing: used to filter what it may be shown. */
  allows(scope: Scope, namespace: string, thing: Thing): boolean;
}

/** What a request names other than by its path. */
export interface Thing {
  /** Default: the operation's kind. */
  readonly kind?: string;
  /** Undefined: whether the principal may for any name of that kind. */
  readonly name?: string | undefined;
}

export interface Answer {
  readonly status: number;
  /** JSON unless `contentType` says otherwise. Undefined: no body. */
  readonly body?: unknown;
  readonly contentType?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** All answers share the bytes of this body: it is in memory once, however many clients do not read it. */
  readonly isShared?: boolean;
  /**
   * Called if the answer could not be written, because the connection was gone or there was no room for it. Must not
   * throw.
   */
  readonly undelivered?: () => void;
}

/** An answer that is a stream of server-sent events. The frame writes it, sends comments, and ends it in time. */
export interface EventStream {
  readonly events: (stream: EventSink) => Promise<void>;
  /** How long the stream may last, ms, as the client asked (`maxMs`); the frame bounds it. */
  readonly maxMs?: number | undefined;
}

export interface ServerEvent {
  readonly event: string;
  readonly data: unknown;
  readonly id?: string | undefined;
  /** When readers that reconnect by themselves may, ms. */
  readonly retryMs?: number | undefined;
}

export interface EventSink {
  /** Writes one event; false if the reader was too slow and the stream was cut off. */
  send(event: ServerEvent): boolean;
  /** Undefined while the reader keeps up; else resolves when it has caught up, or never. */
  caughtUp(): Promise<void> | undefined;
  /**
   * Aborted when the client leaves (`client-gone`), `maxMs` has passed (`elapsed`), the replica drains (`draining`) or
   * the credential no longer allows this (`refused`).
   */
  readonly signal: AbortSignal;
  /** `Last-Event-ID` of the request. */
  readonly lastEventId: string | undefined;
}

export type StreamEnd = EndReason | 'elapsed';

export type Handler = (exchange: Exchange) => Promise<Answer | EventStream>;

/** Handlers by the contract's `operationId`. */
export type Routes = Record<string, Handler>;
