/**
 * One request on its way through the frame: when it came, what ends it, and how it ended.
 *
 *   open ──▶ answered (written to the end) ──▶ closed
 *     └────▶ aborted: client-gone, draining or refused ──▶ answered, or given up ──▶ closed
 */
import type { Span } from '@opentelemetry/api';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Caller, Clock, EndReason } from '../../time.js';
import { hasHungUp } from './answer.js';
import { isCut } from './body.js';
import type { ByteShare } from './bytes-at-once.js';
import { PosternError } from '../../errors.js';
import type { Credential } from '../access/credentials.js';
import type { Asked } from '../access/permissions.js';
import type { Operation } from '../contract/openapi.js';
import { heldMsOf } from '../server/pipelining.js';
import { startSpan } from './span.js';
import { newTraceId, parentOf } from './trace.js';

/** The status that nginx logs for a client that left before the answer. */
const CLIENT_GONE = 499;

export class Call implements Caller {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /** When its turn came, monotonic. */
  readonly receivedAt: number;
  /** When it arrived, monotonic: before `receivedAt` if the client sent it ahead of an earlier answer. */
  readonly arrivedAt: number;
  readonly traceId: string;
  /** Undefined without tracing. */
  readonly span: Span | undefined;
  /** Headers of every answer to this request, also of a problem. */
  answerHeaders: Readonly<Record<string, string>> = {};
  operation: Operation | undefined;
  /** The path's parameters. */
  params: Readonly<Record<string, string>> = {};
  credential: Credential | undefined;
  /** Permissions that it was granted, and must keep for as long as it waits or streams. */
  readonly needs: Asked[] = [];
  /** Why its credential no longer allows it. */
  refusal: PosternError | undefined;
  /** The namespace in which the caller was found to be allowed to do this, or not to be. */
  namespace: string | undefined;
  /** Set if the operation takes the scope `admin`, whether the caller has it or not. */
  administers: { readonly kind: string; readonly asked: Readonly<Record<string, unknown>> } | undefined;
  /** How long its body took to arrive; that is the client's time and does not count against its deadline. */
  readingMs = 0;
  /** The bytes of its body; undefined if it has none. */
  body: ByteShare | undefined;
  /** The bytes of its answer until it is written; undefined if they are few. */
  answer: ByteShare | undefined;
  /** Whether it asked to wait, or for a stream. */
  waits = false;
  streams = false;
  /** How much of its time it spent waiting, if the answer says so. */
  waitedMs: number | undefined;
  /** The problem's code, if it failed. */
  code: string | undefined;
  delivered = true;
  #continueOwed: boolean;
  #controller: AbortController | undefined;
  #reason: EndReason | undefined;
  /** One for each wait of the request that is under way: nearly always none or one. */
  #onEnd: (() => void)[] | undefined;
  readonly #onClose = (): void => {
    if (this.response.writableFinished) return;
    this.abort('client-gone');
  };

  constructor(request: IncomingMessage, response: ServerResponse, clock: Clock) {
    this.request = request;
    this.response = response;
    this.receivedAt = clock.monotonic();
    this.arrivedAt = this.receivedAt - heldMsOf(request);
    const parent = parentOf(request.headers['traceparent']);
    this.span = startSpan(request.method, parent);
    this.traceId = this.span?.spanContext().traceId ?? parent?.traceId ?? newTraceId();
    this.#continueOwed = request.headers.expect?.toLowerCase() === '100-continue';
    response.on('close', this.#onClose);
  }

  /** Created on demand: most calls are over before anything could end them. */
  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController();
      if (this.#reason !== undefined) this.#controller.abort(this.#reason);
    }
    return this.#controller.signal;
  }

  /** The client hung up, as far as that has been read; also once its answer has been delivered. */
  get gone(): boolean {
    return hasHungUp(this.response);
  }

  get ended(): EndReason | undefined {
    return this.#reason;
  }

  onEnd(listener: () => void): void {
    if (this.#reason !== undefined) listener();
    else if (this.#onEnd === undefined) this.#onEnd = [listener];
    else this.#onEnd.push(listener);
  }

  offEnd(listener: () => void): void {
    this.#onEnd = this.#onEnd?.filter((each) => each !== listener);
  }

  /** The first reason stays. */
  abort(reason: EndReason): void {
    if (this.#reason !== undefined) return;
    this.#reason = reason;
    this.#controller?.abort(reason);
    for (const listener of this.#onEnd ?? []) listener();
    this.#onEnd = undefined;
  }

  /** Requests that do not wait are over soon and may finish. */
  refuse(refusal: PosternError): void {
    this.refusal ??= refusal;
    if (this.waits) this.abort('refused');
  }

  /** It is answered with this as soon as it waits for nothing else; what it waits for ends, and so does its stream. */
  withdraw(refusal: PosternError): void {
    this.refusal ??= refusal;
    this.abort('refused');
  }

  /** @throws PosternError if its credential has ended since it was checked: a body may take long to arrive */
  checkCredential(): void {
    if (this.refusal !== undefined) throw this.refusal;
    if ((this.credential?.until ?? Infinity) <= Date.now()) throw tokenExpired();
  }

  /** Tells a client that sent `Expect: 100-continue` to send its body. */
  sendContinue(): void {
    if (!this.#continueOwed) return;
    this.#continueOwed = false;
    this.response.writeContinue();
  }

  /**
   * A client that was never told to continue may or may not send its body, and one whose body was cut is still sending
   * it: what follows on the connection is unknown.
   */
  get mustCloseConnection(): boolean {
    return this.#continueOwed || isCut(this.request);
  }

  /** For log, metrics and span alike: the status that was really sent, or 499. */
  get status(): number {
    return this.delivered ? this.response.statusCode : CLIENT_GONE;
  }

  close(): void {
    this.response.off('close', this.#onClose);
  }
}

export function tokenExpired(): PosternError {
  return new PosternError('unauthenticated', 'The token has expired.');
}

/** An empty header counts as absent: it is what a shell makes of an empty variable. */
export function headerOf(value: string | string[] | undefined): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined;
}

/** The path parameter that names what the operation is about. */
export function nameIn({ name, key, leaseId }: Readonly<Record<string, string>>): string | undefined {
  return name ?? key ?? leaseId;
}
