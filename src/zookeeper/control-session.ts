/**
 * The replica's own session: reads that belong to no lease, writes that any session may do, and all watches.
 *
 * It pings and reconnects; if the session is lost, it opens another one, for as long as the replica runs. A request
 * without a connection waits for one until its deadline, and is sent after the watches are set again. A request that
 * was sent and not answered fails with what is known about it.
 *
 *   connecting ─▶ connected ⇄ suspended (same session, watches re-armed) ─▶ expired ─▶ connecting (watches reset)
 */
import type { NameList } from '../page.js';
import { fullJitter, pause, SECOND, type Requester } from '../time.js';
import { ByteBudget } from './byte-budget.js';
import type { BoundClient } from './bound.js';
import { DEFAULT_REQUEST_TIMEOUT_MS, ZooKeeperClient, type Ensemble } from './client.js';
import { Connection } from './connection/connection.js';
import { isReason, NoReplyError, unless } from './errors.js';
import { Listings, type Directories } from './listings.js';
import type { Operation } from './operations.js';
import { quorumCheck } from './operations/session.js';
import { GroupCommit } from './group-commit.js';
import { OwnedNodes } from './lease/owned-nodes.js';
import { Unreachable } from './unreachable.js';
import { QuorumReads } from './quorum-reads.js';
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
  /** Of the answers to large reads that are on their way at once. */
  maxReadBytesAtOnce: number;
}

/** Why a session is not admitted, time after time. */
export interface AdmissionRefusal {
  /** Of the first time, monotonic. */
  readonly since: number;
  /** Of the last time. */
  readonly cause: Error;
}

export class ControlSession extends ZooKeeperClient {
  readonly watches: WatchHub;
  /** For readings of many nodes, or of large ones. */
  readonly largeReads: ByteBudget;
  /** For writes to existing nodes that may share a transaction with those of other requests. */
  readonly groupCommit: GroupCommit;
  readonly #listings: Listings;
  readonly #options: ControlSessionOptions;
  readonly #waiters = new Set<Waiter>();
  readonly #newSessionListeners = new Set<() => void>();
  readonly #unreachable: Unreachable;
  // A refusal is an outcome of the transaction too.
  readonly #quorumReads = new QuorumReads(() => unless(this.submit(quorumCheck(this.full('/'))), 'NO_NODE', 'NO_AUTH'));
  #onRefused: (() => void) | undefined;
  #connection: Connection;
  #established = false;
  #everConnected = false;
  #attempt = 0;
  #restart: NodeJS.Timeout | undefined;
  #stopped = false;
  #admission: ((zk: BoundClient) => Promise<boolean>) | undefined;
  /** Whether requests may be sent on the present session. */
  #admitted = true;
  #admissions = 0;
  #refusal: AdmissionRefusal | undefined;
  #disconnectedAt: number | undefined = performance.now();

  constructor(ensemble: Ensemble, options: ControlSessionOptions) {
    super(ensemble);
    this.#options = options;
    this.largeReads = new ByteBudget(options.maxReadBytesAtOnce);
    const directories: Directories = {
      stat: (path, deadline) => this.exists(path, deadline),
      names: (path, deadline) => super.getNames(path, deadline),
    };
    this.#listings = new Listings(directories, this.largeReads);
    this.groupCommit = new GroupCommit(this, ensemble.observer, ensemble.backlog);
    this.watches = new WatchHub(
      (operation, deadline) => this.submit(operation, deadline),
      (operation, deadline) =>
        this.#connection.submit(operation, deadline ?? performance.now() + DEFAULT_REQUEST_TIMEOUT_MS),
      (path) => this.full(path),
      ensemble.observer,
    );
    this.#unreachable = new Unreachable(ensemble.servers.length, (failures) => ensemble.observer.unreachable(failures));
    this.#connection = this.#newConnection();
  }

  /** Starts connecting; never fails: the session comes once the ensemble is there. */
  start(): void {
    this.#connection.connect();
  }

  get connected(): boolean {
    return this.#admitted && this.#connection.connected;
  }

  /** Since when no server serves this session, monotonic; undefined while one does. */
  get disconnectedSince(): number | undefined {
    return this.#disconnectedAt;
  }

  /** What keeps the present session from being admitted; undefined if it is, or nothing was tried yet. */
  get refusal(): AdmissionRefusal | undefined {
    return this.#refusal;
  }

  /** Address and cause for each server that was tried in vain since the last connection. */
  get failures(): readonly string[] {
    return this.#unreachable.failures;
  }

  /** As the ensemble granted it. */
  get sessionTimeoutMs(): number {
    return this.#connection.sessionTimeout;
  }

  override get sessionId(): bigint {
    return this.#connection.sessionId.readBigInt64BE(0);
  }

  /** Calls `listener` each time a new session begins; everything that the old one owned is gone. */
  onNewSession(listener: () => void): void {
    this.#newSessionListeners.add(listener);
  }

  /**
   * Has `admission` run on each further session, and again if its connection breaks meanwhile. Nothing else is sent
   * before it has returned true; false means never. It may throw whatever a request throws.
   */
  admitBy(admission: (zk: BoundClient) => Promise<boolean>): void {
    this.#admission = admission;
  }

  /**
   * Calls `listener` when a server hung up on an attempt to connect: it may have too many connections from this
   * address.
   */
  onRefused(listener: () => void): void {
    this.#onRefused = listener;
  }

  /** To be called with what was thrown by whoever was told of something that this session has learned. */
  listenerFailed(error: unknown): void {
    this.ensemble.observer.listenerFailed(error);
  }

  /** What was written before this transaction is numbered with an earlier floor (`connection/zxids.ts`). */
  get numberedFrom(): number {
    return this.ensemble.zxids?.first ?? 0;
  }

