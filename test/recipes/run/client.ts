/** What tests of runs say to a replica. */
import type { Client, LeaseHandle, Reply } from '../../support/http/client.js';

export const NAME = 'report';

export interface Started {
  started: true;
  attempt: number;
  fencingToken: number;
}
export interface Refused {
  started: false;
  state: 'running' | 'done' | 'failed';
  attempt: number;
  by: { leaseId: string };
}
export type Told = Started | Refused;

export interface ShownOccurrence {
  occurrence: string;
  state: 'running' | 'done' | 'failed' | 'open';
  attempt: number;
  fencingToken: number;
  note?: string;
  endedAt?: string;
}

type Token = Pick<LeaseHandle, 'leaseToken'>;

export function leaseFor(replica: Client): Promise<LeaseHandle> {
  return replica.createLease({ ttlMs: 20_000 });
}

export function call(
  replica: Client,
  verb: 'start' | 'finish',
  { leaseToken }: Token,
  body: Record<string, unknown>,
): Promise<Reply> {
  return replica.call('POST', `/v1/runs/${NAME}/${verb}`, { leaseToken, body });
}

/** Starts, and fails the test when the answer is a problem. */
export function start(
  replica: Client,
  { leaseToken }: Token,
  occurrence: string,
  body: Record<string, unknown> = {},
): Promise<Told> {
  return replica.expect(200, 'POST', `/v1/runs/${NAME}/start`, {
    leaseToken,
    body: { occurrence, ...body },
  }) as Promise<Told>;
}

/** Starts, and fails the test when that is refused. */
export async function started(
  replica: Client,
  lease: Token,
  occurrence: string,
  body: Record<string, unknown> = {},
): Promise<Started> {
  const told = await start(replica, lease, occurrence, body);
  if (!told.started) throw new Error(`not started: ${JSON.stringify(told)}`);
  return told;
}

export function finish(
  replica: Client,
  lease: Token,
  occurrence: string,
  outcome: 'done' | 'failed' = 'done',
  body: Record<string, unknown> = {},
): Promise<Reply> {
  return call(replica, 'finish', lease, { occurrence, outcome, ...body });
}

/** Newest first. */
export async function show(replica: Client, query = ''): Promise<ShownOccurrence[]> {
  const body = (await replica.expect(200, 'GET', `/v1/runs/${NAME}${query}`)) as { occurrences: ShownOccurrence[] };
  return body.occurrences;
}
