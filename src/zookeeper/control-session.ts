/**
 * The replica's own session: reads that belong to no lease, writes that any session may do, and all watches.
 *
 * It pings, reconnects, and when the session is lost it opens another, for as long as the replica runs. A
 * request made while there is no connection waits for one, but no longer than its deadline, and is sent after the
 * watches are set again; a request that was sent and not answered fails with what is known about it.
 *
 *   connecting ─▶ connected ⇄ suspended (same session, watches re-armed) ─▶ expired ─▶ connecting (new session, watches reset)
 */
import { fullJitter } from '../time.js';
import { DEFAULT_REQUEST_TIMEOUT_MS, ZooKeeperClient, type Ensemble } from './client.js';
import { Connection } from './connection.js';
import { NoReplyError } from './errors.js';
import type { Operation } from './operations.js';
import { WatchHub } from './watch.js';

const NEW_SESSION_BASE_MS = 50;
const NEW_SESSION_CAP_MS = 2_000;

interface Waiter {
  resolve: () => void;
  reject: (error: Error) => void;
  timer: NodeJS.Timeout;
}

export interface ControlSessionOptions {
  sessionTimeoutMs: number;
}

export class ControlSession extends ZooKeeperClient {
  readonly watches: WatchHub;
  readonly #options: ControlSessionOptions;
  readonly #waiters = new Set<Waiter>();
  readonly #newSessionListeners = new Set<() => void>();
  #onRefused: (() => void) | undefined;
  #connection: Connection;
  #established = false;
  #everConnected = false;
  #attempt = 0;
  #restart: NodeJS.Timeout | undefined;
  #stopped = false;
  #disconnectedAt: number | undefined = performance.now();

  constructor(ensemble: Ensemble, options: ControlSessionOptions) {
    super(ensemble);
    this.#options = options;
    this.watches = new WatchHub(
      (operation, deadline) => this.submit(operation, deadline),
      (operation, deadline) =>
        this.#connection.submit(operation, deadline ?? performance.now() + DEFAULT_REQUEST_TIMEOUT_MS),
      (path) => this.full(path),
      ensemble.observer,
    );
    this.#connection = this.#newConnection();
  }

  /** Starts connecting; never fails: the session comes when the ensemble does. */
  start(): void {
    this.#connection.connect();
  }

  get connected(): boolean {
    return this.#connection.connected;
  }

  /** Since when there is no connection, on the monotonic clock; undefined while there is one. */
  get disconnectedSince(): number | undefined {
    return this.#disconnectedAt;
  }

  /** As the ensemble granted it. */
  get sessionTimeoutMs(): number {
    return this.#connection.sessionTimeout;
  }

  override get sessionId(): bigint {
    return this.#connection.sessionId.readBigInt64BE(0);
  }

  /** Calls `listener` each time a new session begins; what the old one owned is gone. */
  onNewSession(listener: () => void): void {
    this.#newSessionListeners.add(listener);
  }

  /** Calls `listener` when a server has hung up on an attempt to connect: it may have too many connections from this address. */
  onRefused(listener: () => void): void {
    this.#onRefused = listener;
  }

  /** Resolves when there is a connection; rejects with `NoReplyError` at the deadline. */
  whenConnected(deadline: number, operation = 'the request'): Promise<void> {
    if (this.connected) return Promise.resolve();
    const remaining = deadline - performance.now();
    if (this.#stopped || remaining <= 0) return Promise.reject(new NoReplyError(operation, 'not-connected', false));
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        this.#waiters.delete(waiter);
        reject(new NoReplyError(operation, 'not-connected', false));
      }, remaining);
      const waiter: Waiter = { resolve, reject, timer };
      this.#waiters.add(waiter);
    });
  }

  /** Ends the session, so that what it owned is gone at once; bounded by `deadline`. */
  async stop(deadline = performance.now() + 1_000): Promise<void> {
    if (this.#stopped) return;
    this.#stopped = true;
    clearTimeout(this.#restart);
    this.#settleWaiters(new NoReplyError('the request', 'not-connected', false));
    await this.#connection.closeSession(deadline).catch(() => undefined); // then it lapses by itself
  }

  protected override submit<T>(
    operation: Operation<T>,
    deadline = performance.now() + DEFAULT_REQUEST_TIMEOUT_MS,
  ): Promise<T> {
    if (this.connected) return this.#connection.submit(operation, deadline);
    return this.whenConnected(deadline, operation.name).then(() => this.#connection.submit(operation, deadline));
  }

  #newConnection(): Connection {
    const { servers, credentials, tls, handshakeTimeoutMs, observer, backlog } = this.ensemble;
    return new Connection(
      {
        mode: 'control',
        servers: shuffled(servers),
        sessionTimeoutMs: this.#options.sessionTimeoutMs,
        handshakeTimeoutMs,
        credentials,
        tls,
        backlog,
      },
      {
        connected: () => this.#onConnected(),
        disconnected: () => this.#onDisconnected(),
        refused: () => this.#onRefused?.(),
        ended: (_how, cause) => this.#onEnded(cause),
        rearm: (lastZxid) => this.watches.rearm(lastZxid),
        notification: (type, path, zxid) => this.watches.dispatch(type, path, zxid),
        replied: (operation, ms) => observer.request(operation, ms),
        fault: (error) => observer.fault(error),
      },
    );
  }

  #onConnected(): void {
    const first = !this.#established;
    this.#established = true;
    this.#attempt = 0;
    this.#disconnectedAt = undefined;
    this.ensemble.observer.connected(true);
    if (this.#everConnected) {
      this.ensemble.observer.reconnected();
      this.watches.resetPersistent();
    }
    this.#everConnected = true;
    this.#settleWaiters();
    if (first) for (const listener of this.#newSessionListeners) listener();
  }

  #onDisconnected(): void {
    this.#disconnectedAt = performance.now();
    this.ensemble.observer.connected(false);
  }

  #onEnded(cause: Error | undefined): void {
    if (this.#stopped) return; // on purpose: nothing was lost
    if (this.#disconnectedAt === undefined) this.#onDisconnected();
    if (cause !== undefined) this.ensemble.observer.fault(cause);
    this.#established = false;
    this.#restart = setTimeout(
      () => {
        this.#connection = this.#newConnection();
        this.watches.reset();
        this.#connection.connect();
      },
      fullJitter(this.#attempt, NEW_SESSION_BASE_MS, NEW_SESSION_CAP_MS),
    );
    this.#attempt += 1;
  }

  #settleWaiters(error?: Error): void {
    for (const waiter of this.#waiters) {
      clearTimeout(waiter.timer);
      if (error === undefined) waiter.resolve();
      else waiter.reject(error);
    }
    this.#waiters.clear();
  }
}

function shuffled<T>(items: readonly T[]): T[] {
  const result = [...items];
  for (let i = result.length - 1; i > 0; i -= 1) {
    const j = Math.floor(Math.random() * (i + 1));
    [result[i], result[j]] = [result[j] as T, result[i] as T];
  }
  return result;
}
