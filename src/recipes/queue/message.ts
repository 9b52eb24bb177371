/**
 * A message in ZooKeeper: one line of JSON, the header, and then the body's bytes as they came.
 *
 * It is written once. How often it was delivered is another node's version (`paths.ts`), so a claim costs the same
 * whatever the size of the body.
 */
import { randomId } from '../../random.js';

export interface MessageHeader {
  /** The public id. */
  i: string;
  /** Content type of a raw body; absent: the body is JSON. */
  t?: string | undefined;
  /** Attributes. */
  a?: Record<string, string> | undefined;
  /** Its group: what is of one group is delivered one after the other, where the queue's order says so. */
  g?: string | undefined;
  /** Epoch ms: when it came into this queue, where that was not when this node was made. */
  e?: number | undefined;
  /** Deliveries before it came to this place. */
  n?: number | undefined;
  /** Of a delayed message: its priority. */
  p?: number | undefined;
  /** Of a delayed message that expires: epoch ms on the ensemble's clock. In a queue its name says it. */
  u?: number | undefined;
  x?: DeadLetterNote | undefined;
}

/**
 * What a dead letter was where it came from, and why it is one. Those of earlier versions have only
 * `queue` and `reason`.
 */
export interface DeadLetterNote {
  queue: string;
  cause?: DeadLetterCause | undefined;
  /** In the words of who gave it back last. */
  reason?: string | undefined;
  priority?: number | undefined;
  deliveries?: number | undefined;
  /** Epoch ms. */
  enqueuedAt?: number | undefined;
}

/** How its last delivery ended: it was given back, or its time or its lease was over. Or it had expired before one. */
export type DeadLetterCause = 'nack' | 'claim-ended' | 'expired';

export interface StoredMessage {
  header: MessageHeader;
  body: Buffer;
}

const NEWLINE = 0x0a;
const ID_BYTES = 16;

export function newMessageId(): string {
  return randomId(ID_BYTES, 'base64url');
}

export function encodeMessage({ header, body }: StoredMessage): Buffer {
  return Buffer.concat([Buffer.from(`${JSON.stringify(header)}\n`), body]); // JSON has no line break in it
}

/** @returns undefined for a node that is not ours */
export function decodeMessage(data: Buffer): StoredMessage | undefined {
  const end = data.indexOf(NEWLINE);
  if (end < 0) return undefined;
  try {
    const header = JSON.parse(data.toString('utf8', 0, end)) as MessageHeader;
    return typeof header.i === 'string' ? { header, body: data.subarray(end + 1) } : undefined;
  } catch {
    return undefined;
  }
}
