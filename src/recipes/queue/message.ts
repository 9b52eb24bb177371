/**
 * A message as it lies in ZooKeeper: one line of JSON, the header, and then the body's bytes as they came.
 *
 * It is written once. How often it was delivered is another node's version (`queue-paths.ts`), so a claim costs the same
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
  /** Epoch ms: when it was pushed first, where that was not when this node was made. */
  e?: number | undefined;
  /** Deliveries before it came to this place. */
  n?: number | undefined;
  /** Of a delayed message: its priority. */
  p?: number | undefined;
  /** Of a dead letter: where it came from and why. */
  x?: { queue: string; reason?: string } | undefined;
}

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
