/**
 * Frees a reservation whose time has come, and removes one that nobody wants any more (protocol C57): any number of
 * replicas may try at once, and one of them does it.
 *
 * *Never early*: what is compared with `until` is the earliest time that the ensemble's clock may show, known to some
 * ten milliseconds, and `until` was counted from the latest. An extension raises the version of the record, and the
 * transaction that frees names that version.
 *
 * *What is dead*: the record says that it is wanted, and its lease has no node. The record was made in a transaction
 * that checked that node, and a server that shows the record has seen it; an ended lease never comes back. Its place
 * was made behind the lease's fence, so after the end of the lease there are no more places than a listing behind a
 * `sync` shows.
 *
 * *What is gone*: NO_NODE of the place of a standing record is proof, also from a lagging server: that record was
 * written after the place was made. Somebody broke it, or deleted it by hand.
 */
import type { BoundClient } from '../../zookeeper/bound.js';
import { preciseClock } from '../../zookeeper/ensemble-time.js';
import { isReason } from '../../zookeeper/errors.js';
import type { MultiOperation } from '../../zookeeper/operations.js';
import type { Coordination } from '../coordination.js';
import { guidOf } from '../line/contender.js';
import { ifKnown } from '../known-record.js';
import {
  decodeReservation,
  isStanding,
  type ReservationRecord,
  type Standing,
  type StandingRecord,
} from './reservation.js';

/** Everything that can get in between happens once: an extension, a release, another replica. */
const TRIES_MAX = 10;

/** @returns ms until it is due (Infinity: its lease lives), or undefined when nothing is left to be done */
export async function freeIfDue(
  context: Coordination,
  namespace: string,
  id: string,
  deadline: number,
): Promise<number | undefined> {
  const path = context.layout.reservation(namespace, id);
  const zk = context.control.until(deadline);
  for (let tries = 0; tries < TRIES_MAX; tries += 1) {
    const node = await zk.find(path);
    const record = node === undefined ? undefined : ifKnown(() => decodeReservation(node.data));
    if (node === undefined || record === undefined) return undefined;
    const { version } = node.stat;
    if (isStanding(record)) {
      const wait = await untilDue(context, record, deadline);
      if (wait > 0) return wait;
      if (await freeAt(zk, path, record.standing, version)) {
        countEnd(context, record);
        return undefined;
      }
    } else {
      if ((await zk.exists(context.layout.lease(namespace, record.leaseId))) !== undefined) return Infinity;
      const line = context.layout.line('lock', namespace, record.name);
      if (await all(zk, [{ type: 'delete', path, version }, ...(await placesOf(zk, line, record))])) {
        context.metrics.reservationsTotal.inc({ outcome: 'abandoned' });
        return undefined;
      }
    }
    await zk.sync(path);
  }
  return 0;
}

/**
 * Deletes record and place in one transaction; where the place is gone, the record.
 * @param version of the record
 * @returns false when the record has changed, or the place has: then nothing was done
 */
export async function freeAt(zk: BoundClient, path: string, standing: Standing, version: number): Promise<boolean> {
  const place = await zk.exists(standing.path);
  const stands = place?.czxid === standing.czxid;
  return all(zk, [
    { type: 'delete', path, version },
    ...(stands ? [{ type: 'delete' as const, path: standing.path, version: place.version }] : []),
  ]);
}

/** @returns whether it was done */
async function all(zk: BoundClient, operations: readonly MultiOperation[]): Promise<boolean> {
  try {
    await zk.multi(operations);
    return true;
  } catch (error) {
    if (isReason(error, 'NO_NODE', 'BAD_VERSION')) return false;
    throw error;
  }
}

/** The places of a record whose lease has ended: one, or two if a lost answer made its request create it twice. */
async function placesOf(zk: BoundClient, line: string, { guid }: ReservationRecord): Promise<MultiOperation[]> {
  await zk.sync(line);
  const names = (await zk.children(line)).filter((name) => guidOf(name) === guid);
  return names.map((name) => ({ type: 'delete', path: `${line}/${name}` }));
}

async function untilDue(context: Coordination, { standing }: StandingRecord, deadline: number): Promise<number> {
  return standing.until - (await preciseClock(context, deadline)).earliest();
}

function countEnd({ metrics, zooKeeperClock }: Coordination, { standing }: StandingRecord): void {
  metrics.reservationsTotal.inc({ outcome: 'ended' });
  metrics.reservationLateSeconds.observe(Math.max(0, zooKeeperClock.now() - standing.until) / 1_000);
}
