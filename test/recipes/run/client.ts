/** What tests of runs say to a replica. */
import type { Client, LeaseHandle, Reply } from '../../support/http/client.js';

export const NAME = 'report';

export interface Started {
  started: true;
  occurrence: string;
  attempt: number;
  fencingToken: number;
}
export interface Refused {
  started: false;
  occurrence: string;
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

/** The fencing token that a lease was last told of an occurrence. */
const told = new Map<string, number>();
const keyOf = ({ leaseToken }: Token, occurrence: string): string => `${occurrence} ${leaseToken}`;

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
export async function start(
  replica: Client,
  lease: Token,
  which: string | { withinMs: number },
  body: Record<string, unknown> = {},
): Promise<Told> {
  const answer = (await replica.expect(200, 'POST', `/v1/runs/${NAME}/start`, {
    leaseToken: lease.leaseToken,
    body: { ...(typeof which === 'string' ? { occurrence: which } : which), ...body },
  })) as unknown as Told;
  if (answer.started) told.set(keyOf(lease, answer.occurrence), answer.fencingToken);
  return answer;
}

/** Starts, and fails the test when that is refused. */
export async function started(
  replica: Client,
  lease: Token,
  which: string | { withinMs: number },
  body: Record<string, unknown> = {},
): Promise<Started> {
  const answer = await start(replica, lease, which, body);
  if (!answer.started) throw new Error(`not started: ${JSON.stringify(answer)}`);
  return answer;
}

/** Finishes the attempt that the lease was told of last, unless `body` says another fencing token. */
export function finish(
  replica: Client,
  lease: Token,
  occurrence: string,
  outcome: 'done' | 'failed' = 'done',
  body: Record<string, unknown> = {},
): Promise<Reply> {
  const fencingToken = told.get(keyOf(lease, occurrence)) ?? 1;
  return call(replica, 'finish', lease, { occurrence, outcome, fencingToken, ...body });
}

/** Newest first. */
export async function show(replica: Client, query = ''): Promise<ShownOccurrence[]> {
  const body = (await replica.expect(200, 'GET', `/v1/runs/${NAME}${query}`)) as { occurrences: ShownOccurrence[] };
  return body.occurrences;
}
