/**
 * Seals anew what ZooKeeper has of a lease when its client comes with a token under an older key: the record, by which
 * an administrator ends the lease, and the request node, by which a repeated request finds it (protocol C14).
 *
 * The client is given a new token only after that. So once all clients have one from a replica with the new order of
 * keys, nothing needs the older key; a client that was not given one comes with the old token, and this is repeated.
 *
 * It is one transaction, at the version of the record: the request node is made and deleted with the record, so it is
 * that of this lease. It raises the lease's fence as a side effect (`zookeeper/lease/fence.ts`), which may be raised at
 * any time.
 */
import { NoReplyError, ZooKeeperError } from '../zookeeper/errors.js';
import type { LeaseSession } from '../zookeeper/lease-session.js';
import type { GrantingOptions } from './grant.js';
import type { Lease } from './lease.js';
import { parseRecord } from './records.js';

/** @returns the new token for the client; undefined if that was not possible now */
export async function reseal(
  { sessions, keys, layout }: Pick<GrantingOptions, 'sessions' | 'keys' | 'layout'>,
  lease: Lease,
  deadline: number,
): Promise<string | undefined> {
  const ring = await keys.ring(deadline);
  const leaseToken = ring.seal(lease.grant);
  const path = layout.lease(lease.namespace, lease.leaseId);
  const write = async (session: LeaseSession): Promise<void> => {
    const zk = session.until(deadline);
    const [node, requests] = await Promise.all([zk.find(path), zk.ephemerals(layout.requests(lease.namespace))]);
    const record = node === undefined ? undefined : parseRecord(node.data);
    if (node === undefined || record === undefined || ring.open(record.token)?.stale === false) return;
    const data = Buffer.from(JSON.stringify({ ...record, token: leaseToken }));
    await zk.multi([
      { type: 'setData', path, data, version: node.stat.version },
      ...requests.map((request) => ({ type: 'setData' as const, path: request, data: Buffer.from(leaseToken) })),
    ]);
  };
  try {
    await sessions.useRepeatedly(lease, deadline, write);
    return leaseToken;
  } catch (error) {
    // The heartbeat itself was answered.
    if (error instanceof NoReplyError || error instanceof ZooKeeperError) return undefined;
    throw error;
  }
}
