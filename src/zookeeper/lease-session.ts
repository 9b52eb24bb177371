/**
 * The ZooKeeper session of a lease, as far as this replica is attached to it.
 *
 * - Nothing here keeps the session alive: no pings, no reconnect. Only requests do.
 * - `detach` drops the socket and leaves the session alive; `close` ends the session and frees all that it owns.
 * - When another replica attaches through the same server, ours is closed under us: `ended` becomes true, requests in
 *   flight fail with `NoReplyError`, and the caller attaches again.
 *
 * Which server: the first of `servers` that answers, beginning at a position derived from `affinity`, so that every
 * replica prefers the same server for one lease and a second attach really drops the first (protocol C5).
 */
import { LeaseExpiredError } from '../errors.js';
import { DEFAULT_REQUEST_TIMEOUT_MS, ZooKeeperClient, type Ensemble } from './client.js';
import { Connection, type ConnectionListener } from './connection.js';
import { HandshakeRefusedError, NoReplyError } from './errors.js';
import type { Operation } from './operations.js';
import type { SessionIdentity } from './session-identity.js';

export interface AttachOptions {
  /** The session timeout: asked for when the session is new, the agreed one when it exists. */
  timeoutMs: number;
  /** Any number; equal numbers prefer equal servers. */
  affinity: number;
  /** On the monotonic clock. */
  deadline: number;
}

interface Start {
  connected: () => LeaseSession;
  failed: (how: 'expired' | 'closed' | 'failed', cause: Error | undefined) => void;
}

/** What a connection reports. One small object, because it lives as long as the connection: what began it is forgotten when it has succeeded. */
class LeaseEvents implements ConnectionListener {
  #lease: LeaseSession | undefined;
  #start: Start | undefined;

  constructor(
    readonly ensemble: Ensemble,
    start: Start,
  ) {
    this.#start = start;
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

  replied(operation: string, ms: number): void {
    this.ensemble.observer.request(operation, ms);
  }

  fault(error: unknown): void {
    this.ensemble.observer.fault(error);
  }
}

export class LeaseSession extends ZooKeeperClient {
  readonly #connection: Connection;
  readonly attachedAt = performance.now();
  #onEnded: (() => void) | undefined;

  private constructor(ensemble: Ensemble, connection: Connection) {
    super(ensemble);
    this.#connection = connection;
  }

  /** Opens a new session. The ensemble may grant another timeout: see `timeoutMs`. */
  static open(ensemble: Ensemble, options: AttachOptions): Promise<LeaseSession> {
    return LeaseSession.#connect(ensemble, options, undefined);
  }

  /**
   * Attaches to a session that exists.
   * @throws LeaseExpiredError when the ensemble says that it has ended: the only proof of it
   * @throws NoReplyError when no server could be reached (its cause is a `HandshakeRefusedError` when one hung up)
   */
  static attach(ensemble: Ensemble, identity: SessionIdentity, options: AttachOptions): Promise<LeaseSession> {
    return LeaseSession.#connect(ensemble, options, identity);
  }

  static #connect(
    ensemble: Ensemble,
    options: AttachOptions,
    session: SessionIdentity | undefined,
  ): Promise<LeaseSession> {
    const { credentials, tls, backlog } = ensemble;
    const what = session === undefined ? 'a new session' : 'the session of the lease';
    const remaining = options.deadline - performance.now();
    if (remaining <= 0) return Promise.reject(new NoReplyError(what, 'deadline', false));
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        reject(new NoReplyError(what, 'deadline', false));
        connection.detach();
      }, remaining);
      const events: LeaseEvents = new LeaseEvents(ensemble, {
        connected: (): LeaseSession => {
          clearTimeout(timer);
          const lease = new LeaseSession(ensemble, connection);
          resolve(lease);
          return lease;
        },
        failed: (how, cause) => {
          clearTimeout(timer);
          if (how === 'expired' && session !== undefined) reject(new LeaseExpiredError());
          else reject(new NoReplyError(what, 'not-connected', false, cause));
        },
      });
      const connection: Connection = new Connection(
        {
          mode: 'lease',
          servers: rotated(ensemble.servers, options.affinity),
          sessionTimeoutMs: options.timeoutMs,
          session,
          handshakeTimeoutMs: Math.min(ensemble.handshakeTimeoutMs, remaining),
          credentials,
          tls,
          backlog,
        },
        events,
      );
      connection.connect();
    });
  }

  /** The connection is gone. */
  tellEnded(): void {
    this.#onEnded?.();
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
    return this.#connection.inFlight;
  }

  /** `listener` is called once, when the connection is gone. */
  onEnded(listener: () => void): void {
    this.#onEnded = listener;
    if (this.ended) listener();
  }

  detach(): void {
    this.#connection.detach();
  }

  /** @throws NoReplyError when the ensemble could not be told; then the session lives until its timeout */
  close(deadline = performance.now() + DEFAULT_REQUEST_TIMEOUT_MS): Promise<void> {
    return this.#connection.closeSession(deadline);
  }

  protected override submit<T>(
    operation: Operation<T>,
    deadline = performance.now() + DEFAULT_REQUEST_TIMEOUT_MS,
  ): Promise<T> {
    return this.#connection.submit(operation, deadline);
  }
}

/** Whether an attach failed because a server hung up on us: too many connections from this address, most likely. */
export function wasRefused(error: unknown): boolean {
  return error instanceof NoReplyError && error.cause instanceof HandshakeRefusedError;
}

function rotated<T>(items: readonly T[], by: number): T[] {
  const start = ((by % items.length) + items.length) % items.length;
  return [...items.slice(start), ...items.slice(0, start)];
}
