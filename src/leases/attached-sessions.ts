/**
 * The lease sessions to which this replica is connected: a bounded cache, never the truth.
 *
 * - `useRepeatedly` runs one piece of work on a lease's session, and attaches first if need be. Concurrent users of one
 *   lease share one connection and one attach.
 * - A connection without an answer for half the TTL is replaced: the leader might hear of requests on it too late to
 *   prolong the lease, but it hears of an attach at once (protocol C5).
 * - A connection that the server closed (the client went to another replica, or the lease ended) leaves the cache; the
 *   next use attaches again and finds out which it was.
 * - Only idle connections are evicted, least recently used first (protocol C15: evicting one with an operation in
 *   flight would turn that into a connection loss).
 * - The ensemble limits connections per client address (60 by default). When it refuses one, a fifth of the idle
 *   connections is closed and the cap drops below the number there was; above the cap, a session is attached for one
 *   use only. The cap grows back slowly. So replicas behind one address come to share what there is.
 */
import { EventEmitter } from 'node:events';
import { ClientGoneError, LeaseExpiredError } from '../errors.js';
import type { Metrics } from '../metrics/metrics.js';
import { fullJitter, pause, type Requester } from '../time.js';
import type { Ensemble } from '../zookeeper/client.js';
import { byDeadline } from '../zookeeper/by-deadline.js';
import {
  NoReplyError,
  SessionDeniedError,
  SessionTimeoutError,
  isReason,
  isTransient,
  mayBeApplied,
} from '../zookeeper/errors.js';
import { LeaseSession, wasRefused, type AttachOptions } from '../zookeeper/lease-session.js';
import { AttachedLease } from './attached-lease.js';
import type { Lease } from './lease.js';
import { Permits } from './permits.js';

/** Below ZooKeeper's accept queue of 50. */
const ATTACHES_IN_FLIGHT_MAX = 32;
const REFUSED_BASE_MS = 10;
const REFUSED_CAP_MS = 250;
const MOVED_BASE_MS = 2;
const MOVED_CAP_MS = 50;
/** Fraction of the TTL that an attach may take once nobody waits for it. */
const ATTACH_MAX = 1 / 2;
const SHRINK_TO = 0.8;
const GROW_EVERY_MS = 1_000;
const GROW_BY = 1.05;
/** Evicted leases remembered, so that the metrics can tell "evicted here" from "used elsewhere". */
const EVICTED_REMEMBERED = 10_000;

export interface AttachedSessionsOptions {
  ensemble: Ensemble;
  /** The largest number of connections kept. */
  cap: number;
  /** Whether a lease is alive, according to a quorum. */
  isAlive: (lease: Lease, deadline: number) => Promise<boolean>;
  /** Path of a lease's own node. */
  nodeOf: (lease: Lease) => string;
  metrics: Metrics;
}

export class AttachedSessions {
  readonly #ensemble: Ensemble;
  readonly #metrics: Metrics;
  readonly #isAlive: AttachedSessionsOptions['isAlive'];
  readonly #nodeOf: AttachedSessionsOptions['nodeOf'];
  readonly #configuredCap: number;
  readonly #permits = new Permits(ATTACHES_IN_FLIGHT_MAX);
  /** By leaseId, least recently used first. */
  readonly #entries = new Map<string, AttachedLease>();
  readonly #evicted = new Set<string>();
  readonly #byPrincipal = new Map<string, number>();
  /** Emits a leaseId when its connection has gone. */
  readonly #detached = new EventEmitter().setMaxListeners(0);
  #onFirstRefusal: ((connections: number) => void) | undefined;
  #cap: number;
  #capChangedAt = performance.now();
  #attached = 0;
  #closed = false;

  constructor(options: AttachedSessionsOptions) {
    this.#ensemble = options.ensemble;
    this.#metrics = options.metrics;
    this.#isAlive = options.isAlive;
    this.#nodeOf = options.nodeOf;
    this.#configuredCap = options.cap;
    this.#cap = options.cap;
  }

  /** Number of connections now. */
  get size(): number {
    return this.#attached;
  }

  /** Number of connections for one principal's leases now. */
  sizeOf(principal: string): number {
    return this.#byPrincipal.get(principal) ?? 0;
  }

