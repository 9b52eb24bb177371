/**
 * The ensemble's clock, as far as it can be known: every write is answered with the leader's time (`mtime`).
 *
 * Replicas must agree on when a wait in line ran out or a grace period ends. Their own clocks do not agree. The
 * leader's time, carried forward on the monotonic clock, does, to within half the round trip of the write that told it
 * and the clocks' drift since then. A slow write tells little: it does not replace better knowledge, however old.
 * Whatever must not happen early goes by the earliest possible time.
 *
 * The servers' clocks need not agree, and one may be set. Then the replicas' time leaps when the leader changes:
 * scheduled events happen early or late by as much. The next write shows it, and `onLeap` is called.
 */

/** A write no slower than this is accepted at once, so that another leader's clock is adopted. */
const GOOD_ROUND_TRIP_MS = 50;
/** Fraction of the elapsed time, between any two clocks: the drift of clocks that are slewed (500 ppm each). */
const DRIFT = 1 / 1_000;
/** A maintained clock does not deviate this far beyond the error of its estimate. */
const LEAP_MS = 1_000;

export class ServerClock {
  #offset: number | undefined;
  /** The largest error of the offset when it was measured. */
  #errorMs = 0;
  #sampledAt = -Infinity;
  /** The last result of `now`. */
  #told = -Infinity;
  readonly #onLeap: (ms: number) => void;

  /**
   * @param onLeap called with how much more (negative: less) the ensemble's time advanced than the monotonic clock, ms
   */
  constructor(onLeap: (ms: number) => void = () => undefined) {
    this.#onLeap = onLeap;
  }

  /**
   * @param serverTime `mtime` or `ctime` of the write, epoch ms on the leader's clock; 0 from a server that does not
   *   tell
   * @param sentAt, receivedAt when the write was sent and answered, on the monotonic clock
   */
  observe(serverTime: number, sentAt: number, receivedAt: number): void {
    if (serverTime === 0) return;
    const offset = serverTime - (sentAt + receivedAt) / 2;
    const errorMs = (receivedAt - sentAt) / 2;
    const change = offset - (this.#offset ?? offset);
    const explained = errorMs + this.errorMs;
    // If both errors together cannot explain the change, the clock itself has changed, however slow the write was.
    if (errorMs > GOOD_ROUND_TRIP_MS / 2 && errorMs >= this.errorMs && Math.abs(change) <= explained) return;
    this.#offset = offset;
    this.#errorMs = errorMs;
    this.#sampledAt = receivedAt;
    if (Math.abs(change) > LEAP_MS + explained) this.#onLeap(Math.round(change));
  }

  /** Whether a write was seen. Before that, `now` is this machine's clock, from which nothing about others follows. */
  get known(): boolean {
    return this.#offset !== undefined;
  }

  /** The largest error of `now` in ms, unless the leader's clock has changed; Infinity before the first write. */
  get errorMs(): number {
    return this.known ? this.#errorMs + Math.max(0, performance.now() - this.#sampledAt) * DRIFT : Infinity;
  }

  /**
   * Epoch ms on the leader's clock; the local clock before the first write. It does not go back when the leader's time
   * becomes known better, only when that leaps: whatever this replica orders by it (delayed messages) keeps its order
   * of arrival.
   */
  now(): number {
    if (!this.known) return Date.now();
    const now = this.#estimate();
    if (now > this.#told || this.#told - now > LEAP_MS) this.#told = now;
    return this.#told;
  }

  /** A lower bound of the leader's clock, once a write was seen; epoch ms. */
  earliest(): number {
    return this.known ? this.#estimate() - this.errorMs : Date.now();
  }

  /** An upper bound of the leader's clock, once a write was seen; epoch ms. */
  latest(): number {
    return this.known ? this.#estimate() + this.errorMs : Date.now();
  }

  #estimate(): number {
    return performance.now() + (this.#offset ?? 0);
  }
}
