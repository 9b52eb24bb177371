/**
 * The mark of a hold with a lock-delay, and the transactions that change both together. See `lock-delay.ts`.
 *
 * A mark exists exactly while its contender's node says `granted` with a `delayMs`, and longer only when the hold was
 * lost: whoever writes or deletes such a node does so in a transaction that creates or deletes the mark.
 */
import { lockDelaysOf } from '../../../leases/layout.js';
import type { BoundClient, BoundWriter } from '../../../zookeeper/bound.js';
import { isReason } from '../../../zookeeper/errors.js';
import { ANY_VERSION, type MultiOperation, type NodeData } from '../../../zookeeper/operations.js';
import { multiWithOptional, OwnedTransaction } from '../../../zookeeper/owned-transaction.js';
import { baseName, parentOf } from '../../../zookeeper/paths.js';
import { deleteTail } from '../candidate-tail.js';
import { decodeRecord, isOwnName, ownHoldId, type ContenderRecord } from '../contender.js';

/** The node of a hold, in this incarnation. */
export interface HoldNode {
  path: string;
  czxid: number;
  /** At which it is deleted; without it whatever its version is. */
  version?: number;
}

/** The version of a mark whose hold nobody has found lost. At 1, its `mtime` says when that was found. */
export const MARK_STANDING = 0;
export const MARK_LOST = 1;

/** Under the holdId, which never comes again (protocol C10). */
export function markPath({ path, czxid }: HoldNode): string {
  return `${lockDelaysOf(parentOf(path))}/${ownHoldId(baseName(path), czxid) as string}`;
}

/** Whether the node of this record has a mark. */
export function hasMark({ state, delayMs = 0 }: Pick<ContenderRecord, 'state' | 'delayMs'>): boolean {
  return state === 'granted' && delayMs > 0;
}

export function encodeMark(delayMs: number): Buffer {
  return Buffer.from(JSON.stringify({ delayMs }));
}

/** @returns 0 for what is no mark of ours */
export function decodeMark(data: Buffer): number {
  try {
    const { delayMs } = JSON.parse(data.toString('utf8')) as { delayMs?: unknown };
    return typeof delayMs === 'number' ? delayMs : 0;
  } catch {
    return 0;
  }
}

export function createMark(hold: HoldNode, delayMs: number): MultiOperation {
  return { type: 'create', path: markPath(hold), data: encodeMark(delayMs) };
}

export function deleteMark(hold: HoldNode): MultiOperation {
  return { type: 'delete', path: markPath(hold) };
}

/**
 * The delay of a hold as its data tell; where a foreign client has written over them (`revocation/foreign.ts`), as its
 * mark does.
 */
export async function delayOf(
  zk: BoundClient,
  path: string,
  { data, stat }: Pick<NodeData, 'data' | 'stat'>,
): Promise<number> {
  const record = decodeRecord(data);
  if (record !== undefined) return hasMark(record) ? (record.delayMs as number) : 0;
  if (!isOwnName(baseName(path))) return 0;
  try {
    return decodeMark((await zk.get(markPath({ path, czxid: stat.czxid }))).data);
  } catch (error) {
    if (isReason(error, 'NO_NODE')) return 0;
    throw error;
  }
}

/**
 * Deletes a hold and its mark in one transaction.
 * @param downgradable whether a reader's place stands behind it, which goes too
 * @throws as a deletion of the node alone would
 */
export function deleteWithMark(zk: BoundWriter, hold: HoldNode, downgradable?: boolean): Promise<void> {
  const all = new OwnedTransaction<'node' | 'mark' | 'tail'>()
    .add('node', { type: 'delete', path: hold.path, version: hold.version ?? ANY_VERSION })
    .add('mark', deleteMark(hold))
    .add('tail', ...deleteTail(hold.path, downgradable));
  // Somebody may have removed these by hand; the hold is released all the same.
  return multiWithOptional(zk, all, 'mark', 'tail');
}
