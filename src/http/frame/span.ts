/**
 * A span for each request, through the OpenTelemetry API. No SDK is shipped: unless the operator loads one before the
 * gateway (docs/deploying.md), all of this does nothing.
 *
 * Names and attributes follow OpenTelemetry's semantic conventions for HTTP servers. They contain routes, never names
 * of locks or keys.
 */
import { ROOT_CONTEXT, SpanKind, SpanStatusCode, trace, type Context, type Span } from '@opentelemetry/api';
import { version } from '../../version.js';
import type { IncomingMessage } from 'node:http';
import type { Operation } from '../contract/openapi.js';
import { masked } from './masked.js';
import type { Parent } from './trace.js';

const tracer = trace.getTracer('postern', version);
const SERVER_ERROR = 500;
const REMOTE = { isRemote: true } as const;

/** The outcome of a request. */
export interface Ended {
  readonly span: Span | undefined;
  readonly request: Pick<IncomingMessage, 'method' | 'headers'>;
  readonly status: number;
  readonly operation: Operation | undefined;
  /** The problem's code, if it failed. */
  readonly code: string | undefined;
  readonly delivered: boolean;
  readonly namespace: string | undefined;
}

/** @returns undefined without tracing */
export function startSpan(method: string | undefined, parent: Parent | undefined): Span | undefined {
  const span = tracer.startSpan(method ?? 'HTTP', { kind: SpanKind.SERVER }, contextOf(parent));
  return span.isRecording() ? span : undefined;
}

export function endSpan({ span, request, status, operation, code, delivered, namespace }: Ended): void {
  if (span === undefined) return;
  const route = operation?.template;
  if (route !== undefined) span.updateName(`${request.method ?? ''} ${route}`);
  span.setAttributes({
    'http.request.method': request.method ?? '',
    'http.response.status_code': status,
    ...(route === undefined ? {} : { 'http.route': route }),
    ...(operation === undefined ? {} : { 'postern.operation': operation.operationId, 'postern.kind': operation.kind }),
    ...(namespace === undefined ? {} : { 'postern.namespace': masked(namespace, request) }),
    'postern.outcome': code ?? 'done',
    ...(delivered ? {} : { 'postern.delivered': false }),
  });
  // A client's mistake is not a server error.
  if (status >= SERVER_ERROR) {
    span.setAttribute('error.type', code ?? String(status));
    span.setStatus({ code: SpanStatusCode.ERROR });
  }
  span.end();
}

function contextOf(parent: Parent | undefined): Context {
  return parent === undefined ? ROOT_CONTEXT : trace.setSpanContext(ROOT_CONTEXT, { ...parent, ...REMOTE });
}
