/**
 * The requests of one connection that have no reply yet, in the order in which they were sent.
 *
 *   send ──▶ written at the end of this turn of the event loop ──▶ reply  (taken by its xid, first in, first out)
 *        └─▶ withdrawn then: a write whose client has gone     ├─▶ deadline: fails, and keeps its place
 *                                                              └─▶ lost with the connection
 *
 * At the end of the turn, what had come when it began is known, also that clients have hung up: a replica that stood
 * still reads that together with the answers of ZooKeeper by which it decides (protocol C35).
 *
 * A request fails with a `NoReplyError` that says whether it may have been applied, which is only possible once it was
 * written. So nothing else may write requests, and nothing is queued while there is no connection (defects 10 and 11).
 *
 * This is the hottest object below the recipes: a request costs one promise and one entry here, and all entries have
 * the same shape.
 */
import { randomInt } from 'node:crypto';
import type { Socket } from 'node:net';
import { ClientGoneError, PosternError } from '../../errors.js';
import type { Requester } from '../../time.js';
import { NoReplyError } from '../errors.js';
import type { Operation } from '../operations.js';
import type { Backlog } from './backlog.js';
import { deadlineSweep, type Swept } from './deadline-sweep.js';
import { flushSoon, type Flushed } from './flush.js';
import { ProtocolError, Writer } from './wire.js';

/**
 * jute.maxbuffer's default is 0xfffff for the packet without its length; the server drops the connection above it
 * (defect 15).
 */
export const MAX_PACKET_BYTES = 0xfffff;

/** Xids wrap to 1 well before 2^31 (defect 6); they are matched first in, first out, so a repetition is harmless. */
const XID_WRAP = 2 ** 31 - 2 ** 16;
/** Settled entries are cut off the front this many at a time. */
const DONE_MAX = 1_024;

export interface Pending {
  readonly xid: number;
  readonly operation: Operation<unknown>;
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: Error) => void;
  readonly sentAt: number;
  readonly deadline: number;
  /** Whose write it is; undefined for reads, and when it has been written. */
  requester: Requester | undefined;
  /** Undefined when it has been written. */
  frame: Buffer | undefined;
  /** It has been written to a socket. */
  sent: boolean;
  /** Its promise was settled at its deadline, before the reply. */
  settled: boolean;
}

/** What requests need from their connection. */
export interface Carrier {
  readonly socket: Socket | undefined;
  /** The number of the next request. */
  xid: number;
  /** A request was not answered by its deadline. */
  onOverdue(): void;
}

/**
 * The first xid of a connection. Not 0, which makes the server's throttling miscount (defect 5). For a session that was
 * attached before, not the numbers of that time: servers match commits to a session's requests by xid, and would answer
 * one request with the outcome of another.
 */
export function firstXid(isNewSession: boolean): number {
  return isNewSession ? 1 : randomInt(1, XID_WRAP);
}

export class Requests implements Swept, Flushed {
  readonly #carrier: Carrier;
  readonly #backlog: Backlog | undefined;
  /** In the order of sending. Those before `#head` are answered, and left out: what they were answered may be large. */
  #pending: (Pending | undefined)[] = [];
  #head = 0;
  #unsentFrom = 0;
  #outgoing: Buffer[] = [];
  #flushScheduled = false;

  constructor(carrier: Carrier, backlog: Backlog | undefined) {
    this.#carrier = carrier;
    this.#backlog = backlog;
  }

  get inFlight(): number {
    return this.#pending.length - this.#head;
  }

