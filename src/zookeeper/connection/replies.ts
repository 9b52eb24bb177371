/**
 * What the server sends while a session is open: answers to requests and pings, and notifications of watches.
 *
 * Invalid data throws, and ends the connection (defects 7 and 8).
 */
import type { Socket } from 'node:net';
import jute from 'node-zookeeper-client/lib/jute/index.js';
import { LeaseExpiredError } from '../../errors.js';
import { NoReplyError, ZooKeeperError, zooKeeperReason } from '../errors.js';
import { OPCODE, type Operation } from '../operations.js';
import type { Backlog } from './backlog.js';
import type { Liveness } from './liveness.js';
import { tell, type ConnectionListener, type ConnectionOptions } from './options.js';
import type { Pending, Requests } from './requests.js';
import { Reader, type Numbering } from './wire.js';

/** The answer of a server that enforces authentication to whatever comes first, even a ping; then it hangs up. */
const DEMANDS_CREDENTIALS = -124;

/** The connection on which the replies arrive. */
export interface Receiver {
  readonly socket: Socket | undefined;
  readonly sessionTimeout: number;
  /** The server has answered. */
  onProven(): void;
  /** The server has answered that the session is no more. */
  onExpired(): void;
}

export class Replies {
  readonly #receiver: Receiver;
  readonly #requests: Requests;
  readonly #liveness: Liveness;
  readonly #listener: ConnectionListener;
  readonly #backlog: Backlog | undefined;
  readonly #isLease: boolean;
  readonly #zxids: Numbering | undefined;
  #lastZxid = 0;

  constructor(
    receiver: Receiver,
    requests: Requests,
    liveness: Liveness,
    options: ConnectionOptions,
    listener: ConnectionListener,
  ) {
    this.#receiver = receiver;
    this.#requests = requests;
    this.#liveness = liveness;
    this.#listener = listener;
    this.#backlog = options.backlog;
    this.#isLease = options.mode === 'lease';
    this.#zxids = options.zxids;
  }

  /** The newest state of the ensemble that a reply has reported, as the ensemble numbers it. */
  get lastZxid(): number {
    return this.#lastZxid;
  }

  /** @throws Error if the connection must end */
  read(frame: Buffer): void {
    const reader = new Reader(frame, this.#zxids);
    const xid = reader.int();
    const sent = reader.long();
    const zxid = this.#zxids === undefined ? sent : this.#zxids.of(sent);
    const error = reader.int();
    switch (xid) {
      case jute.XID_PING:
        this.#onPong(zxid, error);
        return;
      case jute.XID_AUTHENTICATION:
        if (error !== 0) throw new ZooKeeperError(error, 'auth', '', zxid);
        return;
      case jute.XID_NOTIFICATION: {
        const type = reader.int();
        reader.int(); // the state of the connection, always "connected" on the wire
        const path = reader.string();
        tell(this.#listener, () => this.#listener.notification?.(type, path, zxid));
        return;
      }
    }
    const pending = this.#requests.take(xid);
    this.#count(pending, sent, error);
    if (pending.settled) return;
    pending.settled = true;
    if (error === 0) settle(pending, reader, zxid);
    else this.#refuse(pending, zxid, error);
  }

  #onPong(zxid: number, error: number): void {
    const { socket, sessionTimeout } = this.#receiver;
    if (error !== 0) {
      socket?.destroy(new ZooKeeperError(error, 'ping', '', zxid));
      return;
    }
    this.#liveness.ponged(sessionTimeout);
    this.#receiver.onProven();
  }

  /** Evaluates any reply, whether somebody still waits for it or not. */
  #count({ operation, sentAt }: Pending, zxid: number, error: number): void {
    if (error !== DEMANDS_CREDENTIALS) this.#receiver.onProven();
    if (zxid > this.#lastZxid) this.#lastZxid = zxid; // defect 20: some replies carry 0 or -1
    const now = performance.now();
    this.#liveness.answered(sentAt, now, this.#receiver.sessionTimeout);
    this.#backlog?.answered(now, now - sentAt, isOrdered(operation));
    this.#listener.replied?.(operation.name, now - sentAt);
  }

  #refuse({ operation, reject }: Pending, zxid: number, error: number): void {
    const refusal = new ZooKeeperError(error, operation.name, operation.path, zxid);
    const expired = this.#isLease && zooKeeperReason(error) === 'SESSION_EXPIRED';
    reject(expired ? new LeaseExpiredError(refusal) : refusal);
    if (expired) this.#receiver.onExpired();
  }
}

function settle({ operation, resolve, reject }: Pending, reader: Reader, zxid: number): void {
  let value: unknown;
  try {
    value = operation.decode(reader, zxid);
  } catch (failure) {
    if (failure instanceof ZooKeeperError) {
      reject(failure);
      return;
    }
    reject(new NoReplyError(operation.name, 'connection-lost', operation.writes, failure));
    throw failure;
  }
  resolve(value);
}

/** Whether the reply came through the leader, in order with all others. */
function isOrdered({ writes, opcode }: Operation<unknown>): boolean {
  return writes || opcode === OPCODE.sync || opcode === OPCODE.multi;
}
