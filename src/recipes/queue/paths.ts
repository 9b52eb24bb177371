/**
 * What lies below one queue's data directory, `<namespace>/queue-data/<id>`:
 *
 *   p<PPP>/s-<n>/m-<sequence>          a message; its data are header and body, never written again
 *   p<PPP>/s-<n>/m-<until>-<sequence>  one that expires: from when on nobody gets it, epoch ms (protocol C90)
 *   p<PPP>/s-<n>/m-[<until>-]g<group>-<sequence>  one of a group, named by a hash (protocol C93)
 *   …/m-<sequence>/d                   how often it was claimed: the node's version plus one (persistent, made by the
 *                                      first claim)
 *   …/m-<sequence>/c                   the claim (ephemeral, of the consumer's lease session)
 *   delayed/<a>/<b>/<due>-<sequence>   a message that is not due yet, in directories of about 17 minutes and one second
 *   dedup/<bb>/<hash>                  a messageId that was seen: which message it was, and until when it counts
 *   takers/t-<sequence>                whose turn it is to take (ephemeral, of a replica's control session): the first
 *                                      one's
 *   nacks/<leaseId>                    which claims that lease has given back (ephemeral, of its session; `nacks.ts`)
 *   pushers/<lane>                     the number of the last transaction of that lane (`push/lane.ts`)
 *
 * PPP is the priority, n the number of the segment, both padded so that their order as text is their order. A version
 * above 0 says: of a segment that it is sealed, of the data directory that the queue was deleted. That of `pushers`
 * counts the priorities that came into use since the queue was made: a deletion that does not know all of them fails.
 */
import { createHash } from 'node:crypto';
import type { MultiOperation } from '../../zookeeper/operations.js';
import { formatSequence, parseSequence } from '../../zookeeper/paths.js';

export const PRIORITY_MAX = 999;
/**
 * Of a queue without priorities, and of messages that do not say: in the middle of what is mostly used, as kazoo has
 * it.
 */
export const PRIORITY_DEFAULT = 100;
/**
 * About so many messages are in a segment: who fills it seals it. A listing of one stays below 64 KB also when a batch
 * overfills it.
 */
export const SEGMENT_MESSAGES = 1_000;

const SEGMENT_DIGITS = 10;
const COARSE_BITS = 20; // ms: about 17 minutes
const FINE_BITS = 10; // ms: about a second
const INSTANT_DIGITS = 13;
const DEDUP_DIGITS = 2;
const GROUP_DIGITS = 16;

export class QueuePaths {
  /** The data directory itself. */
  readonly data: string; // its node says which name stands for it
  readonly takers: string;
  readonly pushers: string;
  readonly delayed: string;
  readonly dedup: string;
  readonly nacks: string;

  constructor(data: string) {
    this.data = data;
    this.takers = `${data}/takers`;
    this.pushers = `${data}/pushers`;
    this.delayed = `${data}/delayed`;
    this.dedup = `${data}/dedup`;
    this.nacks = `${data}/nacks`;
  }

  priority(priority: number): string {
    return `${this.data}/${priorityName(priority)}`;
  }

  segment(priority: number, segment: number): string {
    return `${this.priority(priority)}/${segmentName(segment)}`;
  }

  message(place: MessagePlace): string {
    return `${this.segment(place.priority, place.segment)}/${messageName(place)}`;
  }

  /** Refuses what comes with it once the queue was deleted. */
  get exists(): MultiOperation {
    return { type: 'check', path: this.data, version: 0 };
  }

  /** The directory of messages that are due within the second of `dueAt` (epoch ms). */
  delayedBucket(dueAt: number): string {
    return `${this.delayed}/${Math.floor(dueAt / 2 ** COARSE_BITS)}/${Math.floor(dueAt / 2 ** FINE_BITS)}`;
  }

  /** A sequential node's name without its sequence. */
  delayedMessage(dueAt: number): string {
    return `${this.delayedBucket(dueAt)}/${instantName(dueAt)}-`;
  }

