/**
 * A reservation: a lock that is held until a time, by nobody's heartbeats (protocol C56, C57).
 *
 * Guarantee: it stands in the lock's ordinary line, in order of arrival, and while it holds nobody else does, whether
 *   through Postern or Curator. It ends at its time on the ensemble's clock, never earlier and at most two seconds
 *   later, as long as one replica is connected; or earlier by its token, or by an administrator. While it only waits it
 *   goes with its request: when nobody asks for it any more, it leaves the line.
 * Not guaranteed: that whoever made it still needs it. That is the price of holding without a heartbeat.
 *
 * Layout, both persistent:
 *   <root>/reservations/<namespace>/<id>                       what was asked, and until when it stands: the truth, and
 *                                                              the list that every replica watches (`watch.ts`)
 *   <root>/ns/<namespace>/locks/<name>/_c_<guid>-lock-<sequence>    its place in line, an ordinary contender but for
 *                                                              its mode
 *
 *   wanted ──its place is granted, one transaction──▶ standing ──time, token, administrator: one transaction──▶ gone
 *     └── its lease has ended: any replica removes place and node ─────────────────────────────────────────────▲
 *
 * Why the place is persistent from the beginning, and not made so by the grant: whoever stands behind it believes that
 * nobody ever comes to stand before it who was not there (`line/line.ts`), and waits for that one node to go. A node
 * that is deleted and made anew would let it through; and the czxid, which is the fencing token, would be later than
 * those of the places behind it. So the place keeps its node, and its life is bound to a lease by its *record*: the
 * request takes a lease that nobody else knows, and keeps it alive as long as it waits. A record without `until` whose
 * lease has no node any more is dead, whatever its place says.
 *
 * Reading order: this, `reserve.ts`, `change.ts`, `free.ts`, `watch.ts`.
 */
import { createHash } from 'node:crypto';
import { requestGuid } from '../../leases/lease.js';
import { baseName } from '../../zookeeper/paths.js';
import { expectKnown, type KnownFields } from '../known-record.js';
import { encodeRecord, newAttempt, ownHoldId } from '../line/contender.js';

export interface ReservationRecord {
  name: string;
  principal: string;
  owner: string;
  reason?: string | undefined;
  /** What is kept with it for whoever made it in another protocol, and shown in that one only. */
  details?: string | undefined;
  requestId: string;
  /** To which it is bound while it is wanted; later it only tells who stood in line. */
  leaseId: string;
  /** In the name of its place in line. */
  guid: string;
  /** While it is wanted: the sealed token, with which a repeated request goes on. */
  leaseToken?: string | undefined;
  /** While it is wanted: its request has given up, and its lease is about to end. */
  condemned?: boolean | undefined;
  /** Once it stands. */
  standing?: Standing | undefined;
}

export interface Standing {
  /** Of its place in line, and which incarnation of it: the fencing token. */
  path: string;
  czxid: number;
  /** Epoch ms on the ensemble's clock. */
  since: number;
  until: number;
}

export type StandingRecord = ReservationRecord & { standing: Standing };

export function isStanding(record: ReservationRecord): record is StandingRecord {
  return record.standing !== undefined;
}

export function encodeReservation(record: ReservationRecord): Buffer {
  return Buffer.from(JSON.stringify(record));
}

const KNOWN_RESERVATION: KnownFields<ReservationRecord> = {
  name: true,
  principal: true,
  owner: true,
  reason: true,
  details: true,
  requestId: true,
  leaseId: true,
  guid: true,
  leaseToken: true,
  condemned: true,
  standing: true,
};
const KNOWN_STANDING: KnownFields<Standing> = { path: true, czxid: true, since: true, until: true };

/** Of which lock it is, whichever release has written it. @returns undefined for what is none of ours */
export function reservedName(data: Buffer): string | undefined {
  const name: unknown = parse(data)?.name;
  return typeof name === 'string' ? name : undefined;
}

/**
 * @returns undefined for what is none of ours
 * @throws NewerRecordError
 */
export function decodeReservation(data: Buffer): ReservationRecord | undefined {
  const record = parse(data);
  if (typeof record?.name !== 'string' || typeof record.leaseId !== 'string') return undefined;
  const what = `the reservation of "${record.name}"`;
  if (record.standing !== undefined) expectKnown(what, record.standing, KNOWN_STANDING);
  return expectKnown(what, record, KNOWN_RESERVATION);
}

function parse(data: Buffer): ReservationRecord | undefined {
  try {
    return JSON.parse(data.toString('utf8')) as ReservationRecord;
  } catch {
    return undefined;
  }
}

/**
 * The data of its place in line, once it stands; also where somebody has written over them.
 * @param attempt whoever's answer is lost knows by it what it wrote
 */
export function placeOf(id: string, record: StandingRecord, attempt = newAttempt()): Buffer {
  const { leaseId, principal, owner, reason, requestId, standing } = record;
  return encodeRecord({
    state: 'granted',
    attempt,
    leaseId,
    principal,
    label: owner,
    requestId,
    grantedAt: standing.since,
    reservation: { id, owner, reason, until: standing.until },
  });
}

export function holdOf({ standing: { path, czxid } }: StandingRecord): { holdId: string; fencingToken: number } {
  return { holdId: ownHoldId(baseName(path), czxid) as string, fencingToken: czxid };
}

/** Begins with whose it is, so that a listing is enough to count. */
export function reservationId(principal: string, namespace: string, name: string, requestId: string): string {
  return `${principalPart(principal)}.${requestGuid(principal, namespace, 'reservation', name, requestId)}`;
}

export function isOf(id: string, principal: string): boolean {
  return id.startsWith(`${principalPart(principal)}.`);
}

function principalPart(principal: string): string {
  return createHash('sha256').update(principal).digest('hex').slice(0, 8);
}
