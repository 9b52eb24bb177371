/** The trace id: the one of a W3C `traceparent`, else a new one. */
import { randomId } from '../random.js';

const TRACEPARENT = /^(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(?:-|$)/;
const TRACE_ID_BYTES = 16;

/** Who called, as W3C Trace Context says it. */
export interface Parent {
  readonly traceId: string;
  readonly spanId: string;
  readonly traceFlags: number;
}

/** @returns undefined without a header, or with one that says nothing */
export function parentOf(traceparent: string | string[] | undefined): Parent | undefined {
  const [, traceId, spanId, flags] = (typeof traceparent === 'string' && TRACEPARENT.exec(traceparent)) || [];
  if (traceId === undefined || spanId === undefined || flags === undefined) return undefined;
  return { traceId, spanId, traceFlags: Number.parseInt(flags, 16) };
}

export function newTraceId(): string {
  return randomId(TRACE_ID_BYTES, 'hex');
}
