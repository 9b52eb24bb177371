/**
 * One ZooKeeper session over one socket at a time: node-zookeeper-client's connection manager with its
 * defects repaired (numbers as in docs/zookeeper-client.md).
 *
 * The state machine, the handshake's request and the session's fields are the library's; reading
 * frames, matching replies, deadlines, liveness and the decision what a closed socket means are ours.
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
 *
 * A request either is answered, or fails with a `NoReplyError` that says whether it may have been applied.
 * Nothing is queued while there is no connection (defects 10 and 11).
 */
import { randomInt } from 'node:crypto';
import { connect as netConnect, type Socket } from 'node:net';
import { connect as tlsConnect, type ConnectionOptions as TlsOptions } from 'node:tls';
import ConnectionManager from 'node-zookeeper-client/lib/ConnectionManager.js';
import jute from 'node-zookeeper-client/lib/jute/index.js';
import { LeaseExpiredError, PosternError } from '../errors.js';
import { fullJitter } from '../time.js';
import type { Backlog } from './backlog.js';
import type { Server } from './connect-string.js';
import { HandshakeRefusedError, NoReplyError, ZooKeeperError, zooKeeperReason } from './errors.js';
import { FrameReader } from './frames.js';
import { OPCODE, closeSession, type Operation } from './operations.js';
import { deadlineSweep, type Swept } from './deadline-sweep.js';
import { identityOf, type SessionIdentity } from './session-identity.js';
import { ProtocolError, Reader, Writer } from './wire.js';

const { STATES } = ConnectionManager;

/** jute.maxbuffer's default is 0xfffff for the packet without its length; the server drops the connection above it (defect 15). */
export const MAX_PACKET_BYTES = 0xfffff;

/** Xids wrap to 1 well before 2^31 (defect 6); they are matched first in, first out, so a repetition is harmless. */
const XID_WRAP = 2 ** 31 - 2 ** 16;
const XID_SET_WATCHES = -8;
const ID_BYTES = 8;
const PASSWORD_BYTES = 16;

/** A silent connection is dead after two thirds of the timeout, as in ZooKeeper's own client: a third is left to reconnect. */
const READ_LIMIT = 2 / 3;
const PING_EVERY = 1 / 3;
/** When no server could be asked for this part of the timeout the session is given up locally (ZOOKEEPER-4508). */
const LOCAL_LAPSE = 4 / 3;

const HUNG_UP: ReadonlySet<string> = new Set(['ECONNRESET', 'EPIPE']);

/** What the library keeps for requests and watches of its own: half of what a connection would take, of which a replica has ten thousand. */
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

export interface Credential {
  scheme: string;
  auth: Buffer;
}

export interface ConnectionOptions {
  mode: 'control' | 'lease';
  /** In order of preference; a lease goes through them once, a control session round and round. */
  servers: readonly Server[];
  /** What is asked for; `sessionTimeout` afterwards is what the ensemble granted. */
  sessionTimeoutMs: number;
  session?: SessionIdentity | undefined;
  /** From the first SYN to ConnectResponse, for one server. */
  handshakeTimeoutMs: number;
  credentials: readonly Credential[];
  tls?: TlsOptions | undefined;
  /** Told of every request. */
  backlog?: Backlog | undefined;
}

/** What a connection reports. Nothing here may throw; what does is given to `fault`. */
export interface ConnectionListener {
  /** The handshake is done; requests are taken from now on. */
  connected?(): void;
  /** The socket is gone; a control connection is already trying to get another. */
  disconnected?(): void;
  /** A server took the connection and hung up before the handshake was done. */
  refused?(): void;
  /** The connection will never be used again. */
  ended(how: 'expired' | 'closed' | 'failed', cause?: Error): void;
  /** Requests to be sent ahead of all others on a new socket: watches to set again. */
  rearm?(lastZxid: number): Operation<unknown>[];
  notification?(type: number, path: string, zxid: number): void;
  replied?(operation: string, ms: number): void;
  fault?(error: unknown): void;
}

interface Pending {
  xid: number;
  operation: Operation<unknown>;
  resolve: (value: unknown) => void;
  reject: (error: Error) => void;
  sentAt: number;
  deadline: number;
  sent: boolean;
  settled: boolean;
}

