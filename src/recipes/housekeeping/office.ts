/** An office that one replica has at a time: an ephemeral node of its control session. */
import type { BoundClient } from '../../zookeeper/bound.js';
import { isReason } from '../../zookeeper/errors.js';
import { parentOf } from '../../zookeeper/paths.js';

/** Whether the replica with this session has the office now, after trying to take it. */
export async function takeOffice(zk: BoundClient, path: string, sessionId: bigint): Promise<boolean> {
  const owner = await zk.exists(path);
  if (owner !== undefined) return owner.ephemeralOwner === sessionId;
  try {
    await zk.ensure(parentOf(path));
    await zk.create(path, undefined, 'ephemeral');
    return true;
  } catch (error) {
    if (isReason(error, 'NODE_EXISTS')) return false;
    throw error;
  }
}
