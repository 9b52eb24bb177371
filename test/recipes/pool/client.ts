/** What tests of pools say to a replica. */
import type { Client, LeaseHandle, Reply } from '../../support/http/client.js';
import { eventually } from '../../support/eventually.js';

export const NAME = 'workers';

export interface Acquired {
  members: { id: string; data?: unknown }[];
  holdId: string;
  fencingToken: number;
  alreadyHeld: boolean;
}

export interface Shown {
  total: number;
  free: number;
  heldCount: number;
  restingCount: number;
  waiterCount: number;
  held: { id: string; leaseId: string; owner: string | null; fencingToken: number }[];
  resting: { id: string; until: string | null }[];
}

type Token = Pick<LeaseHandle, 'leaseToken'>;

export function leaseFor(replica: Client, body: Record<string, unknown> = {}): Promise<LeaseHandle> {
  return replica.createLease({ ttlMs: 20_000, ...body });
}

export function put(replica: Client, body: Record<string, unknown>, name = NAME): Promise<Reply> {
  return replica.call('PUT', `/v1/pools/${name}`, { body });
}

export function call(
  replica: Client,
  verb: 'acquire' | 'release',
  { leaseToken }: Token,
  body: Record<string, unknown> = {},
  signal?: AbortSignal,
): Promise<Reply> {
  return replica.call('POST', `/v1/pools/${NAME}/${verb}`, { leaseToken, body, ...(signal && { signal }) });
}

/** Acquires, and fails the test when that is refused. */
export async function acquire(replica: Client, lease: Token, body: Record<string, unknown> = {}): Promise<Acquired> {
  const reply = await call(replica, 'acquire', lease, body);
  if (reply.status !== 200) throw new Error(`not acquired: ${JSON.stringify(reply.body)}`);
  return reply.body as Acquired;
}

/** Acquires one, and says which. */
export async function acquireOne(replica: Client, lease: Token, body: Record<string, unknown> = {}): Promise<string> {
  return idsOf(await acquire(replica, lease, body))[0]!;
}

/** Releases, and fails the test when there was nothing to release. */
export async function release(replica: Client, lease: Token, body: Record<string, unknown> = {}): Promise<void> {
  const reply = await call(replica, 'release', lease, body);
  if (reply.status !== 204) throw new Error(`not released: ${JSON.stringify(reply.body)}`);
}

export function idsOf({ members }: Acquired): string[] {
  return members.map(({ id }) => id);
}

export function show(replica: Client): Promise<Shown> {
  return replica.expect(200, 'GET', `/v1/pools/${NAME}`) as Promise<Shown>;
}

/** Resolves when so many requests stand in line. */
export async function untilWaiting(replica: Client, count: number): Promise<void> {
  await eventually(`${count} wait`, async () => (await show(replica)).waiterCount === count);
}