export class Connection extends ConnectionManager implements Swept {
  readonly #options: ConnectionOptions;
  readonly #listener: ConnectionListener;
  readonly #frames = new FrameReader();
  #pending: Pending[] = [];
  #pendingHead = 0;
  #outgoing: Buffer[] = [];
  #flushScheduled = false;
  #unsentFrom = 0;
  #lastZxid = 0;
  #round = 0;
  #lastInboundAt = 0;
  #lastAckSentAt = performance.now();
  #handshakeSentAt = 0;
  #pingSentAt = 0;
  /** When the pings were sent that have no answer yet, in order. */
  #pingsInFlight: number[] = [];
  #liveness: NodeJS.Timeout | undefined;
  #lapse: NodeJS.Timeout | undefined;
  #retry: NodeJS.Timeout | undefined;
  #lastError: Error | undefined;
  /** One server that hung up tells more about a failed round than others that are not there. */
  #refusal: HandshakeRefusedError | undefined;
  #ended = false;
  #established = false;
  #closing: Promise<void> | undefined;
  #handshaking = false;

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
    // Not 0, which makes the server's throttling miscount (defect 5). Of a session that was attached before not the numbers of that time: servers
    // match what is committed with the requests of the session by the xid, and would answer one with the outcome of the other.
    this.xid = options.session === undefined ? 1 : randomInt(1, XID_WRAP);
    this.#options = options;
    this.#listener = listener;
    this.#established = options.session !== undefined;
  }

  /** Between the end of a socket and its 'close' event nothing can be sent any more: not connected. */
  get connected(): boolean {
    return this.state === STATES.CONNECTED && this.socket?.writable === true;
  }

  get ended(): boolean {
    return this.#ended;
  }

  /** Requests that wait for a reply. */
  get inFlight(): number {
    return this.#pending.length - this.#pendingHead;
  }

  /** The newest state of the ensemble that this session has seen. */
  get lastZxid(): number {
    return this.#lastZxid;
  }

  /**
   * Sends one request. Resolves with the reply; rejects with `ZooKeeperError` (refused), or `NoReplyError`.
   * @param deadline on the monotonic clock
   */
  submit<T>(operation: Operation<T>, deadline: number): Promise<T> {
    if (!this.connected)
      return Promise.reject(new NoReplyError(operation.name, 'not-connected', false, this.#lastError));
    if (deadline <= performance.now()) return Promise.reject(new NoReplyError(operation.name, 'deadline', false));
    return this.#enqueue(operation, deadline, this.#nextXid());
  }

  /**
   * Ends the session: everything it owns is gone when this resolves. Rejects with `NoReplyError` when that
   * could not be said to the server; then the session lives until its timeout (defect 17).
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
    const reply = this.#enqueue(closeSession(), deadline, this.#nextXid());
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

  /** The library's way in; our requests go through `submit`. */
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

  /** Defect 23: a full round of failures is followed by a pause with full jitter, so that replicas do not come back as one. */
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
    const address = { host: server.host, port: server.port };
    const socket: OwnedSocket = tls === undefined ? netConnect(address) : tlsConnect({ ...address, ...tls });
    socket[OWNER] = this;
    this.socket = socket;
    this.#frames.reset(); // defect 1: half a frame of the last connection
    // Defect 3: the timer runs until ConnectResponse, not until the TCP connection.
    this.connectTimeoutHandler = setTimeout(
      () => socket.destroy(new Error(`no session within ${handshakeTimeoutMs} ms`)),
      handshakeTimeoutMs,
    );
    socket.setNoDelay();
    // The same functions for all connections.
    socket.on('connect', onConnect); // over TLS too: a server that has enough connections does not greet first
    socket.on(tls === undefined ? 'connect' : 'secureConnect', onReady);
    socket.on('data', onData);
    socket.on('error', onError);
    socket.on('close', onClose);
  }

  override onSocketConnected(): void {
    this.#handshakeSentAt = performance.now();
    const lastZxid = Buffer.alloc(8);
    lastZxid.writeBigInt64BE(BigInt(this.#options.mode === 'control' ? this.#lastZxid : 0));
    const record = new jute.protocol.ConnectRequest(
      jute.PROTOCOL_VERSION,
      lastZxid,
      this.sessionTimeout,
      this.sessionId,
      this.sessionPassword,
    );
    this.socket?.write(new jute.Request(null, record).toBuffer());
  }

  override onSocketError(error: Error): void {
    this.#lastError = error;
    // Hanging up may be seen as early as while connecting. All else that ends a handshake is none: our timer, a
    // certificate, an answer that makes no sense.
    this.#handshaking = this.state === STATES.CONNECTING && HUNG_UP.has((error as NodeJS.ErrnoException).code ?? '');
  }

  /** Defects 7, 8, 9, 22 and 27: whatever the server sends, the worst that happens is the end of this connection. */
  override onSocketData(data: Buffer): void {
    this.#lastInboundAt = performance.now();
    try {
      for (const frame of this.#frames.push(data)) {
        if (this.state === STATES.CONNECTING) this.#onConnectResponse(frame);
        else this.#onReply(frame);
        if (this.#ended || this.socket?.destroyed === true) return;
      }
    } catch (error) {
      this.#report(error);
      this.socket?.destroy(error instanceof Error ? error : new ProtocolError(String(error)));
    }
  }

  #onConnectResponse(frame: Buffer): void {
    // Not the library's record: it reads past the end of a short frame without complaint (defect 9).
    const reader = new Reader(frame);
    reader.int(); // protocol version; a last byte, read-only, is not looked at (defect 28)
    const timeoutMs = reader.int();
    const sessionId = Buffer.alloc(ID_BYTES);
    sessionId.writeBigInt64BE(reader.bigLong());
    const password = reader.bytes();
    if (password.length !== PASSWORD_BYTES)
      throw new ProtocolError(`the handshake has a password of ${password.length} bytes`);
    this.#clearHandshakeTimer();
    this.#handshaking = false;
    // Defect 18: some servers answer a resume with a new session; to us that is the end of the old one.
    const another = this.#established && !sessionId.equals(this.sessionId);
    if (timeoutMs <= 0 || sessionId.readBigInt64BE() === 0n || another) {
      this.setState(STATES.SESSION_EXPIRED);
      this.#end('expired');
      return;
    }
    this.#lastError = undefined;
    this.#established = true;
    if (!sessionId.equals(this.sessionId) || !password.equals(this.sessionPassword)) {
      const identity = identityOf(sessionId, password);
      this.sessionId = identity.id;
      this.sessionPassword = identity.password;
    }
    this.updateTimeout(timeoutMs);
    this.#acknowledge(this.#handshakeSentAt);
    clearTimeout(this.#lapse);
    // Defect 11: credentials first, then watches, then everybody else.
    for (const { scheme, auth } of this.credentials) {
      this.#write(
        new jute.Request(
          new jute.protocol.RequestHeader(jute.XID_AUTHENTICATION, OPCODE.auth),
          new jute.protocol.AuthPacket(0, scheme, auth),
        ).toBuffer(),
      );
    }
    const deadline = performance.now() + this.sessionTimeout;
    const { socket } = this;
    for (const operation of this.#listener.rearm?.(this.#lastZxid) ?? []) {
      const xid = operation.opcode === OPCODE.setWatches ? XID_SET_WATCHES : this.#nextXid();
      this.#enqueue(operation, deadline, xid).catch((error: unknown) => {
        this.#report(error);
        socket?.destroy(); // watches that are not set would be waited for in vain: set them again on another connection
      });
    }
    this.setState(STATES.CONNECTED);
    if (this.#options.mode === 'control') this.#watchLiveness();
    this.#notify(() => this.#listener.connected?.());
  }

  #onReply(frame: Buffer): void {
    const reader = new Reader(frame);
    const xid = reader.int();
    const zxid = reader.long();
    const error = reader.int();
    switch (xid) {
      case jute.XID_PING:
        this.#acknowledge(this.#pingsInFlight.shift() ?? 0);
        this.#proven();
        return;
      case jute.XID_AUTHENTICATION:
        if (error !== 0) throw new ZooKeeperError(error, 'auth', '', zxid);
        return;
      case jute.XID_NOTIFICATION: {
        const type = reader.int();
        reader.int(); // the state of the connection, always "connected" on the wire
        const path = reader.string();
        this.#notify(() => this.#listener.notification?.(type, path, zxid));
        return;
      }
    }
    const pending = this.#pending[this.#pendingHead];
    if (pending === undefined || pending.xid !== xid || !pending.sent) {
      throw new ProtocolError(`a reply has xid ${xid}, ${pending?.sent === true ? pending.xid : 'none'} was expected`);
    }
    this.#dropHead();
    this.#proven();
    if (zxid > this.#lastZxid) this.#lastZxid = zxid; // defect 20: some replies carry 0 or -1
    this.#acknowledge(pending.sentAt);
    const { name, opcode, writes } = pending.operation;
    const now = performance.now();
    this.#options.backlog?.answered(now, now - pending.sentAt, writes || opcode === OPCODE.sync);
    this.#listener.replied?.(name, now - pending.sentAt);
    if (pending.settled) return;
    pending.settled = true;
    if (error !== 0) {
      const refusal = new ZooKeeperError(error, pending.operation.name, pending.operation.path, zxid);
      const expired = this.#options.mode === 'lease' && zooKeeperReason(error) === 'SESSION_EXPIRED';
      pending.reject(expired ? new LeaseExpiredError(refusal) : refusal);
      if (expired) this.#end('expired');
      return;
    }
    let value: unknown;
    try {
      value = pending.operation.decode(reader, zxid);
    } catch (failure) {
      if (failure instanceof ZooKeeperError) {
        pending.reject(failure);
        return;
      }
      pending.reject(new NoReplyError(pending.operation.name, 'connection-lost', pending.operation.writes, failure));
      throw failure;
    }
    pending.resolve(value);
  }

  /** There is a TCP connection. */
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
    clearInterval(this.#liveness);
    const wasConnected = this.state === STATES.CONNECTED;
    if (this.#handshaking) this.#lastError = this.#refusal = new HandshakeRefusedError(this.#lastError);
    const refused = this.#handshaking;
    this.#handshaking = false;
    this.#failPending();
    if (refused) this.#notify(() => this.#listener.refused?.());
    if (this.#ended) return;
    if (this.#options.mode === 'lease') {
      if (wasConnected || this.state === STATES.CLOSING) this.#end('closed');
      else this.connect();
      return;
    }
    if (this.state === STATES.CLOSING) return;
    this.setState(STATES.DISCONNECTED);
    if (wasConnected) {
      this.#notify(() => this.#listener.disconnected?.());
      this.#startLapse();
    }
    this.connect();
  }

  /** Defects 2 and 4: pings on a timer of their own, and an end to a connection on which nothing arrives. */
  #watchLiveness(): void {
    clearInterval(this.#liveness);
    const timeout = this.sessionTimeout;
    const { socket } = this;
    this.#pingsInFlight = [];
    this.#ping();
    const look = (now: number): void => {
      if (now - this.#lastInboundAt <= timeout * READ_LIMIT) return;
      socket?.destroy(new Error(`nothing was received for ${Math.round(timeout * READ_LIMIT)} ms`));
    };
    this.#liveness = setInterval(() => {
      if (performance.now() - this.#pingSentAt > timeout * (PING_EVERY - 1 / 12)) this.#ping();
      // After the sockets were read, by the time before that: when this process stood still, what arrived meanwhile has not been looked at yet.
      setImmediate(look, performance.now());
    }, timeout / 6);
  }

  #ping(): void {
    this.#pingSentAt = performance.now();
    this.#pingsInFlight.push(this.#pingSentAt);
    this.#write(new Writer(12).int(8).int(jute.XID_PING).int(OPCODE.ping).finish());
  }

  /** Defect 19: without this, an expiry is only learnt from a server that answers. */
  #startLapse(): void {
    clearTimeout(this.#lapse);
    const remaining = this.#lastAckSentAt + this.sessionTimeout * LOCAL_LAPSE - performance.now();
    this.#lapse = setTimeout(() => this.#end('expired', this.#lastError), Math.max(0, remaining));
  }

  /** Only an answer shows that a server serves; one that grants sessions and drops them would be asked without a pause. */
  #proven(): void {
    this.serverAttempts = 0;
    this.#round = 0;
  }

  #acknowledge(sentAt: number): void {
    if (sentAt > this.#lastAckSentAt) this.#lastAckSentAt = sentAt;
  }

  #enqueue<T>(operation: Operation<T>, deadline: number, xid: number): Promise<T> {
    const writer = new Writer().int(0).int(xid).int(operation.opcode);
    try {
      operation.encode(writer);
    } catch (error) {
      return Promise.reject(error instanceof Error ? error : new TypeError(String(error))); // a value that cannot be written: nothing was sent
    }
    if (writer.length - 4 > MAX_PACKET_BYTES) {
      return Promise.reject(
        new PosternError(
          'too-large',
          `The request takes ${writer.length - 4} bytes in ZooKeeper's protocol; the limit is ${MAX_PACKET_BYTES}.`,
          {
            members: { maxBytes: MAX_PACKET_BYTES },
          },
        ),
      );
    }
    const sentAt = performance.now();
    this.#options.backlog?.sent(sentAt);
    return new Promise<T>((resolve, reject) => {
      this.#pending.push({
        xid,
        operation,
        resolve: resolve as (value: unknown) => void,
        reject,
        sentAt,
        deadline,
        sent: false,
        settled: false,
      });
      deadlineSweep.add(this);
      this.#write(writer.finishFrame());
    });
  }

  /** All that is sent in one turn of the event loop goes out in one call. */
  #write(frame: Buffer): void {
    this.#outgoing.push(frame);
    if (this.#flushScheduled) return;
    this.#flushScheduled = true;
    flushSoon(this);
  }

  flush(): void {
    this.#flushScheduled = false;
    const outgoing = this.#outgoing;
    if (this.socket?.writable !== true || outgoing.length === 0) return; // they fail when it closes, as not sent
    this.#outgoing = [];
    for (; this.#unsentFrom < this.#pending.length; this.#unsentFrom += 1)
      (this.#pending[this.#unsentFrom] as Pending).sent = true;
    this.socket.write(outgoing.length === 1 ? (outgoing[0] as Buffer) : Buffer.concat(outgoing));
  }

  /** Called by the sweep. Returns whether there is anything left to watch. */
  sweep(now: number): boolean {
    let late = false;
    for (let i = this.#pendingHead; i < this.#pending.length; i += 1) {
      const pending = this.#pending[i] as Pending;
      // What has not left yet leaves in this turn, late or not: only then can it be said that it may have been applied.
      if (pending.settled || !pending.sent || now < pending.deadline) continue;
      pending.settled = true;
      late = true;
      pending.reject(new NoReplyError(pending.operation.name, 'deadline', pending.operation.writes));
    }
    // A lease connection has no pings that would find it dead: an unanswered request does.
    if (late && this.#options.mode === 'lease') this.socket?.destroy(new Error('a request was not answered in time'));
    return this.inFlight > 0;
  }

  #failPending(): void {
    const failed = this.#pending.slice(this.#pendingHead);
    this.#options.backlog?.lost(failed.length);
    this.#pending = [];
    this.#pendingHead = 0;
    this.#unsentFrom = 0;
    this.#outgoing = [];
    for (const pending of failed) {
      if (pending.settled) continue;
      pending.settled = true;
      pending.reject(
        new NoReplyError(
          pending.operation.name,
          'connection-lost',
          pending.sent && pending.operation.writes,
          this.#lastError,
        ),
      );
    }
  }

  #dropHead(): void {
    this.#pendingHead += 1;
    if (this.#pendingHead === this.#pending.length) {
      this.#pending = [];
      this.#pendingHead = 0;
      this.#unsentFrom = 0;
    } else if (this.#pendingHead > 1_024) {
      this.#pending.splice(0, this.#pendingHead);
      this.#unsentFrom -= this.#pendingHead;
      this.#pendingHead = 0;
    }
  }

  #nextXid(): number {
    const xid = this.xid;
    this.xid = xid >= XID_WRAP ? 1 : xid + 1;
    return xid;
  }

  #clearHandshakeTimer(): void {
    if (this.connectTimeoutHandler !== null) clearTimeout(this.connectTimeoutHandler);
    this.connectTimeoutHandler = null;
  }

  #end(how: 'expired' | 'closed' | 'failed', cause?: Error): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#clearHandshakeTimer();
    clearInterval(this.#liveness);
    clearTimeout(this.#lapse);
    clearTimeout(this.#retry);
    const socket = this.socket;
    this.socket = undefined;
    socket?.destroy();
    this.setState(STATES.CLOSED);
    this.#failPending();
    this.#notify(() => this.#listener.ended(how, cause));
  }

  #notify(call: () => void): void {
    try {
      call();
    } catch (error) {
      this.#report(error);
    }
  }

  #report(error: unknown): void {
    this.#listener.fault?.(error);
  }
}

/** Those that have something to send: one immediate for all of them. */
let unflushed: Connection[] = [];

function flushSoon(connection: Connection): void {
  if (unflushed.push(connection) === 1) setImmediate(flushAll);
}

function flushAll(): void {
  const connections = unflushed;
  unflushed = [];
  for (const connection of connections) connection.flush();
}

const OWNER = Symbol('owner');
type OwnedSocket = Socket & { [OWNER]?: Connection };

function onConnect(this: OwnedSocket): void {
  this[OWNER]?.onConnect();
}

function onReady(this: OwnedSocket): void {
  this[OWNER]?.onSocketConnected();
}

function onData(this: OwnedSocket, data: Buffer): void {
  this[OWNER]?.onSocketData(data);
}

function onError(this: OwnedSocket, error: Error): void {
  this[OWNER]?.onSocketError(error);
}

function onClose(this: OwnedSocket): void {
  this[OWNER]?.onClose(this);
}
