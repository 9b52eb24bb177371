/** The members that a lease has in a pool under one request: found through its session, which knows what it owns. */
import type { Layout } from '../../leases/layout.js';
import type { Lease } from '../../leases/lease.js';
import type { BoundClient } from '../../zookeeper/bound.js';
import { isReason } from '../../zookeeper/errors.js';
import { baseName } from '../../zookeeper/paths.js';
import { readNodes } from '../../zookeeper/read-nodes.js';
import { encodeHold, membersOf, parseHold, type Pool, type PoolHold, type PoolRef } from './pool.js';

/** One member that is held, as its node shows it. */
export interface HeldMember {
  readonly id: string;
  /** As the pool has it now; of a member that was removed, or where nobody looked, nothing. */
  readonly data?: unknown;
  readonly path: string;
  /** Of the node: raised by each attempt of the request that finds it. */
  readonly version: number;
  readonly hold: PoolHold;
}

export interface OwnRequest {
  readonly ref: PoolRef;
  readonly lease: Lease;
  readonly requestId: string;
}

/**
 * What the lease has under the request, in the order of the pool; behind them by their ids those that were removed.
 * @param zk of the lease's session
 */
export async function ownMembers(
  zk: BoundClient,
  layout: Layout,
  { ref, lease, requestId }: OwnRequest,
  pool: Pool,
): Promise<HeldMember[]> {
  const guid = lease.guid('pool', ref.name, requestId);
  const held = (await heldBy(zk, layout.poolHolds(ref.namespace, pool.id))).filter(({ hold }) => hold.guid === guid);
  if (held.length === 0) return [];
  const known = new Map(membersOf(pool).map((member, index) => [member.id, { data: member.data, index }]));
  const at = ({ id }: HeldMember): number => known.get(id)?.index ?? known.size;
  return held
    .sort((a, b) => at(a) - at(b) || byId(a, b))
    .map((member) => ({ ...member, data: known.get(member.id)?.data }));
}

/** Numbers as numbers: a pool of a size names its members so. */
function byId(a: HeldMember, b: HeldMember): number {
  return a.id.localeCompare(b.id, 'en', { numeric: true });
}

/** All that the lease of this session has below a directory of holds; behind a `sync`. */
export async function heldBy(zk: BoundClient, directory: string): Promise<HeldMember[]> {
  const [, paths] = await Promise.all([zk.sync(directory), zk.ephemerals(directory)]);
  const nodes = await readNodes(zk, paths);
  return paths.flatMap((path, i) => {
    const node = nodes[i];
    const hold = node === undefined ? undefined : parseHold(node.data);
    if (node === undefined || hold === undefined) return [];
    return [{ id: baseName(path), path, version: node.stat.version, hold }];
  });
}

/**
 * This attempt is going to answer what an earlier one was given: should that one give it back, because its answer could
 * not be delivered or it never learnt of it, it does so at the version before (as with places in line, C1).
 * @returns undefined when it was given back just now
 */
export async function takeOver(
  zk: BoundClient,
  held: readonly HeldMember[],
  attempt: string,
): Promise<HeldMember[] | undefined> {
  const taken = held.map((member) => ({ ...member, hold: { ...member.hold, attempt } }));
  try {
    await zk.multi(
      taken.map(({ path, version, hold }) => ({ type: 'setData', path, data: encodeHold(hold), version })),
    );
  } catch (error) {
    if (isReason(error, 'NO_NODE', 'BAD_VERSION')) return undefined;
    throw error;
  }
  return taken.map((member) => ({ ...member, version: member.version + 1 }));
}
