/**
 * The ensemble's clock, as far as it can be known: every write is answered with the leader's time (`mtime`).
 *
 * Replicas must agree on when a wait in line ran out or a grace period ends. Their own clocks do not agree;
 * the leader's time, carried forward on the monotonic clock, does, to within half a round trip and the
 * leader's own drift.
 */

const GOOD_ROUND_TRIP_MS = 50;
const STALE_AFTER_MS = 60_000;

export class ServerClock {
  #offset: number | undefined;
  #sampledAt = -Infinity;

  /**
   * @param serverTime `mtime` or `ctime` of the write, epoch ms on the leader's clock
   * @param sentAt, receivedAt when the write was sent and answered, on the monotonic clock
   */
  observe(serverTime: number, sentAt: number, receivedAt: number): void {
    const good = receivedAt - sentAt <= GOOD_ROUND_TRIP_MS;
    if (!good && receivedAt - this.#sampledAt < STALE_AFTER_MS) return;
    this.#offset = serverTime - (sentAt + receivedAt) / 2;
    this.#sampledAt = receivedAt;
  }

  /** Whether a write was seen: before, `now` is this machine's clock, from which nothing about others may be concluded. */
  get known(): boolean {
    return this.#offset !== undefined;
  }

  /** Epoch ms on the leader's clock; the local clock until a first write was seen. */
  now(): number {
    return this.#offset === undefined ? Date.now() : performance.now() + this.#offset;
  }
}
