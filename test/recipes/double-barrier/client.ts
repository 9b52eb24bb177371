/** What tests of double barriers say to a replica. */
import type { Client, LeaseHandle, Reply } from '../../support/http/client.js';
import { eventually } from '../../support/eventually.js';

export interface ShownDoubleBarrier {
  entered: boolean;
  size: number | null;
  members: { member: string; entered: boolean; external: boolean; size: number | null }[];
  memberCount: number;
}

export function leaseFor(replica: Client, body: Record<string, unknown> = {}): Promise<LeaseHandle> {
  return replica.createLease({ ttlMs: 20_000, ...body });
}

export function leasesFor(replica: Client, count: number, body: Record<string, unknown> = {}): Promise<LeaseHandle[]> {
  return Promise.all(Array.from({ length: count }, () => leaseFor(replica, body)));
}

export function enter(
  replica: Client,
  name: string,
  lease: { leaseToken: string },
  body: Record<string, unknown>,
  signal?: AbortSignal,
): Promise<Reply> {
  return replica.call('POST', `/v1/double-barriers/${name}/enter`, {
    body,
    leaseToken: lease.leaseToken,
    ...(signal && { signal }),
  });
}

export function leave(
  replica: Client,
  name: string,
  lease: { leaseToken: string },
  body: Record<string, unknown> = {},
): Promise<Reply> {
  return replica.call('POST', `/v1/double-barriers/${name}/leave`, { body, leaseToken: lease.leaseToken });
}

export function show(replica: Client, name: string): Promise<ShownDoubleBarrier> {
  return replica.expect(200, 'GET', `/v1/double-barriers/${name}`) as Promise<ShownDoubleBarrier>;
}

/** Resolves when so many members are in it. */
export async function untilMembers(replica: Client, name: string, count: number): Promise<void> {
  await eventually(`${count} are in ${name}`, async () => (await show(replica, name)).memberCount === count);
}
