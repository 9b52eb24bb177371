/**
 * A message as a replica that takes from the queue knows it.
 *
 *   unread ──read──▶ ready ──assigned to a demand──▶ busy ──popped──▶ gone
 *     ▲                ▲                              ├──claimed──▶ claimed ──acknowledged──▶ gone
 *     │                └──another one of the transaction failed───┤          │
 *     └──it failed, or the claim has ended: what it is now must be read──────┘
 */
import type { MultiOperation } from '../../../zookeeper/operations.js';
import type { Watch } from '../../../zookeeper/watch.js';
import type { StoredMessage } from '../message.js';
import type { MessagePlace } from '../paths.js';

export type EntryState = 'unread' | 'ready' | 'busy' | 'claimed' | 'gone';

export interface Entry extends MessagePlace {
  readonly path: string;
  state: EntryState;
  message: StoredMessage | undefined;
  /** What it takes in an answer, once it was read. */
  bytes: number;
  /** Epoch ms on the ensemble's clock. */
  enqueuedAt: number;
  /** The version of its delivery record; undefined: it was never claimed. */
  claims: number | undefined;
  /** While it is claimed: since when this replica knows, monotonic. */
  claimedAt: number;
  /** While it is claimed: until when at most, epoch ms on the ensemble's clock. */
  until: number | undefined;
  watch: Watch | undefined;
}

export function newEntry(place: MessagePlace, path: string): Entry {
  return {
    ...place,
    path,
    state: 'unread',
    message: undefined,
    bytes: 0,
    enqueuedAt: 0,
    claims: undefined,
    claimedAt: 0,
    until: undefined,
    watch: undefined,
  };
}

export function recordPath(message: string): string {
  return `${message}/d`;
}

export function claimPath(message: string): string {
  return `${message}/c`;
}

/**
 * Takes a message away that nobody has claimed.
 * @param claims the version of its delivery record; undefined: it has none
 */
export function removalOf(path: string, claims: number | undefined): MultiOperation[] {
  const message: MultiOperation = { type: 'delete', path };
  return claims === undefined ? [message] : [{ type: 'delete', path: recordPath(path), version: claims }, message];
}

/** How often it was delivered to somebody who was to acknowledge it. */
export function deliveriesOf({ message, claims }: Pick<Entry, 'message' | 'claims'>): number {
  return (message?.header.n ?? 0) + (claims === undefined ? 0 : claims + 1);
}

/**
 * The version of a claim's own node that nobody has written since: a claim that is prolonged, or found by a repetition
 * of its request, is.
 */
export const AS_MADE = 0;

/** What a claim's node says. */
export interface ClaimRecord {
  /** Random per try: finds the claim again when the reply was lost. */
  a: string;
  leaseId: string;
  /** Its id. */
  message: string;
  requestId?: string | undefined;
  /** Epoch ms on the ensemble's clock; absent: as long as the lease lives. */
  until?: number | undefined;
  /** When it was prolonged: `until` as it was claimed, which its claimId says. */
  first?: number | undefined;
}

export function encodeClaim(record: ClaimRecord): Buffer {
  return Buffer.from(JSON.stringify(record));
}

/** @returns undefined for a node that is not ours */
export function decodeClaim(data: Buffer): ClaimRecord | undefined {
  try {
    const record = JSON.parse(data.toString('utf8')) as ClaimRecord;
    return typeof record.a === 'string' ? record : undefined;
  } catch {
    return undefined;
  }
}
