/** The trace id: that of the W3C `traceparent`, else a new one. */
import { randomId } from '../../random.js';

const TRACEPARENT = /^(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(?:-|$)/;
const TRACE_ID_BYTES = 16;

/** The caller, as in W3C Trace Context. */
export interface Parent {
  readonly traceId: string;
  readonly spanId: string;
  readonly traceFlags: number;
}

/** @returns undefined if the header is absent or invalid */
export function parentOf(traceparent: string | string[] | undefined): Parent | undefined {
  const [, traceId, spanId, flags] = (typeof traceparent === 'string' && TRACEPARENT.exec(traceparent)) || [];
  if (traceId === undefined || spanId === undefined || flags === undefined) return undefined;
  return { traceId, spanId, traceFlags: Number.parseInt(flags, 16) };
}

export function newTraceId(): string {
  return randomId(TRACE_ID_BYTES, 'hex');
}
