/**
 * The ZooKeeper session of a lease, while this replica is attached to it.
 *
 * - Nothing here keeps the session alive: no pings, no reconnect. Only requests do.
 * - `detach` drops the socket and leaves the session alive; `close` ends the session and frees all that it owns.
 * - When another replica attaches through the same server, the server closes this connection: `ended` becomes true,
 *   requests in flight fail with `NoReplyError`, and the caller attaches again.
 *
 * Which server: the first that answers, in an order derived from `affinity` (`server-order.ts`), so that every replica
 * prefers the same server for one lease and a second attach really drops the first (protocol C5).
 *
 * What a server was given on an earlier connection it may pass on much later. So whatever the lease owns is created
 * behind its fence (`fence.ts`).
 *
 * No request waits for its server longer than the lease can bear (`patience.ts`): after that the connection is dropped,
 * and the caller repeats the request on the next one. Only the requests that make a new lease take their time: it has
 * nothing to lose yet.
 */
import { setImmediate as endOfTurn } from 'node:timers/promises';
import { ClientGoneError, LeaseExpiredError } from '../errors.js';
import type { Requester } from '../time.js';
import {
  DEFAULT_REQUEST_TIMEOUT_MS,
  isEphemeral,
  ZooKeeperClient,
  type CreateOptions,
  type Ensemble,
} from './client.js';
import type { Server } from './connect-string.js';
import { Connection } from './connection/connection.js';
import type { ConnectionListener } from './connection/options.js';
import { HandshakeRefusedError, NoReplyError, SessionDeniedError, orUnknown, unless } from './errors.js';
import { Absence } from './lease/absence.js';
import { Fence } from './lease/fence.js';
import type { Created, CreateMode, MultiOperation, MultiResult, Operation } from './operations.js';
import { existsWatch } from './operations/nodes.js';
import { quorumCheck } from './operations/session.js';
import { OwnedNodes } from './lease/owned-nodes.js';
import { patienceMs } from './lease/patience.js';
import type { SessionIdentity } from './connection/session-identity.js';

export interface AttachOptions {
  /** The session timeout: the wanted one for a new session, the agreed one for an existing session. */
  timeoutMs: number;
  /** For a new session: whether to refuse any other timeout. For an existing one it always is. */
  exactTimeout?: boolean;
  /** Any number; equal numbers prefer equal servers. */
  affinity: number;
  /** On the monotonic clock. */
  deadline: number;
}

interface Start {
  connected: () => LeaseSession;
  failed: (how: 'expired' | 'closed' | 'failed', cause: Error | undefined) => void;
}

/**
 * Receives a connection's events. A small object, because it lives as long as the connection; what started the
 * connection is forgotten once it has succeeded.
 */
class LeaseEvents implements ConnectionListener {
  #lease: LeaseSession | undefined;
  #start: Start | undefined;

  constructor(
    readonly ensemble: Ensemble,
    start: Start,
  ) {
    this.#start = start;
  }

  unfit(server: Server, why: Error): void {
    this.ensemble.order.setAside(server, why);
  }

  connected(): void {
    this.#lease = this.#start?.connected();
    this.#start = undefined;
  }

  ended(how: 'expired' | 'closed' | 'failed', cause?: Error): void {
    this.#start?.failed(how, cause);
    this.#start = undefined;
    this.#lease?.tellEnded();
  }

  notification(): void {
    this.#lease?.tellWatched();
  }

  replied(operation: string, ms: number): void {
    this.ensemble.observer.request(operation, ms);
  }

  fault(error: unknown): void {
    this.ensemble.observer.fault(error);
  }
}

export class LeaseSession extends ZooKeeperClient {
  readonly #connection: Connection;
  readonly #requester: Requester | undefined;
  /** How long a request may go without an answer, ms. */
  #patienceMs = Infinity;
  #onEnded: (() => void) | undefined;
  #fence: Fence | undefined;
  /** Of the one node that is watched on this connection. */
  #absence = new Absence();

  /** @param isNew undefined for a view that writes for a request: what it owns is counted with the session itself */
  private constructor(ensemble: Ensemble, connection: Connection, isNew: boolean | undefined, requester?: Requester) {
    super(ensemble);
    this.#connection = connection;
    this.#requester = requester;
    const { ownedByLease } = ensemble;
    if (ownedByLease !== undefined && isNew !== undefined)
      this.owned = new OwnedNodes(ownedByLease, isNew, (deadline) => this.readOwned(deadline));
  }

