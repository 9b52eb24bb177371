/** The trace id: the one of a W3C `traceparent`, else a new one. */
import { randomId } from '../random.js';

const TRACEPARENT = /^(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(?:-|$)/;
const TRACE_ID_BYTES = 16;

export function traceIdOf(traceparent: string | string[] | undefined): string {
  const given = typeof traceparent === 'string' ? TRACEPARENT.exec(traceparent)?.[1] : undefined;
  return given ?? newTraceId();
}

export function newTraceId(): string {
  return randomId(TRACE_ID_BYTES, 'hex');
}