  /**
   * Runs `work` on the lease's session, and again on a new connection after one was lost. `attempt` is 0 the first
   * time; later the outcome of the earlier attempts is unknown, and `work` must read before it writes. What it reads
   * then is final: nothing that they were to create appears any more (protocol C46).
   * @throws LeaseExpiredError if the ensemble says that the lease has ended
   * @param requester the client: once it is gone, nothing more is written, and the lease is not taken from where it is
   *   used now
   * @param creates false: `work` creates nothing that the lease owns, so nothing is fenced off before a repetition
   * @throws NoReplyError if no connection could be made by `deadline` (nothing was done), or from `work`
   * @throws ClientGoneError
   */
  async useRepeatedly<T>(
    lease: Lease,
    deadline: number,
    work: (session: LeaseSession, attempt: number) => Promise<T>,
    requester?: Requester,
    creates = true,
  ): Promise<T> {
    let maybeApplied = false;
    let unfit: NoReplyError | undefined;
    for (let attempt = 0; ; attempt += 1) {
      if (requester?.gone === true) throw new ClientGoneError('the request');
      const entry = this.#entry(lease);
      entry.users += 1;
      let failure: unknown;
      try {
        const attached = this.#ready(entry, attempt) ?? (await this.#attachedAnew(entry, deadline, requester));
        const session = requester === undefined ? attached : attached.writingFor(requester);
        // What the earlier attempts sent is done by now, and can be read, or never will be.
        if (maybeApplied && creates) await session.raiseFence(deadline);
        return await work(session, attempt);
      } catch (error) {
        if (error instanceof LeaseExpiredError) this.#forget(entry);
        // The session moved to another server, and this one is useless: the next use attaches anew.
        if (isReason(error, 'SESSION_MOVED')) entry.session?.detach();
        failure = error;
      } finally {
        entry.users -= 1;
        this.#trim(entry);
      }
      if (failure instanceof LeaseExpiredError && maybeApplied) throw new LeaseExpiredError(failure, 'unknown');
      if (!isTransient(failure)) throw failure;
      maybeApplied ||= mayBeApplied(failure);
      if (failure instanceof NoReplyError && failure.cause instanceof SessionTimeoutError) unfit = failure;
      const backOff = fullJitter(attempt, MOVED_BASE_MS, MOVED_CAP_MS);
      if (this.#closed || performance.now() + backOff >= deadline) {
        if (maybeApplied)
          throw mayBeApplied(failure) ? failure : new NoReplyError('the request', 'connection-lost', true, failure);
        throw unfit ?? failure; // that a server is configured otherwise says more than that the time was over
      }
      await pause(backOff);
    }
  }

  /** Opens the session of a new lease; it enters the cache with `adopt`. */
  async open(options: AttachOptions): Promise<LeaseSession> {
    return this.#connected('new', options.deadline, () => LeaseSession.open(this.#ensemble, options));
  }

  /** Puts a session that `open` made for `lease` into the cache. */
  adopt(lease: Lease, session: LeaseSession): void {
    const entry = this.#entry(lease);
    session.keepUp();
    this.#keep(entry, session);
    this.#trim(entry);
  }

  /**
   * Ends the lease's session: everything it owns is freed. A lease that has already ended is fine.
   * @param requester the client, if others know the lease
   * @param before done first, on the same session and connection; it creates nothing that the lease owns. A close that
   *   waits at a server takes effect whatever has happened to the lease meanwhile: where that matters, `before` must be
   *   answered before the close is sent (protocol C35)
   * @throws ClientGoneError
   */
  async end(
    lease: Lease,
    deadline: number,
    requester?: Requester,
    before?: (session: LeaseSession) => Promise<void>,
  ): Promise<void> {
    const close = async (session: LeaseSession): Promise<void> => {
      await before?.(session);
      await session.close(deadline);
    };
    try {
      // Without the fence, the lease's own node: where that is gone already, the session may live all the same.
      await this.useRepeatedly(lease, deadline, close, requester, false);
    } catch (error) {
      if (!(error instanceof LeaseExpiredError)) throw error;
    }
    const entry = this.#entries.get(lease.leaseId);
    if (entry !== undefined) this.#forget(entry);
  }

  /** Drops all connections and keeps all sessions alive: their clients continue at other replicas. */
  detachAll(): void {
    this.#closed = true;
    for (const entry of [...this.#entries.values()]) this.#forget(entry);
  }

  #entry(lease: Lease): AttachedLease {
    const known = this.#entries.get(lease.leaseId);
    if (known !== undefined) {
      this.#entries.delete(lease.leaseId);
      this.#entries.set(lease.leaseId, known);
      return known;
    }
    const entry = new AttachedLease(lease);
    this.#entries.set(lease.leaseId, entry);
    return entry;
  }

  #ready(entry: AttachedLease, attempt: number): LeaseSession | undefined {
    const { session } = entry;
    if (session === undefined || session.ended) return undefined;
    if (!session.overdue) return session;
    // Not while operations are in flight; a caller that needs the promise sees that it was not given, and retries.
    if (session.inFlight > 0 && attempt === 0) return session;
    entry.overdue = true;
    this.#setSession(entry, undefined);
    session.detach();
    return undefined;
  }

