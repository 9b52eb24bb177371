/**
 * What a route handler receives and returns. Handlers know nothing of express: the frame (`app.ts`)
 * reads, authenticates and validates the request against the contract, calls the handler that
 * carries the operation's id, and writes the answer or the problem.
 */
import type { EndReason } from '../time.js';

/** Who is asking. Without configured credentials everybody is `anonymous` with every scope. */
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
  /** The JSON body, validated, `{}` when the request had none; a `RawBody` where the contract takes any type. */
  readonly body: unknown;
  /** Request headers as node gives them (lower case). */
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly principal: Principal;
  /** The `Namespace` header; undefined when the request has none (then the lease token's, else `default`). */
  readonly namespace: string | undefined;
  /** The `Lease-Token` header, unopened. */
  readonly leaseToken: string | undefined;
  /** The `Idempotency-Key` header: the `requestId` of a body that has none. */
  readonly idempotencyKey: string | undefined;
  readonly traceId: string;
  /** When the request arrived, on the monotonic clock. */
  readonly receivedAt: number;
  /** By when an answer must be on its way, apart from the caller's own `waitMs`: receivedAt + the request timeout. */
  readonly deadline: number;
  /** Aborted with an `EndReason` when the client's connection is gone or the replica drains. */
  readonly signal: AbortSignal;
  /** Whether the client asked for an event stream (`Accept: text/event-stream` or a path that ends in `/events`). */
  readonly wantsEvents: boolean;
  /**
   * Fails with 403 unless the principal has this scope (one of these) in this namespace for the thing: without one, for what the path names,
   * and where it names nothing, for something of the operation's kind.
   */
  authorize(scope: Scope | readonly Scope[], namespace: string, thing?: Thing): void;
  /** Whether the principal has this scope for the thing: what of many it may be shown. */
  allows(scope: Scope, namespace: string, thing: Thing): boolean;
}

/** What else than its path a request names. */
export interface Thing {
  /** Without one, that of the operation. */
  readonly kind?: string;
  readonly name: string;
}

export interface Answer {
  readonly status: number;
  /** JSON unless `contentType` says otherwise. Undefined: no body. */
  readonly body?: unknown;
  readonly contentType?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Called when the answer could not be written because the client's connection was gone. Must not throw. */
  readonly undelivered?: () => void;
}

/** An answer that is a stream of server-sent events. The frame writes, sends comments, and ends it in time. */
export interface EventStream {
  readonly events: (stream: EventSink) => Promise<void>;
  /** How long the stream may last, in ms, as the client asked (`maxMs`); the frame bounds it. */
  readonly maxMs?: number | undefined;
}

export interface ServerEvent {
  readonly event: string;
  readonly data: unknown;
  readonly id?: string | undefined;
}

export interface EventSink {
  /** Writes one event; false when the reader is too slow and the stream was cut off. */
  send(event: ServerEvent): boolean;
  /** Aborted when the client is gone (`client-gone`), `maxMs` has passed (`elapsed`) or the replica drains (`draining`). */
  readonly signal: AbortSignal;
  /** `Last-Event-ID` of the request. */
  readonly lastEventId: string | undefined;
}

export type StreamEnd = EndReason | 'elapsed';

export type Handler = (exchange: Exchange) => Promise<Answer | EventStream>;

/** Handlers by `operationId` of the contract. */
export type Routes = Record<string, Handler>;
