/** How much to take from a queue at once: what was asked for, within one transaction and one answer. */
import type { Demand } from './demand.js';
import type { Entry } from './entry.js';
import type { Queue } from '../queue.js';
import { TRANSACTION_BYTES_MAX } from '../transactions.js';
import { OPERATION_BYTES } from '../../../zookeeper/operations/bytes.js';

/** Requests that are served together take no more than this between them; one alone may take what it asks for. */
const TOGETHER_MAX = 200;
/** What one answer carries at most; the next request gets the rest. */
export const ANSWER_BYTES_MAX = 1024 * 1024;
/** The names of a priority, a segment, a message and of what is below it. */
const NAMES_BYTES = 72;
/** A claim's own node, with a `requestId` of the longest. */
const CLAIM_BYTES = 400;
/** What an answer says of a message besides what is stored: its times, its claim, and the words for all of it. */
const TOLD_BYTES = 300;

export interface Room {
  messages: number;
  /** Of the answer; the first message has room whatever its size. */
  bytes: number;
}

/** For these requests, the first of which is served first. */
export function roomFor({ paths }: Queue, demands: readonly Demand[]): Room {
  const wanted = demands.reduce((sum, { options }) => sum + options.max, 0);
  const messages = Math.max(demands[0]?.options.max ?? 0, Math.min(TOGETHER_MAX, wanted));
  // Each is two operations: the message and its delivery record, or that and its claim.
  const cost = 2 * (OPERATION_BYTES + paths.data.length + NAMES_BYTES) + CLAIM_BYTES;
  return { messages: Math.min(messages, Math.floor(TRANSACTION_BYTES_MAX / cost)), bytes: ANSWER_BYTES_MAX };
}

/** What is left when these were put in; undefined when it is full. */
export function roomBehind({ messages, bytes }: Room, entries: readonly Entry[]): Room | undefined {
  const left = { messages: messages - entries.length, bytes: bytes - bytesInAnswer(entries) };
  return left.messages > 0 && left.bytes > 0 ? left : undefined;
}

/** The first of these messages that go into one answer. */
export function fill(entries: readonly Entry[], max: number): Entry[] {
  const taken: Entry[] = [];
  let bytes = 0;
  for (const entry of entries) {
    bytes += entry.bytes;
    if (taken.length === max || (taken.length > 0 && bytes > ANSWER_BYTES_MAX)) break;
    taken.push(entry);
  }
  return taken;
}

/**
 * What a message takes in an answer.
 * @param stored of its node: its attributes and the note of a dead letter are in it as they are told
 * @param raw of a body that is told as base64
 */
export function bytesOfMessage(stored: number, raw: number): number {
  return stored + Math.ceil(raw / 3) + TOLD_BYTES;
}

export function bytesInAnswer(entries: readonly Entry[]): number {
  return entries.reduce((sum, { bytes }) => sum + bytes, 0);
}