  async #attachedAnew(entry: AttachedLease, deadline: number, requester?: Requester): Promise<LeaseSession> {
    if (entry.yielding !== undefined) {
      await byDeadline(entry.yielding, deadline, 'the attach of the lease');
      if (requester?.gone === true) throw new ClientGoneError('the request');
    }
    return this.#attaching(entry, deadline);
  }

  #attaching(entry: AttachedLease, deadline: number): Promise<LeaseSession> {
    // It continues after its users have left: a lease whose heartbeat was answered 503 is attached, and so kept, all
    // the same.
    const until = Math.max(deadline, performance.now() + entry.lease.ttlMs * ATTACH_MAX);
    entry.attaching ??= this.#attach(entry, until).finally(() => {
      entry.attaching = undefined;
      this.#trim(entry);
    });
    return byDeadline(entry.attaching, deadline, 'the attach of the lease');
  }

  async #attach(entry: AttachedLease, deadline: number): Promise<LeaseSession> {
    const { lease } = entry;
    const reason = this.#evicted.delete(lease.leaseId) ? 'evicted' : entry.overdue ? 'overdue' : 'moved';
    entry.overdue = false;
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
      throw error instanceof LeaseExpiredError ? await this.#proven(lease, error, deadline) : error;
    }
  }

  /**
   * One server's word that a lease has ended is proven by its node, which a quorum has as long as the session (protocol
   * C44).
   */
  async #proven(lease: Lease, error: LeaseExpiredError, deadline: number): Promise<Error> {
    if (!(await this.#isAlive(lease, deadline))) {
      this.#metrics.leasesExpiredTotal.inc();
      return error;
    }
    const { cause } = error;
    if (cause instanceof SessionDeniedError) this.#ensemble.order.setAside(cause.server, cause);
    return new NoReplyError('the attach of the lease', 'not-connected', false, cause);
  }

  /** Makes one connection, once there is a permit for it; if the ensemble refuses it, makes room and tries again. */
  async #connected(
    reason: 'new' | 'moved' | 'evicted' | 'overdue',
    deadline: number,
    connect: () => Promise<LeaseSession>,
  ): Promise<LeaseSession> {
    for (let attempt = 0; ; attempt += 1) {
      // An existing lease has somebody who keeps it alive; a new one can wait.
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

  #keep(entry: AttachedLease, session: LeaseSession): void {
    session.fencedBy(this.#nodeOf(entry.lease));
    if (this.#closed) session.detach();
    this.#setSession(entry, session);
    session.onEnded(() => {
      if (entry.session !== session) return;
      this.#setSession(entry, undefined);
      if (entry.users === 0) this.#drop(entry);
      else entry.yieldTurn(() => this.#trim(entry));
    });
  }

  /** Called when a use is over: connections above the cap are dropped. */
  #trim(entry: AttachedLease): void {
    if (entry.session === undefined && entry.users === 0) this.#drop(entry);
    this.#grow();
    if (this.#attached > this.#cap) this.#evict(this.#attached - this.#cap);
  }

  /** Calls `listener` when the lease has no connection, now or later, until the returned function is called. */
  onDetached({ leaseId }: Lease, listener: () => void): () => void {
    this.#detached.on(leaseId, listener);
    if (this.#entries.get(leaseId)?.session?.ended !== false) listener();
    return () => void this.#detached.off(leaseId, listener);
  }

  /** Calls `listener` once, with the number of connections there were when the ensemble first refused another one. */
  onFirstRefusal(listener: (connections: number) => void): void {
    this.#onFirstRefusal = listener;
  }

  /** The ensemble allows no more connections from this address: drops some idle ones. */
  makeRoom(): void {
    const attached = this.#attached;
    if (attached === 0) return; // not our connections are too many: the server does not serve
    this.#onFirstRefusal?.(attached);
    this.#onFirstRefusal = undefined;
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

  /** Removes it from the cache: the connection is dropped, the session lives on. */
  #forget(entry: AttachedLease): void {
    const session = entry.session;
    this.#setSession(entry, undefined);
    this.#drop(entry);
    session?.detach();
  }

  #drop(entry: AttachedLease): void {
    if (entry.idle && this.#entries.get(entry.lease.leaseId) === entry) this.#entries.delete(entry.lease.leaseId);
  }

  #setSession(entry: AttachedLease, session: LeaseSession | undefined): void {
    const change = Number(session !== undefined) - Number(entry.session !== undefined);
    this.#attached += change;
    const { principal } = entry.lease;
    const ofPrincipal = this.sizeOf(principal) + change;
    if (ofPrincipal === 0) this.#byPrincipal.delete(principal);
    else this.#byPrincipal.set(principal, ofPrincipal);
    entry.session = session;
    this.#metrics.leasesAttached.set(this.#attached);
    if (change < 0) this.#detached.emit(entry.lease.leaseId);
  }
}