  /** The newest transaction that this session has heard of, as numbered here. */
  get lastZxid(): number {
    const { lastZxid } = this.#connection;
    return this.ensemble.zxids?.of(lastZxid) ?? lastZxid;
  }

  /** Resolves once there is a connection; rejects with `NoReplyError` at the deadline. */
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

  /** As of every client; all who ask at the same time share the write. */
  override readLatest<T>(read: () => Promise<T>, deadline: number): Promise<T> {
    return this.#quorumReads.read(read, deadline);
  }

  /** As of every client; large listings are shared, and are within the budget for large reads. */
  override getNames(path: string, deadline: number): Promise<NameList> {
    return this.#listings.names(path, deadline);
  }

  /** Ends the session, which frees everything it owned; bounded by `deadline`. */
  async stop(deadline = performance.now() + 1_000): Promise<void> {
    if (this.#stopped) return;
    this.groupCommit.sendAll();
    this.#stopped = true;
    clearTimeout(this.#restart);
    this.#settleWaiters(new NoReplyError('the request', 'not-connected', false));
    await this.#connection.closeSession(deadline).catch(() => undefined); // then it lapses by itself
  }

  protected override submit<T>(
    operation: Operation<T>,
    deadline = performance.now() + DEFAULT_REQUEST_TIMEOUT_MS,
    requester?: Requester,
  ): Promise<T> {
    if (this.connected) return this.#connection.submit(operation, deadline, requester);
    return this.whenConnected(deadline, operation.name).then(() =>
      this.#connection.submit(operation, deadline, requester),
    );
  }

  #newConnection(): Connection {
    const { servers, credentials, tls, handshakeTimeoutMs, observer, backlog, zxids } = this.ensemble;
    return new Connection(
      {
        mode: 'control',
        servers: shuffled(servers),
        sessionTimeoutMs: this.#options.sessionTimeoutMs,
        handshakeTimeoutMs,
        credentials,
        tls,
        zxids,
        backlog,
      },
      {
        connected: () => (this.#admitted ? this.#onConnected() : void this.#admit(this.#connection)),
        serves: () => this.#onServes(),
        disconnected: () => this.#onDisconnected(),
        failed: ({ host, port }, cause) => this.#unreachable.failed(`${host}:${port}`, reasonOf(cause)),
        refused: () => this.#onRefused?.(),
        ended: (_how, cause) => this.#onEnded(cause),
        rearm: (lastZxid) => this.watches.rearm(lastZxid),
        notification: (type, path, zxid) => this.watches.dispatch(type, path, zxid),
        replied: (operation, ms) => observer.request(operation, ms),
        fault: (error) => observer.fault(error),
      },
    );
  }

  async #admit(connection: Connection): Promise<void> {
    const attempt = (this.#admissions += 1);
    const deadline = performance.now() + connection.sessionTimeout;
    const session = this.viewOf((operation, by) => connection.submit(operation, by ?? deadline));
    try {
      if ((await this.#admission?.(session.until(deadline))) === false || attempt !== this.#admissions) return;
    } catch (error) {
      if (attempt === this.#admissions)
        this.#refusal = { since: this.#refusal?.since ?? performance.now(), cause: error as Error };
      // Another connection to the same session, or another session, tries again: in a while, if a server refused it.
      if (connection.connected) await pause(SECOND);
      if (attempt === this.#admissions && connection.connected) connection.socket?.destroy(error as Error);
      return;
    }
    if (!connection.connected) return;
    this.#admitted = true;
    this.#refusal = undefined;
    this.#onConnected();
  }

  #onConnected(): void {
    const first = !this.#established;
    this.#established = true;
    if (first && this.ensemble.ownedByReplica !== undefined)
      this.owned = new OwnedNodes(this.ensemble.ownedByReplica, true, (deadline) => this.readOwned(deadline));
    this.#attempt = 0;
    if (this.#everConnected) {
      this.ensemble.observer.reconnected();
      this.watches.resetPersistent();
    }
    this.#everConnected = true;
    this.#settleWaiters();
    if (first) for (const listener of this.#newSessionListeners) listener();
  }

  /**
   * Reported only on an answer: a server that grants sessions and hangs up would otherwise be reported at every
   * attempt.
   */
  #onServes(): void {
    this.#disconnectedAt = undefined;
    this.#unreachable.reached();
    this.ensemble.observer.connected(true);
  }

  #onDisconnected(): void {
    if (this.#disconnectedAt !== undefined) return;
    this.#disconnectedAt = performance.now();
    this.ensemble.observer.connected(false);
  }

  #onEnded(cause: Error | undefined): void {
    if (this.#stopped) return; // on purpose: nothing was lost
    this.#onDisconnected();
    if (cause !== undefined) this.ensemble.observer.fault(cause);
    this.#established = false;
    this.#admitted = this.#admission === undefined;
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

/** If a name has several addresses, the error itself says nothing. */
function reasonOf(cause: Error | undefined): string {
  if (isReason(cause, 'SESSION_CLOSED_REQUIRE_SASL_AUTH'))
    return 'it demands credentials (enforce.auth.enabled) and was given none, or of another scheme: set POSTERN_ZOOKEEPER_AUTH';
  if (cause instanceof AggregateError) return cause.errors.map((error) => (error as Error).message).join(', ');
  return cause?.message ?? 'the connection was closed';
}

function shuffled<T>(items: readonly T[]): T[] {
  const result = [...items];
  for (let i = result.length - 1; i > 0; i -= 1) {
    const j = Math.floor(Math.random() * (i + 1));
    [result[i], result[j]] = [result[j] as T, result[i] as T];
  }
  return result;
}
