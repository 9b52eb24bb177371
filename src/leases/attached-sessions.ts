/**
 * The lease sessions that this replica has a connection for: a cache with a cap, never the truth.
 *
 * - `useRepeatedly` runs one piece of work on a lease's session and attaches first if need be. Concurrent users of one
 *   lease share one connection and one attach.
 * - A connection that was closed under us (the client went to another replica, or the lease ended) leaves the cache; the
 *   next use attaches again and finds out which it was.
 * - Only idle connections are ever evicted, least recently used first (protocol C15: an eviction under an
 *   operation in flight would turn it into a connection loss).
 * - The ensemble limits connections per client address (60 unless set). When it hangs up on us, a fifth of the
 *   idle connections goes and the cap shrinks below what we had; above the cap a session is attached for one use only.
 *   The cap grows back slowly. So replicas behind one address come to share what there is.
 */
import { LeaseExpiredError } from '../errors.js';
import type { Metrics } from '../metrics/metrics.js';
import { fullJitter, pause } from '../time.js';
import type { Ensemble } from '../zookeeper/client.js';
import { byDeadline } from '../zookeeper/by-deadline.js';
import { NoReplyError, isReason, isTransient, mayBeApplied } from '../zookeeper/errors.js';
import { LeaseSession, wasRefused } from '../zookeeper/lease-session.js';
import type { Lease } from './lease.js';
import { Permits } from './permits.js';

/** Below ZooKeeper's accept queue of 50. */
const ATTACHES_IN_FLIGHT_MAX = 32;
const REFUSED_BASE_MS = 10;
const REFUSED_CAP_MS = 250;
/** Retries after a move: two replicas used at once for one lease take it from each other, and jitter lets both get on. */
const MOVED_BASE_MS = 2;
const MOVED_CAP_MS = 50;
const SHRINK_TO = 0.8;
const GROW_EVERY_MS = 1_000;
const GROW_BY = 1.05;
/** Evicted leases remembered, to tell "evicted here" from "used elsewhere" in the metrics. */
const EVICTED_REMEMBERED = 10_000;

interface Attached {
  lease: Lease;
  session: LeaseSession | undefined;
  attaching: Promise<LeaseSession> | undefined;
  users: number;
}

export interface AttachedSessionsOptions {
  ensemble: Ensemble;
  /** Connections that are kept at most. */
  cap: number;
  metrics: Metrics;
}

export class AttachedSessions {
  readonly #ensemble: Ensemble;
  readonly #metrics: Metrics;
  readonly #configuredCap: number;
  readonly #permits = new Permits(ATTACHES_IN_FLIGHT_MAX);
  /** By leaseId, least recently used first. */
  readonly #entries = new Map<string, Attached>();
  readonly #evicted = new Set<string>();
  readonly #byPrincipal = new Map<string, number>();
  #cap: number;
  #capChangedAt = performance.now();
  #attached = 0;
  #closed = false;

  constructor(options: AttachedSessionsOptions) {
    this.#ensemble = options.ensemble;
    this.#metrics = options.metrics;
    this.#configuredCap = options.cap;
    this.#cap = options.cap;
  }

  /** Connections now. */
  get size(): number {
    return this.#attached;
  }

  /** Connections for the leases of one principal now. */
  sizeOf(principal: string): number {
    return this.#byPrincipal.get(principal) ?? 0;
  }

