/** What tests of transactions say to a replica. */
import type { CallOptions, Client, LeaseHandle, Reply } from '../../support/http/client.js';

export interface Told {
  transactionId: string;
  state: 'open' | 'committed' | 'aborted';
  reason?: string;
  causedBy?: string[];
}

export interface Shown extends Told {
  votes: { participant: string; vote: 'commit' | 'abort' | null; joined?: boolean }[];
  data: unknown;
  createdAt: string;
  deadline: string;
  decidedAt?: string;
  note?: string;
}

export function leaseFor(replica: Client, body: Record<string, unknown> = {}): Promise<LeaseHandle> {
  return replica.createLease({ ttlMs: 20_000, ...body });
}

/** Begins a transaction and answers its id. */
export async function begin(
  replica: Client,
  participants: readonly string[],
  body: Record<string, unknown> = {},
  options: CallOptions = {},
): Promise<string> {
  const { transactionId } = (await replica.expect(201, 'POST', '/v1/transactions', {
    ...options,
    body: { participants, deadlineMs: 60_000, ...body },
  })) as Told;
  return transactionId;
}

export function join(replica: Client, id: string, lease: { leaseToken: string }, participant: string): Promise<Reply> {
  return replica.call('POST', `/v1/transactions/${id}/join`, { body: { participant }, leaseToken: lease.leaseToken });
}

export function vote(
  replica: Client,
  id: string,
  lease: { leaseToken: string },
  participant: string,
  body: Record<string, unknown> = {},
): Promise<Reply> {
  return replica.call('POST', `/v1/transactions/${id}/vote`, {
    body: { participant, vote: 'commit', ...body },
    leaseToken: lease.leaseToken,
  });
}

export function abort(replica: Client, id: string, body: Record<string, unknown> = {}): Promise<Reply> {
  return replica.call('POST', `/v1/transactions/${id}/abort`, { body });
}

export function show(replica: Client, id: string, query = ''): Promise<Shown> {
  return replica.expect(200, 'GET', `/v1/transactions/${id}${query}`) as Promise<Shown>;
}

/** The body of an answer that must be 200. */
export function told({ status, body }: Reply): Told {
  if (status !== 200) throw new Error(`${status} ${JSON.stringify(body)}`);
  return body as Told;
}
