/**
 * One request on its way through the frame: when it came, what ends it, and what became of it.
 *
 *   open ──▶ answered (written to the end) ──▶ closed
 *     └────▶ aborted: client-gone or draining ──▶ answered, or given up ──▶ closed
 */
import type { Span } from '@opentelemetry/api';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Clock, EndReason } from '../time.js';
import type { Credential } from './credentials.js';
import type { Operation } from './openapi.js';
import { startSpan } from './span.js';
import { newTraceId, parentOf } from './trace.js';

export class Call {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly receivedAt: number;
  readonly traceId: string;
  /** Undefined when nobody traces. */
  readonly span: Span | undefined;
  /** Headers of every answer to this request, whatever it will be. */
  answerHeaders: Readonly<Record<string, string>> = {};
  operation: Operation | undefined;
  /** The parameters of the path. */
  params: Readonly<Record<string, string>> = {};
  credential: Credential | undefined;
  /** In which the caller was found to be allowed to do this, or not to be. */
  namespace: string | undefined;
  /** Set when what was asked for takes the scope `admin`, whether the caller has it or not. */
  administers: { readonly kind: string; readonly asked: Readonly<Record<string, unknown>> } | undefined;
  /** Whether it asked to wait, or for a stream. */
  waits = false;
  streams = false;
  /** How much of its time was spent waiting, when the answer says so. */
  waitedMs: number | undefined;
  /** The problem's code, when it failed. */
  code: string | undefined;
  delivered = true;
  #continueOwed: boolean;
  #controller: AbortController | undefined;
  #reason: EndReason | undefined;
  readonly #onClose = (): void => {
    if (!this.response.writableFinished) this.abort('client-gone');
  };

  constructor(request: IncomingMessage, response: ServerResponse, clock: Clock) {
    this.request = request;
    this.response = response;
    this.receivedAt = clock.monotonic();
    const parent = parentOf(request.headers['traceparent']);
    this.span = startSpan(request.method, parent);
    this.traceId = this.span?.spanContext().traceId ?? parent?.traceId ?? newTraceId();
    this.#continueOwed = request.headers.expect?.toLowerCase() === '100-continue';
    response.on('close', this.#onClose);
  }

  /** Made when somebody asks for it: most calls are over before anything could end them. */
  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController();
      if (this.#reason !== undefined) this.#controller.abort(this.#reason);
    }
    return this.#controller.signal;
  }

  /** The first reason stays. */
  abort(reason: EndReason): void {
    this.#reason ??= reason;
    this.#controller?.abort(this.#reason);
  }

  /** Tells a client that asked first to send its body. */
  sendContinue(): void {
    if (!this.#continueOwed) return;
    this.#continueOwed = false;
    this.response.writeContinue();
  }

  /** A client that was never told to go on may or may not send its body: what follows on the connection is anybody's guess. */
  get mustCloseConnection(): boolean {
    return this.#continueOwed;
  }

  close(): void {
    this.response.off('close', this.#onClose);
  }
}
