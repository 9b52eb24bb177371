/**
 * Reserves a lock: lines up under a lease of its own, and turns the hold into a reservation.
 *
 * Step by step, and what a crash after each leaves (protocol C56):
 *
 * 1. *Want*: take a lease that nobody else knows, and in one transaction check that lease's node and make the record,
 *    with the sealed token. A repeated request finds the record and goes on with its lease, at any replica; of two at
 *    once the second finds the first's record, and ends its own lease. A crash leaves a record whose lease lapses.
 * 2. *Line up and wait*, as any acquire (`line/acquire.ts`), with a persistent place. The lease's session makes it
 *    behind the lease's fence, so nothing makes one once the lease has ended (C46). A crash leaves place and record,
 *    and the lease lapses: any replica removes both (`free.ts`). At most a TTL and some ticks is lost for those behind.
 * 3. *Stand*: when the place is granted, one transaction writes into record and place until when, each at the version
 *    that was read. From here on the lease does not matter. If another replica takes the lease for dead at that very
 *    moment, ZooKeeper orders the two: either nothing is left to be written, or nothing to be removed.
 * 4. *Let go of the lease*. A crash leaves it to lapse.
 * 5. *Answer*. Where it cannot be delivered, place and record are deleted at the versions of step 3. A repeated request
 *    that finds the reservation raises the version of the record before it is answered, and so keeps it.
 *
 * A lost answer to 1 or 3 is found by reading the record again. Whoever goes on with a record that it finds raises its
 * version first; whoever gives up condemns the record at the version it knows, and ends the lease only then. So a
 * repeated request is left alone, or finds the record condemned, and begins anew.
 */
import { ClientGoneError, LeaseExpiredError, PosternError, StandingConflictError } from '../../errors.js';
import type { Lease } from '../../leases/lease.js';
import { endReason, fullJitter, pause, type Caller } from '../../time.js';
import type { BoundClient } from '../../zookeeper/bound.js';
import { preciseClock } from '../../zookeeper/ensemble-time.js';
import { isReason, isTransient, unless } from '../../zookeeper/errors.js';
import type { NodeData } from '../../zookeeper/operations.js';
import { parentOf } from '../../zookeeper/paths.js';
import { AGAIN, persisting, retrying } from '../../zookeeper/retrying.js';
import type { Coordination } from '../coordination.js';
import type { Granted, NotGranted } from '../line/acquire.js';
import { decodeHoldId, decodeRecord, holdNodeName, newAttempt, type Hold } from '../line/contender.js';
import { leavesNothing } from '../line/join/join.js';
import { acquireLine } from '../line/request.js';
import type { ReservationBounds } from './bounds.js';
import { freeAt, freeIfDue } from './free.js';
import {
  decodeReservation,
  encodeReservation,
  isStanding,
  placeOf,
  reservationId,
  type ReservationRecord,
  type StandingRecord,
} from './reservation.js';

export interface ReserveLock {
  namespace: string;
  principal: string;
  name: string;
  /** Finds the reservation again; made up here if the caller gave none (`isAnonymous`). */
  requestId: string;
  /** Nobody can repeat the request: what it is not told of, nobody ever will be. */
  isAnonymous: boolean;
  owner: string;
  reason: string | undefined;
  /** See `ReservationRecord`. */
  details?: string | undefined;
  forMs: number;
  waitMs: number;
  keepPlace: boolean;
  receivedAt: number;
  hardDeadline: number;
  requester: Caller;
}

export type Reserved = {
  held: true;
  id: string;
  record: StandingRecord;
  waitedMs: number;
  /** An earlier try of this request made it. */
  alreadyHeld: boolean;
  /** Gives it back because the client was not told of it. */
  undelivered: () => void;
};

/** A record as it was read or written, with what it is bound to. */
interface Wanted {
  record: ReservationRecord;
  lease: Lease;
  /** Of the record. */
  version: number;
  /** Once it was asked to stand: by which attempt, as its place tells, and at which version. */
  asked?: { readonly attempt: string; readonly at: number };
}

/**
 * Of its lease while it waits, unless the ensemble allows none so short: a replica that dies blocks the line for no
 * longer, and whoever repeats the request has that long.
 */
const WAITING_TTL_MS = 10_000;
const BACK_OFF_BASE_MS = 5;
const BACK_OFF_CAP_MS = 200;
const BACKGROUND_MS = 10_000;

/** @throws PosternError `conflict`, `too-many-reservations`, `too-many-leases`; NoReplyError, ClientGoneError */
export async function reserve(
  context: Coordination,
  bounds: ReservationBounds,
  request: ReserveLock,
): Promise<Reserved | NotGranted> {
  return new Reserving(context, bounds, request).run();
}

