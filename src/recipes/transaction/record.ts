/**
 * The record of a transaction, and what its node's Stat tells. See `transaction.ts`.
 *
 *   <id>                         data: the record; version 0: open, version 1: decided
 *   <id>/joined-<participant>    ephemeral, of the participant's lease; data: who that is, as JSON
 *   <id>/commit-<participant>    ephemeral, of the same lease; made by its vote; never written again, so at version 0
 *
 * As long as the transaction is open nobody deletes a child: one that is gone went with its lease. ZooKeeper tells
 * `cversion` as twice the number of children ever made, less those there are. So it equals the number of children
 * exactly as long as none has gone, and one reading of the node, whatever the number of participants, tells all that
 * matters (`progressOf`).
 */
import { createHash } from 'node:crypto';
import { jsonOf, parseShown } from '../../json-text.js';
import type { NodeData, Stat } from '../../zookeeper/operations.js';
import { expectKnown, type KnownFields } from '../known-record.js';

export type Vote = 'commit' | 'abort';
export type TransactionState = 'open' | 'committed' | 'aborted';

/** Why a transaction was aborted. */
export const ABORT_REASONS = ['voted', 'participant-lost', 'deadline', 'requested'] as const;
export type AbortReason = (typeof ABORT_REASONS)[number];

export type Decision =
  | { state: 'committed' }
  | {
      state: 'aborted';
      reason: AbortReason;
      /** The participants because of whom. */
      causedBy: string[];
      /** Who had voted commit. */
      commits: string[];
      /** What the coordinator said when it asked for the abort. */
      note?: string;
    };

export interface TransactionRecord {
  /** Of the coordinator. */
  principal: string;
  participants: string[];
  deadlineMs: number;
  data?: unknown;
  /** Absent while it is open. */
  decision?: Decision;
}

/** Which transaction. */
export interface TransactionRef {
  namespace: string;
  id: string;
  path: string;
}

/** The transaction as it was seen once, or as this replica has written it. */
export interface TransactionLook {
  ref: TransactionRef;
  record: TransactionRecord;
  stat: Stat;
  /** Changes with the decision, and when the same id comes again after its history was removed. */
  etag: string;
}

/** Who has joined, and who has voted commit. */
export interface Roll {
  joined: ReadonlySet<string>;
  commits: ReadonlySet<string>;
}

export type Progress = 'decided' | 'lost' | 'complete' | 'incomplete';

const JOINED = 'joined-';
const COMMIT = 'commit-';

export function joinedPath({ path }: TransactionRef, participant: string): string {
  return `${path}/${JOINED}${participant}`;
}

export function commitPath({ path }: TransactionRef, participant: string): string {
  return `${path}/${COMMIT}${participant}`;
}

/** The participant that joined by the node of this name; undefined for any other node. */
export function parseJoined(name: string): string | undefined {
  return name.startsWith(JOINED) ? name.slice(JOINED.length) : undefined;
}

/** The id of a transaction that is asked for with a requestId: the same at every replica. */
export function derivedId(namespace: string, principal: string, requestId: string): string {
  return createHash('sha256')
    .update(JSON.stringify(['transaction', namespace, principal, requestId]))
    .digest('hex')
    .slice(0, 32);
}

/** Whether the text can be the id of a transaction. */
export function isTransactionId(text: string): boolean {
  return /^[0-9a-f]{32}$/.test(text);
}

export function encodeTransaction(record: TransactionRecord): Buffer {
  return Buffer.from(jsonOf(record));
}

const KNOWN_TRANSACTION: KnownFields<TransactionRecord> = {
  principal: true,
  participants: true,
  deadlineMs: true,
  data: true,
  decision: true,
};
const KNOWN_DECISION: KnownFields<{
  state: string;
  reason: string;
  causedBy: string[];
  commits: string[];
  note: string;
}> = { state: ['committed', 'aborted'], reason: ABORT_REASONS, causedBy: true, commits: true, note: true };

/** @throws NewerRecordError */
export function lookAt(ref: TransactionRef, { data, stat }: Pick<NodeData, 'data' | 'stat'>): TransactionLook {
  const what = `the transaction "${ref.id}"`;
  const record = expectKnown(what, parseShown(data.toString('utf8'), 'data') as TransactionRecord, KNOWN_TRANSACTION);
  if (record.decision !== undefined) expectKnown(what, record.decision as object, KNOWN_DECISION);
  return lookOf(ref, record, stat);
}

export function lookOf(ref: TransactionRef, record: TransactionRecord, stat: Stat): TransactionLook {
  return { ref, record, stat, etag: `"${stat.czxid}-${stat.version}"` };
}

export function stateOf({ record }: TransactionLook): TransactionState {
  return record.decision?.state ?? 'open';
}

/** Epoch ms on the ensemble's clock. */
export function deadlineOf({ record, stat }: TransactionLook): number {
  return stat.ctime + record.deadlineMs;
}

/** What the numbers of the node tell; `participants` is how many there are. */
export function progressOf({ version, cversion, numChildren }: Stat, participants: number): Progress {
  if (version > 0) return 'decided';
  if (cversion !== numChildren) return 'lost';
  return numChildren === 2 * participants ? 'complete' : 'incomplete';
}

export function rollOf(children: readonly string[]): Roll {
  const named = (prefix: string): Set<string> =>
    new Set(children.filter((child) => child.startsWith(prefix)).map((child) => child.slice(prefix.length)));
  return { joined: named(JOINED), commits: named(COMMIT) };
}

/** The vote of a participant in a transaction that is decided, as far as it had voted. */
export function decidedVote(decision: Decision, participant: string): Vote | undefined {
  if (decision.state === 'committed' || decision.commits.includes(participant)) return 'commit';
  return decision.reason === 'voted' && decision.causedBy.includes(participant) ? 'abort' : undefined;
}
