/**
 * A span for each request, told through the OpenTelemetry API. No SDK is shipped: without one, which whoever runs the gateway
 * loads before it (docs/deploying.md), all of this does nothing.
 *
 * Names and attributes are those of OpenTelemetry's semantic conventions for HTTP servers. Names of locks and keys are not in it: routes are.
 */
import { ROOT_CONTEXT, SpanKind, SpanStatusCode, trace, type Context, type Span } from '@opentelemetry/api';
import { version } from '../version.js';
import type { Call } from './call.js';
import type { Parent } from './trace.js';

const tracer = trace.getTracer('postern', version);
const SERVER_ERROR = 500;
const REMOTE = { isRemote: true } as const;

/** @returns undefined when nobody listens */
export function startSpan(method: string | undefined, parent: Parent | undefined): Span | undefined {
  const span = tracer.startSpan(method ?? 'HTTP', { kind: SpanKind.SERVER }, contextOf(parent));
  return span.isRecording() ? span : undefined;
}

export function endSpan({ span, request, response, operation, code, delivered, namespace }: Call): void {
  if (span === undefined) return;
  const { statusCode } = response;
  const route = operation?.template;
  if (route !== undefined) span.updateName(`${request.method ?? ''} ${route}`);
  span.setAttributes({
    'http.request.method': request.method ?? '',
    'http.response.status_code': statusCode,
    ...(route === undefined ? {} : { 'http.route': route }),
    ...(operation === undefined ? {} : { 'postern.operation': operation.operationId, 'postern.kind': operation.kind }),
    ...(namespace === undefined ? {} : { 'postern.namespace': namespace }),
    'postern.outcome': code ?? 'done',
    ...(delivered ? {} : { 'postern.delivered': false }),
  });
  // What a client did wrong is no error of the server's.
  if (statusCode >= SERVER_ERROR) {
    span.setAttribute('error.type', code ?? String(statusCode));
    span.setStatus({ code: SpanStatusCode.ERROR });
  }
  span.end();
}

function contextOf(parent: Parent | undefined): Context {
  return parent === undefined ? ROOT_CONTEXT : trace.setSpanContext(ROOT_CONTEXT, { ...parent, ...REMOTE });
}
