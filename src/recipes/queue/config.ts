/**
 * A queue's configuration, and the contents that its name stands for: the data of `<namespace>/queues/<name>`.
 *
 * Names are separate from contents, so that a queue that is deleted and created again begins empty, whatever of the old
 * one is still to be removed, and no old claimId is valid in it (protocol C23).
 */
import { randomBytes } from 'node:crypto';
import { expectKnown, type KnownFields } from '../known-record.js';

export type QueueOrder = 'fifo' | 'priority' | 'grouped';

export interface QueueConfig {
  order: QueueOrder;
  /**
   * Messages, delayed ones among them, from which on a push is refused. Approximate: pushes are not serialised for it.
   */
  maxDepth?: number;
  /** Claims of one message after which it goes to the dead-letter queue in place of another consumer. */
  maxDeliveries?: number;
  deadLetterQueue?: string;
  /** The longest that a message may wait to be delivered, also one that names no time; counts from its push. */
  messageTtlMs?: number;
  /** Whether what expires goes to the dead-letter queue. */
  deadLetterExpired?: boolean;
  /** The longest claim, also of a claim that names no time. */
  maxClaimMs?: number;
  /** How long a messageId is remembered. */
  dedupWindowMs: number;
}

/** What the node says. */
export interface QueueRecord {
  /** Names the data directory. */
  id: string;
  config: QueueConfig;
  /** Whether nothing is handed out until it is resumed. It is no setting: configuring the queue leaves it as it is. */
  paused?: boolean;
}

/** What a name was found to stand for, and the version of its node. */
export interface FoundQueue {
  record: QueueRecord;
  version: number;
}

export const DEDUP_WINDOW_MS = 300_000;

export const DEFAULT_CONFIG: QueueConfig = { order: 'fifo', dedupWindowMs: DEDUP_WINDOW_MS };

export function newQueueId(): string {
  return randomBytes(8).toString('hex');
}

export function encodeQueue(record: QueueRecord): Buffer {
  return Buffer.from(JSON.stringify(record));
}

const KNOWN_CONFIG: KnownFields<QueueConfig> = {
  order: ['fifo', 'priority', 'grouped'],
  maxDepth: true,
  maxDeliveries: true,
  deadLetterQueue: true,
  messageTtlMs: true,
  deadLetterExpired: true,
  maxClaimMs: true,
  dedupWindowMs: true,
};
const KNOWN_RECORD: KnownFields<QueueRecord> = { id: true, config: true, paused: true };

/**
 * @returns undefined for a node that is not ours
 * @throws NewerRecordError
 */
export function decodeQueue(name: string, data: Buffer): QueueRecord | undefined {
  const record = parse(data);
  if (typeof record?.id !== 'string' || typeof record.config !== 'object') return undefined;
  expectKnown(`the queue "${name}"`, record, KNOWN_RECORD);
  expectKnown(`the configuration of the queue "${name}"`, record.config, KNOWN_CONFIG);
  return record;
}

function parse(data: Buffer): QueueRecord | undefined {
  try {
    return JSON.parse(data.toString('utf8')) as QueueRecord;
  } catch {
    return undefined;
  }
}
