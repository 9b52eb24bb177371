/**
 * Messages to a group: whoever posts one speaks to all who read, each from a cursor of its own.
 *
 * Guarantee: the messages of a group have one order, the same for all readers at all replicas: their numbers, which
 *   only grow, also when everything was forgotten in between. A message that was answered is there for everybody whose
 *   cursor is behind it, until it is dropped: the oldest first, when there are more than are kept, or when it is older
 *   than messages are kept. A reader that missed a dropped one is told so.
 * Not guaranteed: that anybody reads. Nor that every reader has a message at the same moment.
 *
 * Layout:  <root>/ns/<namespace>/group-messages              persistent; written whenever a log is removed
 *          <root>/ns/<namespace>/group-messages/<name>       persistent; the log: which numbers are there
 *          <root>/ns/<namespace>/group-messages/<name>/<n>   persistent; a message, never written again
 *          <root>/ns/<namespace>/group-message-marks/<bb>/<hash>   persistent; of a post with a requestId, until it can
 *                                                            no longer be repeated
 * Source:  none; a compare-and-set of one node, which every post writes.
 *
 * Reading order: this; `post.ts`; `read.ts`, `observer.ts`; `tidy.ts`. docs/protocol.md walks through it (C60 to C62).
 */
import { StandingConflictError } from '../../../errors.js';
import type { MultiOperation, NodeData } from '../../../zookeeper/operations.js';
import type { Subject } from '../../observing/observers.js';

/** Of one group in one namespace. */
export interface LogRef extends Subject {
  readonly namespace: string;
  readonly name: string;
}

/** The messages `first` to `next` - 1 are there. */
export interface Log {
  readonly first: number;
  /** The number of the next message. */
  readonly next: number;
  /**
   * Where its numbers began: the zxid of its creation. Every number costs a transaction, so none is higher than the
   * zxid of its own, and a log that is made later begins above all of an earlier one.
   */
  readonly start: number;
  readonly version: number;
}

/** What is in a message's node. */
export interface MessageRecord {
  /** Tells the poster whether it is its own. */
  readonly attempt: string;
  /** The principal who posted it. */
  readonly by: string;
  /** Any JSON value. */
  readonly body: unknown;
}

export interface Message extends Pick<MessageRecord, 'by' | 'body'> {
  readonly number: number;
  /** Epoch ms, on the clock of the ensemble's leader. */
  readonly at: number;
}

export function encodeLog({ first, next }: Pick<Log, 'first' | 'next'>): Buffer {
  return Buffer.from(JSON.stringify({ first, next }));
}

/** @throws PosternError `conflict` for what somebody else has put there */
export function decodeLog(name: string, node: Pick<NodeData, 'data' | 'stat'>): Log {
  const log = parseLog(node);
  if (log === undefined)
    throw new StandingConflictError(`The znode of the messages to the group "${name}" holds something else.`);
  return log;
}

/** @returns undefined for what somebody else has put there */
export function parseLog({ data, stat }: Pick<NodeData, 'data' | 'stat'>): Log | undefined {
  const { czxid: start, version } = stat;
  if (data.length === 0) return { first: start, next: start, start, version };
  const { first, next } = parse(data);
  if (!Number.isSafeInteger(first) || !Number.isSafeInteger(next)) return undefined;
  return { first: first as number, next: next as number, start, version };
}

export function encodeMessage(record: MessageRecord): Buffer {
  return Buffer.from(JSON.stringify(record));
}

/** @returns undefined for what somebody else has put there */
export function decodeMessage(data: Buffer): MessageRecord | undefined {
  const { attempt, by, body } = parse(data);
  return typeof attempt === 'string' && typeof by === 'string' ? { attempt, by, body } : undefined;
}

/** What is in the mark of a post. */
export interface PostMark {
  readonly number: number;
  readonly fingerprint: string;
}

export function encodeMark(mark: PostMark): Buffer {
  return Buffer.from(JSON.stringify(mark));
}

export function decodeMark({ data }: Pick<NodeData, 'data'>): PostMark {
  const { number, fingerprint } = parse(data);
  return { number: Number(number), fingerprint: String(fingerprint) };
}

export function messagePath({ path }: LogRef, number: number): string {
  return `${path}/${number}`;
}

/** Writes the log at the version at which it was read. */
export function writeLog({ path }: LogRef, log: Log, changed: Partial<Pick<Log, 'first' | 'next'>>): MultiOperation {
  return { type: 'setData', path, data: encodeLog({ ...log, ...changed }), version: log.version };
}

function parse(data: Buffer): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(data.toString('utf8'));
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
  } catch {
    return {};
  }
}
