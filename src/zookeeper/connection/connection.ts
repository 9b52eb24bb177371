/**
 * One ZooKeeper session over one socket at a time: node-zookeeper-client's connection manager with its defects repaired
 * (numbers as in docs/zookeeper-client.md).
 *
 * The state machine and the session's fields are the library's; what a closed socket means is decided here. Read on in
 * `handshake.ts` (how a session is opened), `requests.ts` (what is in flight), `replies.ts` (what the server says),
 * `liveness.ts` (whether it says anything), and `frames.ts` and `wire.ts` (bytes).
 *
 *   DISCONNECTED ──connect──▶ CONNECTING ──ConnectResponse──▶ CONNECTED ──close()──▶ CLOSING ──▶ CLOSED
 *        ▲                        │  │                            │
 *        │ control: back-off      │  └─ refused, id 0 ─▶ SESSION_EXPIRED ─▶ CLOSED
 *        └──────── socket closed ◀┴────────────────────────────────┘      lease: a closed socket is CLOSED
 *
 * Two modes.
 * - `control`: pings, watches its own liveness, reconnects for as long as the session may live.
 * - `lease`: never pings (only a client's request may keep a lease alive), never reconnects (it would fight with the
 *   replica that the client moved to); a request that is not answered in time ends the connection.
 */
import type { Socket } from 'node:net';
import ConnectionManager from 'node-zookeeper-client/lib/ConnectionManager.js';
import { fullJitter, type Requester } from '../../time.js';
import type { Server } from '../connect-string.js';
import { HandshakeRefusedError, NoReplyError, SessionTimeoutError } from '../errors.js';
import { OPCODE, type Operation } from '../operations.js';
import { closeSession } from '../operations/session.js';
import { FrameReader } from './frames.js';
import { authRequest, connectRequest, isExpired, readConnectResponse, type Granted } from './handshake.js';
import { Liveness } from './liveness.js';
import { tell, type ConnectionListener, type ConnectionOptions, type Credential } from './options.js';
import { openSocket, type SocketOwner } from './owned-socket.js';
import { Replies, type Receiver } from './replies.js';
import { Requests, firstXid, type Carrier } from './requests.js';
import { nameOf } from './server-order.js';
import { identityOf } from './session-identity.js';
import { ProtocolError } from './wire.js';

const { STATES } = ConnectionManager;

const XID_SET_WATCHES = -8;

const HUNG_UP: ReadonlySet<string> = new Set(['ECONNRESET', 'EPIPE']);

/**
 * Replaces what the library keeps for its own requests and watches: half the memory of a connection, and a replica has
 * ten thousand.
 */
const UNUSED = {
  watcherManager: undefined,
  connectionStringParser: undefined,
  options: undefined,
  zxid: undefined,
  packetQueue: undefined,
  pendingQueue: undefined,
};

const RECONNECT_BASE_MS = 50;
const RECONNECT_CAP_MS = 2_000;

export class Connection extends ConnectionManager implements SocketOwner, Carrier, Receiver {
  /** Requests in flight. */
  readonly requests: Requests;
  readonly #options: ConnectionOptions;
  readonly #listener: ConnectionListener;
  readonly #frames = new FrameReader();
  readonly #liveness: Liveness;
  readonly #replies: Replies;
  #round = 0;
  #handshakeSentAt = 0;
  #retry: NodeJS.Timeout | undefined;
  #lastError: Error | undefined;
  /**
   * Why the last round failed: a server that hung up or has other bounds tells more than servers that are not there.
   */
  #refusal: Error | undefined;
  #ended = false;
  #established = false;
  /** Whether the server has answered on this socket. */
  #serves = false;
  #closing: Promise<void> | undefined;
  #handshaking = false;
  #server: Server | undefined;

  constructor(options: ConnectionOptions, listener: ConnectionListener) {
    // The servers are set below: the library's parser splits IPv6 addresses and shuffles (defect 24).
    super(
      'unused:1',
      {
        sessionTimeout: options.sessionTimeoutMs,
        spinDelay: 0,
        retries: 0, // defect 26: a blind repeat doubles sequential nodes
      },
      () => undefined,
    );
    this.servers = options.servers as Server[];
    this.credentials = options.credentials as Credential[];
    this.removeAllListeners();
    Object.assign(this, UNUSED);
    if (options.session !== undefined) {
      this.sessionId = options.session.id;
      this.sessionPassword = options.session.password;
    }
    this.xid = firstXid(options.session === undefined);
    this.#options = options;
    this.#listener = listener;
    this.requests = new Requests(this, options.backlog);
    this.#liveness = new Liveness(options.mode === 'control');
    this.#replies = new Replies(this, this.requests, this.#liveness, options, listener);
    this.#established = options.session !== undefined;
  }

  /** Between the end of a socket and its 'close' event nothing can be sent: not connected. */
  get connected(): boolean {
    return this.state === STATES.CONNECTED && this.socket?.writable === true;
  }

  get ended(): boolean {
    return this.#ended;
  }

  /** The newest state of the ensemble that this session has seen, as the ensemble numbers it. */
  get lastZxid(): number {
    return this.#replies.lastZxid;
  }

