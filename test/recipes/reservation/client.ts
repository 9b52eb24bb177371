/** What tests of reservations say to a replica. */
import { randomUUID } from 'node:crypto';
import type { CallOptions, Client, Reply } from '../../support/http/client.js';
import { scaled } from '../../support/timing.js';

export interface Reserved {
  reservedUntil: string;
  reservationToken: string;
  holdId: string;
  fencingToken: number;
  requestId: string;
  alreadyHeld: boolean;
}

/** The ensemble's clock is this machine's, known to within half a round trip, which a busy machine makes long. */
export const CLOCK_MS = scaled(200);

/** Long enough that it does not end within a test. */
export const LONG_MS = 3_600_000;

export function tryToReserve(
  replica: Client,
  name: string,
  body: Record<string, unknown> = {},
  options: CallOptions = {},
): Promise<Reply> {
  return replica.call('POST', `/v1/locks/${name}/reserve`, {
    ...options,
    body: { forMs: LONG_MS, owner: 'ann', ...body },
  });
}

/** Reserves, and fails the test when that is refused. */
export async function reserved(
  replica: Client,
  name: string,
  body: Record<string, unknown> = {},
  options: CallOptions = {},
): Promise<Reserved> {
  const { status, body: answer } = await tryToReserve(replica, name, body, options);
  if (status !== 200) throw new Error(`not reserved: ${JSON.stringify(answer)}`);
  return answer as Reserved;
}

export function extendBy(
  replica: Client,
  name: string,
  { reservationToken }: Pick<Reserved, 'reservationToken'>,
  forMs: number,
): Promise<Reply> {
  return replica.call('POST', `/v1/locks/${name}/reservation/extend`, { body: { reservationToken, forMs } });
}

export function giveBack(
  replica: Client,
  name: string,
  { reservationToken }: Pick<Reserved, 'reservationToken'>,
): Promise<Reply> {
  return replica.call('POST', `/v1/locks/${name}/reservation/release`, { body: { reservationToken } });
}

export function newRequestId(): string {
  return randomUUID();
}

interface Shown {
  holders: { leaseId: string | null; reservation?: { owner: string; reason: string | null; until: string } }[];
  waiterCount: number;
}

export async function isFree(replica: Client, name: string): Promise<boolean> {
  const { holders, waiterCount } = (await replica.showLock(name)) as Shown;
  return holders.length === 0 && waiterCount === 0;
}

/** As whoever looks at the lock sees it. */
export async function reservationOf(replica: Client, name: string): Promise<Shown['holders'][number] | undefined> {
  return ((await replica.showLock(name)) as Shown).holders[0];
}
