/**
 * Reservations for the protocols of others (ADR 31), whose callers keep no token: they send what names them, each time.
 * So their `requestId` follows from that, and whoever sends it as the same principal finds the reservation again.
 */
import { isPosternError, type PosternError } from '../../../errors.js';
import type { ReservationClaim } from '../../../leases/reservation-token.js';
import type { Coordination } from '../../../recipes/coordination.js';
import type { ContenderView } from '../../../recipes/line/describe.js';
import { describeLine } from '../../../recipes/line/view.js';
import type { ReservationBounds } from '../../../recipes/reservation/bounds.js';
import { extend, findStanding, release } from '../../../recipes/reservation/change.js';
import { reservationId } from '../../../recipes/reservation/reservation.js';
import { reserve } from '../../../recipes/reservation/reserve.js';
import type { Exchange } from '../../frame/exchange.js';
import { lockHeld } from '../shared/lock-held.js';
import { withoutReservation } from './reservations.js';

/** Which reservation is meant. */
export interface Named {
  namespace: string;
  /** Of the lock. */
  name: string;
  requestId: string;
}

export interface Wanted extends Named {
  owner: string;
  reason: string;
  details?: string;
  forMs: number;
}

/** It was taken, unless somebody holds the lock; an earlier request may have done it. */
export type Taken =
  | { held: true; claim: ReservationClaim; isNew: boolean; undelivered: () => void }
  | { held: false; refusal: PosternError };

/** @throws PosternError as `reserve`, and `draining`; NoReplyError */
export async function take(
  context: Coordination,
  bounds: ReservationBounds,
  wanted: Wanted,
  exchange: Exchange,
): Promise<Taken> {
  // They ask again and again: who is refused leaves nothing to be written.
  if ((await standing(context, wanted, exchange)) === undefined) {
    const holder = await holderOf(context, wanted, exchange.deadline);
    const refused = { held: false, why: 'refused', position: 1, holder } as const;
    if (holder !== undefined) return { held: false, refusal: lockHeld({ kind: 'lock', name: wanted.name }, refused) };
  }
  const { receivedAt, deadline: hardDeadline, requester } = exchange;
  const result = await reserve(context, bounds, {
    ...{ ...wanted, principal: exchange.principal.id },
    ...{ isAnonymous: false, waitMs: 0, keepPlace: false, receivedAt, hardDeadline, requester },
  });
  if (result.held) {
    const { undelivered, id, record, alreadyHeld } = result;
    const claim = claimTo(wanted, exchange, id, record.standing.czxid);
    return { held: true, claim, isNew: !alreadyHeld, undelivered };
  }
  try {
    withoutReservation(wanted, result, exchange);
  } catch (error) {
    if (isPosternError(error, 'lock-held')) return { held: false, refusal: error };
    throw error;
  }
  throw new Error('a reservation that does not wait has no place');
}

/** @returns undefined unless it stands */
export async function standing(
  context: Coordination,
  named: Named,
  exchange: Exchange,
): Promise<ReservationClaim | undefined> {
  const { namespace, name, requestId } = named;
  const id = reservationId(exchange.principal.id, namespace, name, requestId);
  const record = await findStanding(context, namespace, id, exchange.deadline);
  return record && claimTo(named, exchange, id, record.standing.czxid);
}

/** @returns false when it has ended before */
export async function giveBack(context: Coordination, claim: ReservationClaim, exchange: Exchange): Promise<boolean> {
  return unlessEnded(release(context, claim, exchange));
}

/** @returns false when it has ended before */
export async function prolong(
  context: Coordination,
  claim: ReservationClaim,
  forMs: number,
  exchange: Exchange,
): Promise<boolean> {
  return unlessEnded(extend(context, claim, forMs, exchange));
}

export async function holderOf(
  context: Coordination,
  { namespace, name }: Pick<Named, 'namespace' | 'name'>,
  deadline: number,
): Promise<ContenderView | undefined> {
  return (await describeLine(context, { kind: 'lock', namespace, name }, deadline)).holders[0];
}

async function unlessEnded(change: Promise<unknown>): Promise<boolean> {
  try {
    await change;
    return true;
  } catch (error) {
    if (isPosternError(error, 'not-holder')) return false;
    throw error;
  }
}

function claimTo(
  { namespace, name }: Named,
  { principal }: Exchange,
  id: string,
  fencingToken: number,
): ReservationClaim {
  return { namespace, name, principal: principal.id, id, fencingToken };
}