  /** The server that it is connected to, or tried last. */
  get server(): Server {
    const { nextServerIndex, servers } = this;
    return servers[(nextServerIndex + servers.length - 1) % servers.length] as Server;
  }

  /** See `Liveness`. */
  get touchedAt(): number {
    return this.#liveness.touchedAt;
  }

  /**
   * Sends one request. Resolves with the reply; rejects with `ZooKeeperError` (refused), or `NoReplyError`.
   * @param deadline on the monotonic clock
   * @param requester the client, if any: once it has gone, a write is not sent any more (`ClientGoneError`)
   */
  submit<T>(operation: Operation<T>, deadline: number, requester?: Requester): Promise<T> {
    if (!this.connected)
      return Promise.reject(new NoReplyError(operation.name, 'not-connected', false, this.#lastError));
    if (deadline <= performance.now()) return Promise.reject(new NoReplyError(operation.name, 'deadline', false));
    return this.requests.send(operation, deadline, requester);
  }

  /**
   * Ends the session: everything it owns is gone when this resolves. Rejects with `NoReplyError` if the server could
   * not be told; then the session lives until its timeout (defect 17).
   */
  closeSession(deadline: number): Promise<void> {
    return (this.#closing ??= this.#closeSession(deadline));
  }

  async #closeSession(deadline: number): Promise<void> {
    if (!this.connected) {
      const error = new NoReplyError('closeSession', 'not-connected', false, this.#lastError);
      this.detach();
      throw error;
    }
    const reply = this.requests.send(closeSession(), deadline);
    this.setState(STATES.CLOSING);
    try {
      await reply;
    } finally {
      this.#end('closed');
    }
  }

  /** Drops the socket and leaves the session alive. Requests in flight fail; the caller waits for them first. */
  detach(): void {
    this.#end('closed');
  }

  /** The library's entry point; this gateway's requests go through `submit`. */
  override queue(): never {
    throw new Error('requests go through submit()');
  }

  override close(): void {
    throw new Error('sessions end through closeSession() or detach()');
  }

  override connect(): void {
    if (this.#ended) return;
    this.setState(STATES.CONNECTING);
    this.findNextServer((server) => this.#open(server));
  }

  /** Defect 23: a pause with full jitter follows a full round of failures, so that replicas do not return in step. */
  override findNextServer(callback: (server: Server) => void): void {
    const servers = this.servers as Server[];
    const next = (): void => {
      if (this.#ended) return;
      const server = servers[this.nextServerIndex % servers.length] as Server;
      this.nextServerIndex = (this.nextServerIndex + 1) % servers.length;
      this.serverAttempts += 1;
      callback(server);
    };
    if (this.serverAttempts < servers.length) {
      next();
    } else if (this.#options.mode === 'lease') {
      this.#end('failed', this.#refusal ?? this.#lastError);
    } else {
      this.serverAttempts = 0;
      this.#retry = setTimeout(next, fullJitter(this.#round, RECONNECT_BASE_MS, RECONNECT_CAP_MS));
      this.#round += 1;
    }
  }

  #open(server: Server): void {
    const { tls, handshakeTimeoutMs } = this.#options;
    this.#server = server;
    this.socket = openSocket(server, tls, this);
    this.#serves = false;
    this.#frames.reset(); // defect 1: half a frame of the last connection
    // Defect 3: the timer runs until ConnectResponse, not until the TCP connection.
    this.connectTimeoutHandler = setTimeout(
      () => this.#giveUp(new Error(`no session within ${Math.round(handshakeTimeoutMs)} ms`)),
      handshakeTimeoutMs,
    );
  }

  override onSocketConnected(): void {
    this.#handshakeSentAt = performance.now();
    const session = { id: this.sessionId, password: this.sessionPassword };
    const lastZxid = this.#options.mode === 'control' ? this.#replies.lastZxid : 0;
    this.socket?.write(connectRequest(this.sessionTimeout, session, lastZxid));
  }

  override onSocketError(error: Error): void {
    this.#lastError = error;
    // Hanging up may be seen while still connecting. Whatever else ends a handshake does not count: our timer, a
    // certificate, an invalid answer.
    this.#handshaking = this.state === STATES.CONNECTING && HUNG_UP.has((error as NodeJS.ErrnoException).code ?? '');
  }

  /** Defects 7, 8, 9, 22 and 27: whatever the server sends, at worst this connection ends. */
  override onSocketData(data: Buffer): void {
    this.#liveness.heard();
    try {
      for (const frame of this.#frames.push(data)) {
        if (this.state === STATES.CONNECTING) this.#onConnectResponse(readConnectResponse(frame));
        else this.#replies.read(frame);
        if (this.#ended || this.socket?.destroyed === true) return;
      }
    } catch (error) {
      if (this.state === STATES.CONNECTING) {
        const sentence = `this is not ZooKeeper's protocol: ${(error as Error).message}`;
        // A control session reports every failed attempt; for leases nobody does.
        if (this.#options.mode === 'lease')
          this.#report(new ProtocolError(`${this.#server?.host}:${this.#server?.port}: ${sentence}`));
        this.socket?.destroy(new ProtocolError(sentence));
        return;
      }
      this.#report(error);
      this.socket?.destroy(error instanceof Error ? error : new ProtocolError(String(error)));
    }
  }

  #onConnectResponse(granted: Granted): void {
    const { timeoutMs, id, password } = granted;
    this.#clearHandshakeTimer();
    this.#handshaking = false;
    // Defect 18: some servers answer a resume with a new session; the old one has ended then.
    const another = this.#established && !id.equals(this.sessionId);
    if (isExpired(granted) || another) {
      this.setState(STATES.SESSION_EXPIRED);
      this.#end('expired');
      return;
    }
    if (this.#options.exactTimeout === true && timeoutMs !== this.sessionTimeout) {
      this.#refusal = new SessionTimeoutError(nameOf(this.server), this.sessionTimeout, timeoutMs);
      this.#giveUp(this.#refusal);
      return;
    }
    this.#lastError = undefined;
    this.#established = true;
    if (!id.equals(this.sessionId) || !password.equals(this.sessionPassword)) {
      const identity = identityOf(id, password);
      this.sessionId = identity.id;
      this.sessionPassword = identity.password;
    }
    this.updateTimeout(timeoutMs);
    this.#liveness.granted(this.#handshakeSentAt);
    // Defect 11: credentials first, then watches, then everything else.
    for (const credential of this.credentials) this.requests.write(authRequest(credential));
    this.#rearm();
    this.setState(STATES.CONNECTED);
    if (this.#options.mode === 'control')
      this.#liveness.watch(this.socket, this.sessionTimeout, (ping) => this.requests.write(ping));
    this.#tell(() => this.#listener.connected?.());
  }

  #rearm(): void {
    const deadline = performance.now() + this.sessionTimeout;
    const { socket } = this;
    for (const operation of this.#listener.rearm?.(this.#replies.lastZxid) ?? []) {
      const xid = operation.opcode === OPCODE.setWatches ? XID_SET_WATCHES : undefined;
      this.requests.send(operation, deadline, undefined, xid).catch((error: unknown) => {
        this.#report(error);
        // Waiting for watches that are not set would be in vain: set them again on another connection.
        socket?.destroy(error instanceof Error ? error : undefined);
      });
    }
  }

  onConnect(): void {
    this.#handshaking = true;
  }

  override onSocketClosed(): never {
    throw new Error('a closed socket is handled by onClose()');
  }

  onClose(socket: Socket): void {
    if (socket !== this.socket) return;
    this.socket = undefined;
    this.#clearHandshakeTimer();
    this.#liveness.stopWatching();
    const wasConnected = this.state === STATES.CONNECTED;
    if (this.#handshaking) this.#lastError = this.#refusal = new HandshakeRefusedError(this.#lastError);
    const refused = this.#handshaking;
    this.#handshaking = false;
    this.requests.lose(this.#lastError);
    if (refused) this.#tell(() => this.#listener.refused?.());
    if (this.#ended) return;
    const server = this.#server;
    if (!this.#serves && server !== undefined) this.#tell(() => this.#listener.failed?.(server, this.#lastError));
    if (this.#options.mode === 'lease') {
      if (wasConnected || this.state === STATES.CLOSING) this.#end('closed');
      else this.connect();
      return;
    }
    if (this.state === STATES.CLOSING) return;
    this.setState(STATES.DISCONNECTED);
    if (wasConnected) {
      this.#tell(() => this.#listener.disconnected?.());
      this.#liveness.startLapse(this.sessionTimeout, () => this.#end('expired', this.#lastError));
    }
    this.connect();
  }

  /**
   * Only an answer proves a server; otherwise one that grants sessions and drops them would be retried without a pause.
   */
  onProven(): void {
    this.serverAttempts = 0;
    this.#round = 0;
    if (this.#serves) return;
    this.#serves = true;
    this.#tell(() => this.#listener.serves?.());
  }

  onExpired(): void {
    this.#end('expired');
  }

  /** Drops a server that cannot be used. */
  #giveUp(why: Error): void {
    this.#tell(() => this.#listener.unfit?.(this.server, why));
    this.socket?.destroy(why);
  }

  /** A lease connection has no pings that would find it dead; an unanswered request does. */
  onOverdue(): void {
    if (this.#options.mode === 'lease') this.#giveUp(new Error('a request was not answered in time'));
  }

  #clearHandshakeTimer(): void {
    if (this.connectTimeoutHandler !== null) clearTimeout(this.connectTimeoutHandler);
    this.connectTimeoutHandler = null;
  }

  #end(how: 'expired' | 'closed' | 'failed', cause?: Error): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#clearHandshakeTimer();
    this.#liveness.stop();
    clearTimeout(this.#retry);
    const socket = this.socket;
    this.socket = undefined;
    socket?.destroy();
    this.setState(STATES.CLOSED);
    this.requests.lose(this.#lastError);
    this.#tell(() => this.#listener.ended(how, cause));
  }

  #tell(call: () => void): void {
    tell(this.#listener, call);
  }

  #report(error: unknown): void {
    this.#listener.fault?.(error);
  }
}
