/** Spans, as an SDK that somebody loads beside the gateway is told of them. */
import { SpanKind, SpanStatusCode, trace } from '@opentelemetry/api';
import { BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor } from '@opentelemetry/sdk-trace-base';
import { afterAll, beforeEach, expect, test } from 'vitest';
import { eventually } from '../support/eventually.js';
import { startPair } from '../support/start-gateway.js';

const exporter = new InMemorySpanExporter();
const provider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] });
trace.setGlobalTracerProvider(provider);

beforeEach(() => exporter.reset());
afterAll(() => provider.shutdown());

async function spanOf(name: string) {
  return eventually(`there is a span "${name}"`, () => exporter.getFinishedSpans().find((span) => span.name === name));
}

test('a request is one span, under the caller that its traceparent names, with what came of it', async () => {
  await using pair = await startPair();
  const lease = await pair.a.createLease();
  const [traceId, parentId] = ['4bf92f3577b34da6a3ce929d0e0e4736', '00f067aa0ba902b7'];
  const headers = { traceparent: `00-${traceId}-${parentId}-01` };
  const reply = await pair.a.acquire('traced', lease, {}, { headers });
  expect(reply).toMatchObject({ status: 200, headers: { 'trace-id': traceId } });
  const span = await spanOf('POST /v1/locks/{name}/acquire');
  expect(span.kind).toBe(SpanKind.SERVER);
  expect(span.spanContext().traceId).toBe(traceId);
  expect(span.parentSpanContext).toMatchObject({ spanId: parentId, isRemote: true });
  expect(span.status.code).toBe(SpanStatusCode.UNSET);
  expect(span.attributes).toEqual({
    'http.request.method': 'POST',
    'http.route': '/v1/locks/{name}/acquire',
    'http.response.status_code': 200,
    'postern.operation': 'acquireLock',
    'postern.kind': 'lock',
    'postern.namespace': 'default',
    'postern.outcome': 'done',
  });
});

test('without a caller the span begins a trace, whose id is the one of the answer', async () => {
  await using pair = await startPair();
  const reply = await pair.b.call('GET', '/v1/locks/untraced');
  const span = await spanOf('GET /v1/locks/{name}');
  expect(span.parentSpanContext).toBeUndefined();
  expect(reply.headers['trace-id']).toBe(span.spanContext().traceId);
});

test('what the client did wrong is told and is no error; what the server could not do is one', async () => {
  await using pair = await startPair();
  await pair.a.call('GET', '/v1/queues/nowhere');
  const missing = await spanOf('GET /v1/queues/{name}');
  expect(missing.attributes).toMatchObject({ 'http.response.status_code': 404, 'postern.outcome': 'not-found' });
  expect(missing.status.code).toBe(SpanStatusCode.UNSET);
  await pair.a.gateway.stop(0);
  await pair.b.gateway.context.control.stop(performance.now());
  await pair.b.call('GET', '/v1/locks/away');
  const away = await spanOf('GET /v1/locks/{name}');
  expect(away.attributes).toMatchObject({ 'http.response.status_code': 503, 'error.type': 'zookeeper-unavailable' });
  expect(away.status.code).toBe(SpanStatusCode.ERROR);
});