  /**
   * Sends one request. Resolves with the reply.
   * @param deadline on the monotonic clock
   * @param requester the client, if any: if it has gone when this is to be written, it is not (`ClientGoneError`)
   * @param xid for requests that have a number of their own
   */
  send<T>(operation: Operation<T>, deadline: number, requester?: Requester, xid = this.#nextXid()): Promise<T> {
    const writer = new Writer().int(0).int(xid).int(operation.opcode);
    try {
      operation.encode(writer);
    } catch (error) {
      // A value that cannot be serialised: nothing was sent.
      return Promise.reject(error instanceof Error ? error : new TypeError(String(error)));
    }
    if (writer.length - 4 > MAX_PACKET_BYTES) return Promise.reject(tooLarge(writer.length - 4));
    const frame = writer.finishFrame();
    const sentAt = performance.now();
    this.#backlog?.sent(sentAt);
    return new Promise<T>((resolve, reject) => {
      this.#pending.push({
        xid,
        operation,
        resolve: resolve as (value: unknown) => void,
        reject,
        sentAt,
        deadline,
        requester: operation.writes ? requester : undefined,
        frame,
        sent: false,
        settled: false,
      });
      deadlineSweep.add(this);
      this.write(frame);
    });
  }

  /** Sends a frame without waiting for its answer. */
  write(frame: Buffer): void {
    this.#outgoing.push(frame);
    if (this.#flushScheduled) return;
    this.#flushScheduled = true;
    flushSoon(this);
  }

  flush(): void {
    this.#flushScheduled = false;
    const { socket } = this.#carrier;
    if (socket?.writable !== true) return; // they fail when it closes, as not sent
    let withdrawn: Set<Pending> | undefined;
    for (let i = this.#unsentFrom; i < this.#pending.length; i += 1) {
      const pending = this.#pending[i] as Pending;
      if (pending.requester?.gone === true) (withdrawn ??= new Set()).add(pending);
      else {
        pending.sent = true;
        pending.requester = pending.frame = undefined; // which entries that are done would keep in memory
      }
    }
    if (withdrawn !== undefined) this.#withdraw(withdrawn);
    this.#unsentFrom = this.#pending.length;
    const outgoing = this.#outgoing;
    if (outgoing.length === 0) return;
    this.#outgoing = [];
    socket.write(outgoing.length === 1 ? (outgoing[0] as Buffer) : Buffer.concat(outgoing));
  }

  /**
   * Takes the request to which a reply with this xid belongs.
   * @throws ProtocolError if that is not the next in order
   */
  take(xid: number): Pending {
    const pending = this.#pending[this.#head];
    if (pending === undefined || pending.xid !== xid || !pending.sent) {
      throw new ProtocolError(`a reply has xid ${xid}, ${pending?.sent === true ? pending.xid : 'none'} was expected`);
    }
    this.#dropHead();
    return pending;
  }

  /** Called by the sweep. Returns whether anything is left to watch. */
  sweep(now: number): boolean {
    let late = false;
    for (let i = this.#head; i < this.#pending.length; i += 1) {
      const pending = this.#pending[i] as Pending;
      // A request that has not been written yet goes out in this turn, late or not: only then may it have been applied.
      if (pending.settled || !pending.sent || now < pending.deadline) continue;
      pending.settled = true;
      late = true;
      pending.reject(new NoReplyError(pending.operation.name, 'deadline', pending.operation.writes));
    }
    if (late) this.#carrier.onOverdue();
    return this.inFlight > 0;
  }

  /** The connection is gone: no further answers will come. */
  lose(cause: Error | undefined): void {
    const lost = this.#unanswered();
    this.#backlog?.lost(lost.length);
    this.#pending = [];
    this.#head = 0;
    this.#unsentFrom = 0;
    this.#outgoing = [];
    for (const pending of lost) {
      if (pending.settled) continue;
      pending.settled = true;
      const { name, writes } = pending.operation;
      pending.reject(new NoReplyError(name, 'connection-lost', pending.sent && writes, cause));
    }
  }

  #withdraw(withdrawn: ReadonlySet<Pending>): void {
    const frames = new Set(Array.from(withdrawn, ({ frame }) => frame));
    this.#outgoing = this.#outgoing.filter((frame) => !frames.has(frame));
    this.#pending = this.#unanswered().filter((pending) => !withdrawn.has(pending));
    this.#head = 0;
    this.#backlog?.lost(withdrawn.size);
    for (const { operation, reject } of withdrawn) reject(new ClientGoneError(operation.name));
  }

  #unanswered(): Pending[] {
    return this.#pending.slice(this.#head) as Pending[];
  }

  #dropHead(): void {
    this.#pending[this.#head] = undefined;
    this.#head += 1;
    if (this.#head === this.#pending.length) {
      this.#pending = [];
      this.#head = 0;
      this.#unsentFrom = 0;
    } else if (this.#head > DONE_MAX) {
      this.#pending.splice(0, this.#head);
      this.#unsentFrom -= this.#head;
      this.#head = 0;
    }
  }

  #nextXid(): number {
    const { xid } = this.#carrier;
    this.#carrier.xid = xid >= XID_WRAP ? 1 : xid + 1;
    return xid;
  }
}

function tooLarge(bytes: number): PosternError {
  const sentence = `The request takes ${bytes} bytes in ZooKeeper's protocol; the limit is ${MAX_PACKET_BYTES}.`;
  return new PosternError('too-large', sentence, { members: { maxBytes: MAX_PACKET_BYTES } });
}