  nacksOf(leaseId: string): string {
    return `${this.nacks}/${leaseId}`;
  }

  dedupMark(hash: string): string {
    return `${this.dedup}/${hash.slice(0, DEDUP_DIGITS)}/${hash}`;
  }
}

/** A message of a segment, as its name says. */
export interface MessageInSegment {
  sequence: number;
  /** From when on nobody gets it, epoch ms on the ensemble's clock; undefined: it does not expire. */
  expiresAt?: number | undefined;
  /** A hash of its group's name; undefined: it has none. */
  group: string | undefined;
}

/** Where in the queue a message stands. */
export interface MessagePlace extends MessageInSegment {
  priority: number;
  segment: number;
}

/** The order in which messages are delivered. */
export function comparePlaces(a: MessagePlace, b: MessagePlace): number {
  return a.priority - b.priority || a.segment - b.segment || a.sequence - b.sequence;
}

/** @param now epoch ms on the ensemble's clock */
export function isExpired({ expiresAt }: Pick<MessagePlace, 'expiresAt'>, now: number): boolean {
  return expiresAt !== undefined && expiresAt <= now;
}

export function priorityName(priority: number): string {
  return `p${String(priority).padStart(3, '0')}`;
}

/** The priorities that a listing of the data directory shows, the first to be served first. */
export function prioritiesIn(children: readonly string[]): number[] {
  return children
    .filter((name) => /^p\d{3}$/.test(name))
    .map((name) => Number(name.slice(1)))
    .sort((a, b) => a - b);
}

export function segmentName(segment: number): string {
  return `s-${String(segment).padStart(SEGMENT_DIGITS, '0')}`;
}

export function segmentsIn(children: readonly string[]): number[] {
  return children
    .filter((name) => /^s-\d{10}$/.test(name))
    .map((name) => Number(name.slice(2)))
    .sort((a, b) => a - b);
}

const MESSAGE = /^m-(?:(\d{13})-)?(?:g([0-9a-f]{16})-)?\d{10}$/;

/** A message's name without its sequence. */
export function messagePrefix({ expiresAt, group }: Omit<MessageInSegment, 'sequence'>): string {
  const until = expiresAt === undefined ? '' : `${instantName(expiresAt)}-`;
  return `m-${until}${group === undefined ? '' : `g${group}-`}`;
}

/** What names of messages say of the group of that name: 16 hexadecimal digits. */
export function groupHash(name: string): string {
  return createHash('sha256').update(name).digest('hex').slice(0, GROUP_DIGITS);
}

export function messageName(message: MessageInSegment): string {
  return messagePrefix(message) + formatSequence(message.sequence);
}

/** @returns undefined for the name of a node that is not ours */
export function messageOf(name: string): MessageInSegment | undefined {
  const match = MESSAGE.exec(name);
  const sequence = match === null ? undefined : parseSequence(name);
  if (match === null || sequence === undefined) return undefined;
  const [, until, group] = match;
  return { sequence, expiresAt: until === undefined ? undefined : Number(until), group };
}

/** The messages that a listing of a segment shows, in order. */
export function messagesIn(children: readonly string[]): MessageInSegment[] {
  const messages: MessageInSegment[] = [];
  for (const name of children) {
    const message = messageOf(name);
    if (message !== undefined) messages.push(message);
  }
  // A segment is sealed long before it runs out of sequence numbers.
  return messages.sort((a, b) => a.sequence - b.sequence);
}

function instantName(epochMs: number): string {
  return String(epochMs).padStart(INSTANT_DIGITS, '0');
}

/** Until when messages are due in a directory of about 17 minutes of that name, epoch ms; NaN: it is none of ours. */
export function coarseEndOf(name: string): number {
  return (Number(name) + 1) * 2 ** COARSE_BITS;
}

/** The same of a directory of one second. */
export function secondEndOf(name: string): number {
  return (Number(name) + 1) * 2 ** FINE_BITS;
}

/** When the message of that name is due, epoch ms. */
export function dueAtOf(name: string): number {
  return Number(name.slice(0, INSTANT_DIGITS));
}
