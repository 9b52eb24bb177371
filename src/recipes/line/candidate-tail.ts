/**
 * The tail of a candidate: a second node, created directly behind the candidate's own in the same transaction, and
 * never written to.
 *
 * A foreign client behind one of our candidates watches the node before its own. LeaderLatch sets that watch once and
 * reacts to the deletion alone: after any change of the node it hears nothing more, and would never lead. A candidate's
 * node is written to when it is elected after a wait, proclaims, acknowledges, or when its request is repeated. So the
 * node before a latch is the tail, which is only ever deleted (protocol T14).
 *
 * The tail is not a contender (`parseContender`). Both nodes belong to the lease's session and end with it in one
 * transaction; they are also deleted in one. A crash leaves both or none. If somebody has removed the tail by hand, the
 * candidate is deleted alone.
 *
 * Layout:  <root>/ns/<namespace>/elections/<name>/_c_<guid>-tail-latch-<sequence + 1>
 *            ephemeral; data: the candidate's first id, in one line
 */
import type { BoundWriter } from '../../zookeeper/bound.js';
import { ANY_VERSION, type MultiOperation } from '../../zookeeper/operations.js';
import { multiWithOptional, OwnedTransaction } from '../../zookeeper/owned-transaction.js';
import { baseName, parentOf } from '../../zookeeper/paths.js';
import { decodeRecord, downgradedNameOf, latchId, tailNameOf, tailPrefix, type ContenderRecord } from './contender.js';

/** To be made in the transaction that makes the candidate, right after it. */
export function createTail(directory: string, guid: string, record: ContenderRecord): MultiOperation {
  return {
    type: 'create',
    path: `${directory}/${tailPrefix(guid)}`,
    data: Buffer.from(latchId(record)),
    mode: 'ephemeral-sequential',
  };
}

/** Whether a reader's place may stand behind a writer. Curator's Revoker writes over the data that would tell. */
export function mayHaveReader(data: Buffer): boolean {
  const record = decodeRecord(data);
  return record === undefined || record.downgradable === true;
}

/**
 * To be done in the transaction that deletes the contender; nothing for any that is no candidate of ours, and no writer
 * with a reader's place behind it (`downgrade.ts`).
 */
export function deleteTail(path: string, downgradable?: boolean): MultiOperation[] {
  const name = baseName(path);
  const tail = (downgradable === true ? downgradedNameOf(name) : undefined) ?? tailNameOf(name);
  return tail === undefined ? [] : [{ type: 'delete', path: `${parentOf(path)}/${tail}` }];
}

/** Deletes a contender, and its tail with it. @throws as a deletion of the node alone would */
export function deleteContender(
  zk: BoundWriter,
  path: string,
  version: number | undefined,
  downgradable?: boolean,
): Promise<void> {
  const tail = deleteTail(path, downgradable);
  if (tail.length === 0) return zk.remove(path, version);
  const both = new OwnedTransaction<'node' | 'tail'>()
    .add('node', { type: 'delete', path, version: version ?? ANY_VERSION })
    .add('tail', ...tail);
  return multiWithOptional(zk, both, 'tail');
}