  /**
   * Runs `work` on the lease's session, and after a lost connection again on a new one. `attempt` is 0 the first time; later the outcome of
   * the earlier attempts is open, and `work` has to look before it writes.
   * @throws LeaseExpiredError when the ensemble says that the lease has ended
   * @throws NoReplyError when no connection could be made by `deadline` (nothing was done), or from `work`
   */
  async useRepeatedly<T>(
    lease: Lease,
    deadline: number,
    work: (session: LeaseSession, attempt: number) => Promise<T>,
  ): Promise<T> {
    let maybeApplied = false;
    for (let attempt = 0; ; attempt += 1) {
      const entry = this.#entry(lease);
      entry.users += 1;
      let failure: unknown;
      try {
        return await work(this.#ready(entry) ?? (await this.#attaching(entry, deadline)), attempt);
      } catch (error) {
        if (error instanceof LeaseExpiredError) this.#forget(entry);
        // It went to another server, and this one will not do: the next use attaches anew.
        if (isReason(error, 'SESSION_MOVED')) entry.session?.detach();
        failure = error;
      } finally {
        entry.users -= 1;
        this.#trim(entry);
      }
      if (!isTransient(failure)) throw failure;
      maybeApplied ||= mayBeApplied(failure);
      const backOff = fullJitter(attempt, MOVED_BASE_MS, MOVED_CAP_MS);
      if (this.#closed || performance.now() + backOff >= deadline) {
        throw maybeApplied && !mayBeApplied(failure)
          ? new NoReplyError('the request', 'connection-lost', true, failure)
          : failure;
      }
      await pause(backOff);
    }
  }

  /** Opens the session of a new lease. It is not in the cache until `adopt`. */
  async open(timeoutMs: number, affinity: number, deadline: number): Promise<LeaseSession> {
    return this.#connected('new', deadline, () => LeaseSession.open(this.#ensemble, { timeoutMs, affinity, deadline }));
  }

  /** Takes a session that `open` made for `lease` into the cache. */
  adopt(lease: Lease, session: LeaseSession): void {
    const entry = this.#entry(lease);
    this.#keep(entry, session);
    this.#trim(entry);
  }

  /** Ends the lease's session: everything it owns is freed. A lease that has ended already is fine. */
  async end(lease: Lease, deadline: number): Promise<void> {
    try {
      await this.useRepeatedly(lease, deadline, (session) => session.close(deadline));
    } catch (error) {
      if (!(error instanceof LeaseExpiredError)) throw error;
    }
    const entry = this.#entries.get(lease.leaseId);
    if (entry !== undefined) this.#forget(entry);
  }

  /** Drops all connections and keeps all sessions alive: the clients go on at other replicas. */
  detachAll(): void {
    this.#closed = true;
    for (const entry of [...this.#entries.values()]) this.#forget(entry);
  }

  #entry(lease: Lease): Attached {
    const known = this.#entries.get(lease.leaseId);
    if (known !== undefined) {
      this.#entries.delete(lease.leaseId);
      this.#entries.set(lease.leaseId, known);
      return known;
    }
    const entry: Attached = { lease, session: undefined, attaching: undefined, users: 0 };
    this.#entries.set(lease.leaseId, entry);
    return entry;
  }

  #ready({ session }: Attached): LeaseSession | undefined {
    return session === undefined || session.ended ? undefined : session;
  }

  #attaching(entry: Attached, deadline: number): Promise<LeaseSession> {
    // Made with the deadline of the first user: one with more time tries again through `useRepeatedly`, one with less leaves.
    entry.attaching ??= this.#attach(entry, deadline).finally(() => {
      entry.attaching = undefined;
      this.#trim(entry);
    });
    return byDeadline(entry.attaching, deadline, 'the attach of the lease');
  }

  async #attach(entry: Attached, deadline: number): Promise<LeaseSession> {
    const { lease } = entry;
    const reason = this.#evicted.delete(lease.leaseId) ? 'evicted' : 'moved';
    try {
      const session = await this.#connected(reason, deadline, () =>
        LeaseSession.attach(this.#ensemble, lease.identity, {
          timeoutMs: lease.ttlMs,
          affinity: lease.affinity,
          deadline,
        }),
      );
      this.#keep(entry, session);
      return session;
    } catch (error) {
      if (error instanceof LeaseExpiredError) this.#metrics.leasesExpiredTotal.inc();
      throw error;
    }
  }

  /** One connection, made when there is a permit for it; when the ensemble hangs up, room is made and it is tried again. */
  async #connected(
    reason: 'new' | 'moved' | 'evicted',
    deadline: number,
    connect: () => Promise<LeaseSession>,
  ): Promise<LeaseSession> {
    for (let attempt = 0; ; attempt += 1) {
      // A lease that is there has somebody who keeps it alive; a new one can wait.
      await this.#permits.acquire(deadline, reason !== 'new');
      try {
        const session = await connect();
        this.#metrics.leaseAttachesTotal.inc({ reason });
        return session;
      } catch (error) {
        if (!wasRefused(error)) throw error;
        this.makeRoom();
        const backOff = fullJitter(attempt, REFUSED_BASE_MS, REFUSED_CAP_MS);
        if (this.#closed || performance.now() + backOff >= deadline) throw error;
        await pause(backOff);
      } finally {
        this.#permits.release();
      }
    }
  }

  #keep(entry: Attached, session: LeaseSession): void {
    if (this.#closed) session.detach();
    this.#setSession(entry, session);
    session.onEnded(() => {
      if (entry.session !== session) return;
      this.#setSession(entry, undefined);
      if (entry.users === 0) this.#drop(entry);
    });
  }

  /** Called when a use is over: what is above the cap does not stay. */
  #trim(entry: Attached): void {
    if (entry.session === undefined && entry.users === 0) this.#drop(entry);
    this.#grow();
    if (this.#attached > this.#cap) this.#evict(this.#attached - this.#cap);
  }

  /** The ensemble has too many connections of ours: some of those that nobody uses now go. */
  makeRoom(): void {
    const attached = this.#attached;
    if (attached === 0) return; // not our connections are too many: the server does not serve
    this.#cap = Math.max(0, Math.min(this.#cap, Math.floor(attached * SHRINK_TO)));
    this.#capChangedAt = performance.now();
    this.#evict(Math.max(1, attached - this.#cap));
  }

  #grow(): void {
    if (this.#cap >= this.#configuredCap) return;
    const now = performance.now();
    if (now - this.#capChangedAt < GROW_EVERY_MS) return;
    this.#capChangedAt = now;
    this.#cap = Math.min(this.#configuredCap, Math.ceil(this.#cap * GROW_BY) + 1);
  }

  #evict(count: number): void {
    let remaining = count;
    for (const entry of this.#entries.values()) {
      if (remaining <= 0) return;
      if (entry.users > 0 || entry.session === undefined) continue;
      remaining -= 1;
      if (this.#evicted.size >= EVICTED_REMEMBERED) this.#evicted.clear();
      this.#evicted.add(entry.lease.leaseId);
      this.#forget(entry);
    }
  }

  /** Out of the cache; the connection is dropped, the session lives. */
  #forget(entry: Attached): void {
    const session = entry.session;
    this.#setSession(entry, undefined);
    this.#drop(entry);
    session?.detach();
  }

  #drop(entry: Attached): void {
    const idle = entry.users === 0 && entry.attaching === undefined;
    if (idle && this.#entries.get(entry.lease.leaseId) === entry) this.#entries.delete(entry.lease.leaseId);
  }

  #setSession(entry: Attached, session: LeaseSession | undefined): void {
    const change = Number(session !== undefined) - Number(entry.session !== undefined);
    this.#attached += change;
    const { principal } = entry.lease;
    const ofPrincipal = this.sizeOf(principal) + change;
    if (ofPrincipal === 0) this.#byPrincipal.delete(principal);
    else this.#byPrincipal.set(principal, ofPrincipal);
    entry.session = session;
    this.#metrics.leasesAttached.set(this.#attached);
  }
}
