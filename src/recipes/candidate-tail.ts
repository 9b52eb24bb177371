/**
 * The tail of a candidate: a second node, made directly behind the candidate's own in the same transaction, to which nobody ever writes.
 *
 * Whoever stands behind one of our candidates without being Postern watches the node before its own. LeaderLatch does so once, waits for the
 * deletion alone, and takes no notice of a change, after which it hears nothing more: it would never lead. A candidate's node is written to, when it
 * is elected after a wait, proclaims, acknowledges, or when its request is repeated. So what stands before a latch is the tail, and that only goes (protocol T14).
 *
 * The tail is no contender (`parseContender`); both nodes belong to the lease's session, and end with it in one transaction, as they are deleted in
 * one. A crash leaves both or none. Where somebody has removed the tail by hand, the candidate goes alone.
 *
 * Layout:  <root>/ns/<namespace>/elections/<name>/_c_<guid>-tail-latch-<sequence + 1>   ephemeral; data: the candidate's first id, in one line
 */
import { isReason } from '../zookeeper/errors.js';
import type { ZooKeeperClient } from '../zookeeper/client.js';
import type { MultiOperation } from '../zookeeper/operations.js';
import { baseName, parentOf } from '../zookeeper/paths.js';
import { latchId, tailNameOf, tailPrefix, type ContenderRecord } from './contender.js';

/** To be made in the transaction that makes the candidate, right after it. */
export function createTail(directory: string, guid: string, record: ContenderRecord): MultiOperation {
  return {
    type: 'create',
    path: `${directory}/${tailPrefix(guid)}`,
    data: Buffer.from(latchId(record)),
    mode: 'ephemeral-sequential',
  };
}

/** To be done in the transaction that deletes the contender; nothing for any that is no candidate of ours. */
export function deleteTail(path: string): MultiOperation[] {
  const tail = tailNameOf(baseName(path));
  return tail === undefined ? [] : [{ type: 'delete', path: `${parentOf(path)}/${tail}` }];
}

/** Deletes a contender, and its tail with it. @throws as a deletion of the node alone would */
export function deleteContender(
  client: ZooKeeperClient,
  path: string,
  version: number | undefined,
  deadline: number,
): Promise<void> {
  const tail = deleteTail(path);
  return tail.length === 0 ? client.delete(path, version, deadline) : deleteWith(tail, client, path, version, deadline);
}

async function deleteWith(
  tail: readonly MultiOperation[],
  client: ZooKeeperClient,
  path: string,
  version: number | undefined,
  deadline: number,
): Promise<void> {
  const node: MultiOperation = { type: 'delete', path, ...(version === undefined ? {} : { version }) };
  try {
    await client.multi([node, ...tail], deadline);
  } catch (error) {
    if (!isReason(error, 'NO_NODE') || error.failedIndex !== 1) throw error;
    await client.delete(path, version, deadline);
  }
}
