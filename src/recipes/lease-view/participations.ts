/** The open transactions that a lease takes part in, found from the paths of its session's nodes. */
import { BUCKET_DIGITS, type Layout } from '../../leases/layout.js';
import type { Lease } from '../../leases/lease.js';
import type { Coordination } from '../coordination.js';
import { commitPath, joinedPath, parseJoined, rollOf } from '../transaction/record.js';
import type { BoundClient } from '../../zookeeper/bound.js';

const READS_AT_ONCE = 64;

export interface OwnParticipation {
  transactionId: string;
  participant: string;
  hasVoted: boolean;
}

/** @param paths of the session's ephemeral nodes, as they were at one moment */
export function participationsOf(layout: Layout, lease: Lease, paths: readonly string[]): OwnParticipation[] {
  const directory = `${layout.transactions(lease.namespace)}/`;
  const own = new Set(paths);
  const found: OwnParticipation[] = [];
  for (const path of paths) {
    if (!path.startsWith(directory)) continue;
    const [id = '', child = ''] = path.slice(directory.length + BUCKET_DIGITS + 1).split('/');
    const participant = parseJoined(child);
    if (participant === undefined) continue;
    const ref = { namespace: lease.namespace, id, path: layout.transaction(lease.namespace, id) };
    found.push({ transactionId: id, participant, hasVoted: own.has(commitPath(ref, participant)) });
  }
  return found;
}

/**
 * The same, found from outside: without the lease's session, which a look would keep alive. Walks through all open
 * transactions, as `findHolds` through all lines.
 */
export async function findParticipations(
  { layout }: Coordination,
  zk: BoundClient,
  lease: Lease,
): Promise<OwnParticipation[]> {
  const { namespace, sessionId } = lease;
  const directory = layout.openTransactions(namespace);
  await zk.sync(directory);
  const ids = await zk.children(directory);
  const paths: string[] = [];
  for (let i = 0; i < ids.length; i += READS_AT_ONCE) {
    const found = await Promise.all(
      ids.slice(i, i + READS_AT_ONCE).map(async (id) => {
        const ref = { namespace, id, path: layout.transaction(namespace, id) };
        const { joined, commits } = rollOf(await zk.children(ref.path));
        const own = await Promise.all(
          [...joined].map(async (participant) => {
            const path = joinedPath(ref, participant);
            if ((await zk.exists(path))?.ephemeralOwner !== sessionId) return [];
            return commits.has(participant) ? [path, commitPath(ref, participant)] : [path];
          }),
        );
        return own.flat();
      }),
    );
    paths.push(...found.flat());
  }
  return participationsOf(layout, lease, paths);
}
