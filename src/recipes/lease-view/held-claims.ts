/** A lease's claims in all queues, found from the paths of its session's nodes. */
import type { Lease } from '../../leases/lease.js';
import type { Coordination } from '../coordination.js';
import { encodeClaimId } from '../queue/claim/id.js';
import { decodeClaim, recordPath } from '../queue/claim/entry.js';
import { placeOfClaim } from '../queue/claim/own-claims.js';
import type { BoundClient } from '../../zookeeper/bound.js';

const READS_AT_ONCE = 200;

export interface HeldClaim {
  queue: string;
  claimId: string;
  /** The id of the message. */
  message: string;
  /** Empty: none. */
  requestId: string;
  /** Epoch ms on the ensemble's clock. */
  since: number;
  /** Epoch ms on the ensemble's clock; undefined: as long as the lease lives. */
  until: number | undefined;
}

/**
 * @param paths of the session's ephemeral nodes, as they were at one moment
 * @returns in the order of the queues' contents; nothing of queues that were deleted, whose claims mean nothing any
 *   more
 */
export async function describeClaims(
  { layout }: Coordination,
  zk: BoundClient,
  lease: Lease,
  paths: readonly string[],
): Promise<HeldClaim[]> {
  const contents = `${layout.queueContents(lease.namespace)}/`;
  const own = paths.filter((path) => path.startsWith(contents) && placeOfClaim(path) !== undefined).sort();
  if (own.length === 0) return [];
  // The lease's session is up to date, the control session need not be.
  await zk.sync(layout.namespace(lease.namespace));
  const names = await namesOf(zk, new Set(own.map((path) => path.slice(0, path.indexOf('/', contents.length)))));
  const claims: HeldClaim[] = [];
  for (let i = 0; i < own.length; i += READS_AT_ONCE) {
    const batch = own.slice(i, i + READS_AT_ONCE);
    const { results } = await zk.multiRead(
      batch.flatMap((path) => [
        { type: 'getData' as const, path },
        { type: 'getData' as const, path: recordPath(path.slice(0, -'/c'.length)) },
      ]),
    );
    for (const [j, path] of batch.entries()) {
      const [node, deliveries] = [results[2 * j], results[2 * j + 1]];
      const data = path.slice(0, path.indexOf('/', contents.length));
      const [queue, place] = [names.get(data), placeOfClaim(path)];
      if (node === undefined || deliveries === undefined || queue === undefined || place === undefined) continue;
      const record = 'data' in node ? decodeClaim(node.data) : undefined;
      if (record === undefined || !('data' in node) || !('data' in deliveries)) continue; // settled meanwhile
      const { version } = deliveries.stat;
      const queueId = data.slice(contents.length);
      claims.push({
        queue,
        claimId: encodeClaimId(lease, { queueId, ...place, version, until: record.first ?? record.until ?? 0 }),
        message: record.message,
        requestId: record.requestId ?? '',
        since: node.stat.ctime,
        until: record.until,
      });
    }
  }
  return claims;
}

/** Of contents: the name that stands for them. Those that were deleted have none. */
async function namesOf(zk: BoundClient, contents: ReadonlySet<string>): Promise<Map<string, string>> {
  const names = new Map<string, string>();
  const all = [...contents];
  for (let i = 0; i < all.length; i += READS_AT_ONCE) {
    const batch = all.slice(i, i + READS_AT_ONCE);
    const { results } = await zk.multiRead(batch.map((path) => ({ type: 'getData', path })));
    for (const [j, result] of results.entries())
      if ('data' in result && result.stat.version === 0) names.set(batch[j] as string, result.data.toString('utf8'));
  }
  return names;
}
