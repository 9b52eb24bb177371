/**
 * Extends and releases a reservation, for whoever has its token (protocol C58). Each is one transaction over record and
 * place, at the versions that were read; begun again where somebody else wrote in between, or its answer was lost.
 *
 * An extension never shortens: the end becomes the later of what it is and what is asked for. So it can be repeated,
 * and a late one takes nothing back. A release at the end of its time, or after a break, finds nothing: `not-holder`.
 */
import { NotHolderError } from '../../errors.js';
import type { ReservationClaim } from '../../leases/reservation-token.js';
import type { Awaited } from '../../time.js';
import type { BoundClient } from '../../zookeeper/bound.js';
import { preciseClock } from '../../zookeeper/ensemble-time.js';
import { unless } from '../../zookeeper/errors.js';
import { AGAIN, persisting } from '../../zookeeper/retrying.js';
import type { Coordination } from '../coordination.js';
import { freeAt } from './free.js';
import { decodeReservation, encodeReservation, isStanding, placeOf, type StandingRecord } from './reservation.js';

/** A standing reservation, as it was read. */
interface Found {
  path: string;
  record: StandingRecord;
  version: number;
  placeVersion: number;
}

/**
 * @param forMs from now on
 * @throws NotHolderError when it has ended; NoReplyError, ClientGoneError
 */
export async function extend(
  context: Coordination,
  claim: ReservationClaim,
  forMs: number,
  { deadline, requester }: Awaited,
): Promise<StandingRecord> {
  const zk = context.control.writingFor(requester).until(deadline);
  const until = Math.ceil((await preciseClock(context, deadline)).latest() + forMs);
  const extended = await persisting('the extension of the reservation', deadline, async () => {
    const found = await find(context, zk, claim);
    if (found === undefined) throw ended(claim);
    const { path, record, version, placeVersion } = found;
    const { standing } = record;
    // Written also where it stands for longer already: a release that was given up is refused then (protocol C35).
    const later: StandingRecord = { ...record, standing: { ...standing, until: Math.max(standing.until, until) } };
    const writing = zk.multi([
      { type: 'setData', path, data: encodeReservation(later), version },
      { type: 'setData', path: standing.path, data: placeOf(claim.id, later), version: placeVersion },
    ]);
    return (await unless(writing, 'NO_NODE', 'BAD_VERSION')) === undefined ? AGAIN : later;
  });
  context.metrics.reservationsTotal.inc({ outcome: 'extended' });
  return extended;
}

/** @throws NotHolderError when it has ended; NoReplyError, ClientGoneError */
export async function release(
  context: Coordination,
  claim: ReservationClaim,
  { deadline, requester }: Awaited,
): Promise<void> {
  const zk = context.control.writingFor(requester).until(deadline);
  await persisting('the release of the reservation', deadline, async (maybeApplied) => {
    const found = await find(context, zk, claim);
    if (found === undefined) {
      if (maybeApplied) return;
      throw ended(claim);
    }
    return (await freeAt(zk, found.path, found.record.standing, found.version)) ? undefined : AGAIN;
  });
  context.metrics.reservationsTotal.inc({ outcome: 'released' });
}

/** The reservation of that id, if it stands; behind a quorum. @throws NoReplyError */
export async function findStanding(
  context: Coordination,
  namespace: string,
  id: string,
  deadline: number,
): Promise<StandingRecord | undefined> {
  return (await findById(context, context.control.until(deadline), namespace, id))?.record;
}

async function find(context: Coordination, zk: BoundClient, claim: ReservationClaim): Promise<Found | undefined> {
  const found = await findById(context, zk, claim.namespace, claim.id);
  return found?.record.standing.czxid === claim.fencingToken ? found : undefined;
}

/** Behind a quorum: what is refused must be so. */
async function findById(
  { layout }: Coordination,
  zk: BoundClient,
  namespace: string,
  id: string,
): Promise<Found | undefined> {
  const path = layout.reservation(namespace, id);
  return zk.fresh(async () => {
    const node = await zk.find(path);
    const record = node === undefined ? undefined : decodeReservation(node.data);
    if (node === undefined || record === undefined || !isStanding(record)) return undefined;
    const place = await zk.exists(record.standing.path);
    if (place?.czxid !== record.standing.czxid) return undefined;
    return { path, record, version: node.stat.version, placeVersion: place.version };
  });
}

function ended({ name }: ReservationClaim): NotHolderError {
  return new NotHolderError('lock', name, 'reservationToken');
}