  /** Opens a new session. The ensemble may grant another timeout: see `timeoutMs`. */
  static open(ensemble: Ensemble, options: AttachOptions): Promise<LeaseSession> {
    return LeaseSession.#connect(ensemble, options, undefined);
  }

  /**
   * Attaches to an existing session.
   * @throws LeaseExpiredError if a server says that it has ended, with a `SessionDeniedError` as its cause
   * @throws NoReplyError if no server could be reached (its cause is a `HandshakeRefusedError` if one hung up)
   */
  static attach(ensemble: Ensemble, identity: SessionIdentity, options: AttachOptions): Promise<LeaseSession> {
    return LeaseSession.#connect(ensemble, options, identity);
  }

  static #connect(
    ensemble: Ensemble,
    options: AttachOptions,
    session: SessionIdentity | undefined,
  ): Promise<LeaseSession> {
    const { credentials, tls, backlog, zxids } = ensemble;
    const what = session === undefined ? 'a new session' : 'the session of the lease';
    const remaining = options.deadline - performance.now();
    if (remaining <= 0) return Promise.reject(new NoReplyError(what, 'deadline', false));
    return new Promise<LeaseSession>((resolve, reject) => {
      const timer = setTimeout(() => {
        reject(new NoReplyError(what, 'deadline', false));
        connection.detach();
      }, remaining);
      const events: LeaseEvents = new LeaseEvents(ensemble, {
        connected: (): LeaseSession => {
          clearTimeout(timer);
          ensemble.order.answered(connection.server);
          const lease = new LeaseSession(ensemble, connection, session === undefined);
          if (session !== undefined) lease.keepUp();
          resolve(lease);
          return lease;
        },
        failed: (how, cause) => {
          clearTimeout(timer);
          if (how === 'expired' && session !== undefined)
            reject(new LeaseExpiredError(new SessionDeniedError(connection.server)));
          else reject(new NoReplyError(what, 'not-connected', false, cause));
        },
      });
      const connection: Connection = new Connection(
        {
          mode: 'lease',
          servers: ensemble.order.of(options.affinity),
          sessionTimeoutMs: options.timeoutMs,
          exactTimeout: options.exactTimeout ?? session !== undefined,
          session,
          handshakeTimeoutMs: Math.min(
            ensemble.handshakeTimeoutMs,
            session === undefined ? Infinity : patienceMs(options.timeoutMs),
            remaining,
          ),
          credentials,
          tls,
          zxids,
          backlog,
        },
        events,
      );
      connection.connect();
    });
  }

  /** As for every client; events (`onEnded`) reach the session itself only. */
  override writingFor(requester: Requester): LeaseSession {
    const session = new LeaseSession(this.ensemble, this.#connection, undefined, requester);
    session.owned = this.owned;
    session.#patienceMs = this.#patienceMs;
    session.#fence = this.#fence;
    session.#absence = this.#absence;
    return session;
  }

  /**
   * From now on nodes that the lease owns are created behind its fence (`fence.ts`).
   * @param path of the lease's own node
   */
  fencedBy(path: string): void {
    this.#fence = new Fence(path, (deadline) => this.until(deadline));
  }

  /**
   * Has the ensemble refuse every creation that was sent for the lease before, on whatever connection, and is not done
   * by now (protocol C46).
   * @throws LeaseExpiredError if the lease's own node is gone
   */
  async raiseFence(deadline: number): Promise<void> {
    await this.#fence?.raise(deadline);
  }

  override async create(
    path: string,
    data?: Uint8Array,
    options: CreateOptions = {},
    deadline?: number,
  ): Promise<Created> {
    if (this.#fence === undefined || !isFenced(options.mode)) return super.create(path, data, options, deadline);
    const [made] = await this.multi([{ type: 'create', path, ...(data && { data }), ...options }], deadline);
    const { path: at, stat } = made as MultiResult & { type: 'create' };
    // Before 3.9.3 a transaction does not tell when it made a node (ZOOKEEPER-4026).
    return { path: at, stat: stat.ctime > 0 ? stat : ((await orUnknown(this.exists(at, deadline))) ?? stat) };
  }

  override async multi(
    items: readonly MultiOperation[],
    deadline = performance.now() + DEFAULT_REQUEST_TIMEOUT_MS,
  ): Promise<MultiResult[]> {
    const creates = items.some((item) => item.type === 'create' && isFenced(item.mode));
    if (this.#fence === undefined || !creates) return super.multi(items, deadline);
    return this.#fence.pass(this.until(deadline), items, (guarded) => super.multi(guarded, deadline));
  }

  /** The connection is gone. */
  tellEnded(): void {
    this.#onEnded?.();
  }

  /** The one watch on this connection has fired. */
  tellWatched(): void {
    this.#absence.doubt();
  }

  /**
   * Whether there is no node at `path`, as new as `synced`. After the first time this costs nothing until the node is
   * created (`absence.ts`).
   * @param path always the same one: the session watches one node
   * @param synced a `sync` on this session that has just been sent
   */
  async isAbsent(path: string, synced: Promise<unknown>, deadline: number): Promise<boolean> {
    if (this.#absence.known) await synced;
    if (this.#absence.known) return true;
    return this.#absence.look(unless(this.submit(existsWatch(this.full(path)), deadline), 'NO_NODE'));
  }

  get identity(): SessionIdentity {
    return { id: this.#connection.sessionId, password: this.#connection.sessionPassword };
  }

  override get sessionId(): bigint {
    return this.#connection.sessionId.readBigInt64BE(0);
  }

  /** As the ensemble granted it. */
  get timeoutMs(): number {
    return this.#connection.sessionTimeout;
  }

  /** The connection is gone: moved to another replica, expired, or dropped here. */
  get ended(): boolean {
    return this.#connection.ended;
  }

  get inFlight(): number {
    return this.#connection.requests.inFlight;
  }

  /**
   * The session lives at least `timeoutMs` from this moment, monotonic: when the last request was sent of which the
   * ensemble's leader knows, or will in time. It does not advance while answers come too late to be sure of that
   * (`Liveness.touchedAt`).
   */
  get touchedAt(): number {
    return this.#connection.touchedAt;
  }

  /** Requests on this connection are no longer certain to prolong the session: only another attach is. */
  get overdue(): boolean {
    return performance.now() - this.#connection.touchedAt > this.#connection.sessionTimeout / 2;
  }

  /** As of every client; the write is shared with nobody. */
  override async readLatest<T>(read: () => Promise<T>, deadline?: number): Promise<T> {
    const proof = unless(this.submit(quorumCheck(this.full('/')), deadline), 'NO_NODE', 'NO_AUTH');
    const reading = read();
    reading.catch(() => undefined); // without a quorum behind it it is nobody's answer, nor is its refusal
    await proof;
    return reading;
  }

  /**
   * Runs `read` at the lowest safe cost. If its result leads to a write, a `sync` is enough: the write fails at a
   * deposed leader. A result that would be answered without a write is read again behind a quorum (protocol C37).
   * @param leadsToWrite whether the caller will write to what was found
   */
  async readToWrite<T>(
    path: string,
    read: () => Promise<T>,
    leadsToWrite: (found: T) => boolean,
    deadline?: number,
  ): Promise<T> {
    const [, found] = await Promise.all([this.sync(path, deadline), read()]);
    return leadsToWrite(found) ? found : this.readLatest(read, deadline);
  }

  /** Somebody relies on the lease from now on: no request waits longer than that allows. */
  keepUp(): void {
    this.#patienceMs = patienceMs(this.timeoutMs);
  }

  /** Calls `listener` once, when the connection is gone. */
  onEnded(listener: () => void): void {
    this.#onEnded = listener;
    if (this.ended) listener();
  }

  detach(): void {
    this.#connection.detach();
  }

  /**
   * Ends the session, even if it is used on another connection by now: ZooKeeper refuses every request but this one
   * then.
   * @throws NoReplyError if the ensemble could not be told; then the session lives until its timeout
   * @throws ClientGoneError
   */
  async close(deadline = performance.now() + DEFAULT_REQUEST_TIMEOUT_MS): Promise<void> {
    if (this.#requester !== undefined) {
      await endOfTurn(); // the end of its client's connection may come with the answer by which this was decided on
      if (this.#requester.gone) throw new ClientGoneError('closeSession');
    }
    return this.#connection.closeSession(this.#within(deadline));
  }

  protected override submit<T>(
    operation: Operation<T>,
    deadline = performance.now() + DEFAULT_REQUEST_TIMEOUT_MS,
    requester = this.#requester,
  ): Promise<T> {
    return this.#connection.submit(operation, this.#within(deadline), requester);
  }

  #within(deadline: number): number {
    return Math.min(deadline, performance.now() + this.#patienceMs);
  }
}

/** Whatever the lease owns, and places in line that do not go with it. */
function isFenced(mode: CreateMode | undefined): boolean {
  return isEphemeral(mode) || mode === 'persistent-sequential';
}

/** Whether an attach failed because a server hung up: most likely it has too many connections from this address. */
export function wasRefused(error: unknown): boolean {
  return error instanceof NoReplyError && error.cause instanceof HandshakeRefusedError;
}