class Reserving {
  readonly #context: Coordination;
  readonly #bounds: ReservationBounds;
  readonly #request: ReserveLock;
  readonly #id: string;
  readonly #path: string;

  constructor(context: Coordination, bounds: ReservationBounds, request: ReserveLock) {
    const { principal, namespace, name, requestId } = request;
    this.#context = context;
    this.#bounds = bounds;
    this.#request = request;
    this.#id = reservationId(principal, namespace, name, requestId);
    this.#path = context.layout.reservation(namespace, this.#id);
  }

  async run(): Promise<Reserved | NotGranted> {
    for (let attempt = 0; ; attempt += 1) {
      const wanted = await this.#want();
      if ('held' in wanted) return wanted;
      try {
        const result = await acquireLine(this.#context, wanted.lease, this.#acquire());
        if (!result.held) {
          if (!this.#keeps(result)) this.#forget(wanted);
          return result;
        }
        const reserved = await this.#stand(wanted, result);
        if (reserved !== undefined) return reserved;
      } catch (error) {
        const { namespace, hardDeadline, isAnonymous, keepPlace } = this.#request;
        if (!(error instanceof LeaseExpiredError)) {
          // Nobody will ever come back for it, nobody asked that it be kept, or there is no place to come back to.
          if (isAnonymous || (error instanceof ClientGoneError && !keepPlace) || leavesNothing(error))
            this.#forget(wanted);
          throw error;
        }
        // The place went with it; what is left of it is removed, and the request lines up anew while it has time.
        await retrying(hardDeadline, () => freeIfDue(this.#context, namespace, this.#id, hardDeadline));
      }
      await this.#backOff(attempt);
    }
  }

  /** Whether the place stays in line, for the same request to come back to. */
  #keeps({ why }: NotGranted): boolean {
    return why === 'kept' || why === 'draining' || (why === 'client-gone' && this.#request.keepPlace);
  }

  /** Step 1: finds the record, or makes it. @returns the reservation where it stands already */
  async #want(): Promise<Wanted | Reserved> {
    const { hardDeadline, requester, namespace, principal, owner } = this.#request;
    const { control, leases } = this.#context;
    const zk = control.writingFor(requester).until(hardDeadline);
    let own: { lease: Lease; leaseToken: string } | undefined;
    try {
      for (;;) {
        const node = await retrying(hardDeadline, () => zk.fresh(() => zk.find(this.#path)));
        if (node !== undefined) {
          const found = await this.#found(zk, node, own?.lease);
          if (found === undefined) continue;
          if ('lease' in found && found.lease === own?.lease) own = undefined;
          return found;
        }
        await this.#bounds.admit(namespace, principal, hardDeadline);
        own ??= await leases.create({ principal, namespace, usualTtlMs: WAITING_TTL_MS, label: owner }, hardDeadline);
        const made = await this.#make(zk, own);
        if (made === 'in-doubt') continue;
        const { lease } = own;
        own = undefined;
        if (made !== 'expired') return { record: made, lease, version: 0 };
      }
    } finally {
      // Where it is not known whether the record was made, a repetition may go on with it.
      if (own !== undefined) this.#forget({ lease: own.lease, version: 0 });
    }
  }

  /** @returns undefined when it has to be looked for again */
  async #found(zk: BoundClient, node: NodeData, own: Lease | undefined): Promise<Wanted | Reserved | undefined> {
    const record = decodeReservation(node.data);
    const { name, owner, hardDeadline } = this.#request;
    if (record === undefined)
      throw new StandingConflictError(`Somebody has written over the reservation at ${this.#path}.`);
    if (record.owner !== owner)
      throw new StandingConflictError(
        `This requestId has been used to reserve "${name}" for "${record.owner}", not "${owner}": every request sends one of its own, made at random.`,
        { owner: record.owner },
      );
    if (isStanding(record)) return this.#repeated(zk, node, record);
    const kept =
      record.leaseId === own?.leaseId
        ? { lease: own, leaseToken: record.leaseToken }
        : await this.#context.leases.openKept(record.leaseToken ?? '', hardDeadline);
    if (kept === undefined)
      throw new PosternError(
        'conflict',
        `An earlier request with this requestId waits for "${name}" under a key that this gateway does not have; it leaves the line soon. Repeat the request in a while.`,
      );
    const { lease, leaseToken } = kept;
    const { version } = node.stat;
    if (record.condemned === true) {
      await this.#end(lease, hardDeadline);
      return undefined;
    }
    // Whoever waits through a change of keys comes back to it when the old one is gone.
    const renewed = { ...record, leaseToken };
    const raised = await retrying(hardDeadline, () =>
      unless(zk.set(this.#path, encodeReservation(renewed), version), 'NO_NODE', 'BAD_VERSION'),
    );
    return raised && { record: renewed, lease, version: raised.version };
  }

  async #end(lease: Lease, deadline: number): Promise<void> {
    await this.#context.leases.end(lease, deadline);
    await freeIfDue(this.#context, this.#request.namespace, this.#id, deadline);
  }

  /** Answers a repeated request, once nobody can give the reservation back any more because of the first. */
  async #repeated(zk: BoundClient, node: NodeData, record: StandingRecord): Promise<Reserved | undefined> {
    const { path, czxid } = record.standing;
    const place = await zk.exists(path);
    const again = (): Promise<undefined> => Promise.resolve(undefined);
    const { version } = node.stat;
    if (place?.czxid !== czxid) {
      await unless(zk.remove(this.#path, version), 'NO_NODE', 'BAD_VERSION');
      return again();
    }
    const raised = await unless(zk.set(this.#path, node.data, version), 'NO_NODE', 'BAD_VERSION');
    return raised === undefined ? again() : this.#reserved(record, 0, true, () => undefined);
  }

  /** @returns `in-doubt`: it is there by now, of whomever, or may be; `expired`: the lease has ended */
  async #make(
    zk: BoundClient,
    { lease, leaseToken }: { lease: Lease; leaseToken: string },
  ): Promise<ReservationRecord | 'in-doubt' | 'expired'> {
    const { namespace, principal, name, owner, reason, details, requestId } = this.#request;
    const { leaseId } = lease;
    const guid = lease.guid('lock', name, requestId);
    const record: ReservationRecord = {
      ...{ name, principal, owner, reason, details, requestId },
      ...{ leaseId, guid, leaseToken },
    };
    try {
      await zk.multi([
        { type: 'create', path: this.#path, data: encodeReservation(record) },
        { type: 'check', path: this.#context.layout.lease(namespace, leaseId) },
      ]);
      return record;
    } catch (error) {
      if (isReason(error, 'NODE_EXISTS') || isTransient(error)) return 'in-doubt';
      if (!isReason(error, 'NO_NODE')) throw error;
      if (error.failedIndex === 1) return 'expired';
      await zk.ensure(parentOf(this.#path));
      return 'in-doubt';
    }
  }

  #acquire(): Parameters<typeof acquireLine>[2] {
    const { name, requestId, waitMs, keepPlace, receivedAt, hardDeadline, requester, owner, reason } = this.#request;
    return {
      kind: 'lock',
      mode: 'exclusive',
      name,
      requestId,
      waitMs,
      keepPlace,
      data: undefined,
      reservation: { id: this.#id, owner, reason },
      receivedAt,
      hardDeadline,
      requester,
    };
  }

  /**
   * Steps 3 and 4: writes until when it stands, and lets go of the lease.
   * @returns undefined when the hold was lost again, or is to be looked for as a repeated request does
   */
  async #stand(wanted: Wanted, granted: Granted): Promise<Reserved | undefined> {
    const { forMs, hardDeadline, namespace, name, requester } = this.#request;
    const { control, layout, granted: holds, metrics } = this.#context;
    const path = `${layout.line('lock', namespace, name)}/${holdNodeName(decodeHoldId(granted.holdId) as Hold)}`;
    const place = { path, czxid: granted.fencingToken };
    const clock = await preciseClock(this.#context, hardDeadline);
    const standing = { ...place, since: Math.round(clock.now()), until: Math.ceil(clock.latest() + forMs) };
    const zk = control.writingFor(requester).until(hardDeadline);
    const stood = await persisting('the reservation', hardDeadline, () => this.#write(zk, wanted, standing));
    if (stood === undefined) return undefined;
    const { lease } = wanted;
    holds.forget(path, lease.leaseId);
    endQuietly(this.#context, lease);
    if (stood === 'stood-before') return undefined;
    metrics.reservationsTotal.inc({ outcome: 'reserved' });
    return this.#reserved(stood.record, granted.waitedMs, false, () => this.#giveBack(stood.record, stood.version));
  }

  async #write(
    zk: BoundClient,
    wanted: Wanted,
    standing: StandingRecord['standing'],
  ): Promise<{ record: StandingRecord; version: number } | 'stood-before' | undefined | typeof AGAIN> {
    await zk.sync(this.#path);
    const [node, place] = await Promise.all([zk.find(this.#path), zk.find(standing.path)]);
    const record = node === undefined ? undefined : decodeReservation(node.data);
    if (node === undefined || record?.leaseId !== wanted.lease.leaseId || place?.stat.czxid !== standing.czxid)
      return undefined;
    const { version } = node.stat;
    if (isStanding(record)) {
      if (record.standing.czxid !== standing.czxid) return undefined;
      // An earlier try of this write has done it; or a repeated request, whose client may have been told of it.
      return this.#isUntold(wanted, place, version) ? { record, version } : 'stood-before';
    }
    if (decodeRecord(place.data)?.state === 'waiting') return undefined;
    const asked = (wanted.asked = { attempt: wanted.asked?.attempt ?? newAttempt(), at: version });
    const { leaseToken: _, condemned: __, ...rest } = record;
    const stands: StandingRecord = { ...rest, standing };
    const writing = zk.multi([
      { type: 'setData', path: this.#path, data: encodeReservation(stands), version },
      {
        type: 'setData',
        path: standing.path,
        data: placeOf(this.#id, stands, asked.attempt),
        version: place.stat.version,
      },
    ]);
    const written = await unless(writing, 'NO_NODE', 'BAD_VERSION');
    return written === undefined ? AGAIN : { record: stands, version: version + 1 };
  }

  /** Whether `wanted` was made to stand here, and no repeated request has been there since. */
  #isUntold({ asked }: Pick<Wanted, 'asked'>, place: NodeData | undefined, version: number): boolean {
    const attempt = place === undefined ? undefined : decodeRecord(place.data)?.attempt;
    const isOwn = asked !== undefined && attempt === asked.attempt && version === asked.at + 1;
    return isOwn || this.#request.isAnonymous;
  }

  #reserved(record: StandingRecord, waitedMs: number, alreadyHeld: boolean, undelivered: () => void): Reserved {
    return { held: true, id: this.#id, record, waitedMs, alreadyHeld, undelivered };
  }

  #giveBack({ standing }: StandingRecord, version: number): void {
    const { cleanup, control, metrics } = this.#context;
    cleanup.persist(async () => {
      const zk = control.until(performance.now() + BACKGROUND_MS);
      if (await freeAt(zk, this.#path, standing, version)) metrics.reservationsTotal.inc({ outcome: 'undelivered' });
    });
  }

  /** Nothing comes of it: lease, record and place go, unless a repeated request goes on with them. */
  #forget(wanted: Omit<Wanted, 'record'>): void {
    const { cleanup, control } = this.#context;
    cleanup.persist(async () => {
      const deadline = performance.now() + BACKGROUND_MS;
      if (await this.#condemn(control.until(deadline), wanted)) await this.#end(wanted.lease, deadline);
    });
  }

  /** @returns false when a repeated request goes on with it */
  async #condemn(zk: BoundClient, wanted: Omit<Wanted, 'record'>): Promise<boolean> {
    const { lease, version } = wanted;
    const node = await zk.fresh(() => zk.find(this.#path));
    const record = node === undefined ? undefined : decodeReservation(node.data);
    if (node === undefined || record?.leaseId !== lease.leaseId || record.condemned === true) return true;
    if (isStanding(record)) {
      // It has become one after all, and nobody was told of it.
      const { version: now } = node.stat;
      const place = await zk.find(record.standing.path);
      if (this.#isUntold(wanted, place, now)) await freeAt(zk, this.#path, record.standing, now);
      return true;
    }
    const condemned = encodeReservation({ ...record, condemned: true });
    return (await unless(zk.set(this.#path, condemned, version), 'NO_NODE', 'BAD_VERSION')) !== undefined;
  }

  async #backOff(attempt: number): Promise<void> {
    const { name, hardDeadline, requester } = this.#request;
    const ms = fullJitter(attempt, BACK_OFF_BASE_MS, BACK_OFF_CAP_MS);
    if (performance.now() + ms >= hardDeadline)
      throw new PosternError('conflict', `The place in line for "${name}" was lost; repeat the request.`);
    if ((await pause(ms, requester.signal)) === 'aborted')
      throw new PosternError(
        endReason(requester.signal) === 'draining' ? 'draining' : 'conflict',
        'The request was ended.',
      );
  }
}

/** Nobody has its token: when ZooKeeper cannot be told, it lapses. */
function endQuietly({ leases }: Coordination, lease: Lease): void {
  leases.end(lease, performance.now() + BACKGROUND_MS).catch(() => undefined);
}
