/** What tests of elections say to a replica. */
import type { Client, LeaseHandle, Reply } from '../../support/http/client.js';

export interface ShownElection {
  leader: Record<string, unknown> | null;
  candidates: { candidateId: string; position: number }[];
  candidateCount: number;
}

export function leaseFor(replica: Client, body: Record<string, unknown> = {}): Promise<LeaseHandle> {
  return replica.createLease({ ttlMs: 20_000, ...body });
}

export function campaign(
  replica: Client,
  name: string,
  lease: { leaseToken: string },
  body: Record<string, unknown> = {},
): Promise<Reply> {
  return replica.call('POST', `/v1/elections/${name}/campaign`, { body, leaseToken: lease.leaseToken });
}

export function speak(
  replica: Client,
  name: string,
  verb: 'proclaim' | 'acknowledge' | 'resign',
  lease: { leaseToken: string },
  body: Record<string, unknown> = {},
): Promise<Reply> {
  return replica.call('POST', `/v1/elections/${name}/${verb}`, { body, leaseToken: lease.leaseToken });
}

export function transfer(replica: Client, name: string, body: Record<string, unknown>): Promise<Reply> {
  return replica.call('POST', `/v1/elections/${name}/transfer`, { body });
}

export function electionOf(replica: Client, name: string): Promise<ShownElection> {
  return replica.expect(200, 'GET', `/v1/elections/${name}`) as Promise<ShownElection>;
}

/** What the lease's own page says that it holds of elections. */
export async function candidacies(replica: Client, lease: LeaseHandle): Promise<{ kind: string }[]> {
  const { holds } = (await replica.showLease(lease)).body as { holds: { kind: string }[] };
  return holds.filter(({ kind }) => kind === 'election');
}
