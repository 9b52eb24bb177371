/**
 * Whether the server is heard, and since when the session is known to live.
 *
 * A control connection pings, and ends if nothing arrives for too long (defects 2 and 4). Without a connection, the
 * session is given up after a while, because only a server that answers can report its end (defect 19). A lease
 * connection does neither: it only remembers which of its requests the leader has heard of in time.
 */
import type { Socket } from 'node:net';
import jute from 'node-zookeeper-client/lib/jute/index.js';
import { OPCODE } from '../operations.js';
import { Writer } from './wire.js';

/**
 * A silent connection counts as dead after two thirds of the timeout, as in ZooKeeper's own client: a third is left to
 * reconnect.
 */
const READ_LIMIT = 2 / 3;
const PING_EVERY = 1 / 3;
/** If no server could be reached for this part of the timeout, the session is given up locally (ZOOKEEPER-4508). */
const LOCAL_LAPSE = 4 / 3;

export class Liveness {
  readonly #pings: boolean;
  #touchedAt = performance.now();
  #heardAt = 0;
  #pingSentAt = 0;
  /** When the unanswered pings were sent, in order. */
  #pingsInFlight: number[] = [];
  #timer: NodeJS.Timeout | undefined;
  #lapse: NodeJS.Timeout | undefined;

  /** @param pings whether the connection keeps its session alive by itself */
  constructor(pings: boolean) {
    this.#pings = pings;
  }

  /**
   * When the last request was sent of which the leader hears in time, monotonic; the handshake is the first. Every half
   * tick, a follower tells its leader which sessions it has heard. A tick is at most half of a session's timeout. So an
   * answer counts if it comes within half the timeout after the last one that counts: by then the leader has heard of
   * that one, and it will hear of this one before the session ends. A later answer may be that of a session about to
   * end; after it only a new handshake counts, which is asked of the leader (protocol C5).
   */
  get touchedAt(): number {
    return this.#touchedAt;
  }

  /** Something has arrived. */
  heard(): void {
    this.#heardAt = performance.now();
  }

  /**
   * The leader has granted the handshake's request.
   * @param sentAt when that was sent
   */
  granted(sentAt: number): void {
    this.#touchedAt = sentAt;
    clearTimeout(this.#lapse);
  }

  /** A request that was sent at `sentAt` has been answered. */
  answered(sentAt: number, answeredAt: number, timeoutMs: number): void {
    if (sentAt <= this.#touchedAt) return;
    const counts = this.#pings || answeredAt - this.#touchedAt <= timeoutMs / 2;
    if (counts) this.#touchedAt = sentAt;
  }

  /** The oldest ping in flight has been answered. */
  ponged(timeoutMs: number): void {
    this.answered(this.#pingsInFlight.shift() ?? 0, this.#heardAt, timeoutMs);
  }

  /** Pings on a timer of its own, and ends `socket` if nothing is received on it. */
  watch(socket: Socket | undefined, timeoutMs: number, send: (ping: Buffer) => void): void {
    clearInterval(this.#timer);
    this.#pingsInFlight = [];
    const ping = (): void => {
      this.#pingSentAt = performance.now();
      this.#pingsInFlight.push(this.#pingSentAt);
      send(new Writer(12).int(8).int(jute.XID_PING).int(OPCODE.ping).finish());
    };
    ping();
    const look = (now: number): void => {
      if (now - this.#heardAt <= timeoutMs * READ_LIMIT) return;
      socket?.destroy(new Error(`nothing was received for ${Math.round(timeoutMs * READ_LIMIT)} ms`));
    };
    this.#timer = setInterval(() => {
      if (performance.now() - this.#pingSentAt > timeoutMs * (PING_EVERY - 1 / 12)) ping();
      // Runs after the sockets were read, with the time from before: after a standstill, what arrived meanwhile has not
      // been read yet.
      setImmediate(look, performance.now());
    }, timeoutMs / 6);
  }

  /** The socket is gone. */
  stopWatching(): void {
    clearInterval(this.#timer);
  }

  /** Calls `expire` once no server has been reached for so long that the session must have ended. */
  startLapse(timeoutMs: number, expire: () => void): void {
    clearTimeout(this.#lapse);
    const remaining = this.#touchedAt + timeoutMs * LOCAL_LAPSE - performance.now();
    this.#lapse = setTimeout(expire, Math.max(0, remaining));
  }

  stop(): void {
    clearInterval(this.#timer);
    clearTimeout(this.#lapse);
  }
}
