/**
 * How many requests to ZooKeeper may be under way while new work is taken on, once ZooKeeper answers later than it should.
 *
 * Every quarter of a second: when answers were late on average, the limit becomes 70 % of what was under way, so that the queue in front of ZooKeeper
 * gets shorter; when they were not, it grows by a tenth. It is lifted when nothing has come near it for a second. So replicas that share an
 * ensemble come to share what it can do, none of them knowing of the others. It never goes below `UNDER_WAY_MIN`: so few requests are no
 * queue, whatever makes them slow.
 */
import type { Backlog } from './backlog.js';

/** Times the delay that is too much for the event loop: more than a healthy ensemble takes between continents, a fraction of the shortest TTL. */
const LATE_DELAYS = 5;
const LOOK_EVERY_MS = 250;
const UNDER_WAY_MIN = 32;
const SHRINK_TO = 0.7;
const GROW_BY = 1.1;
/** Of the limit: what stays below it did not feel it. */
const UNFELT = 0.5;
const UNFELT_LOOKS = 4;

/** Told by looks; between them, one comparison. */
export class BacklogLimit {
  readonly #backlog: Backlog;
  readonly #lateMs: number;
  #limit = Infinity;
  #lookedAt: number;
  #unfelt = 0;

  /** @param delayMs by how much the event loop may be late @param now monotonic */
  constructor(backlog: Backlog, delayMs: number, now: number) {
    this.#backlog = backlog;
    this.#lateMs = delayMs * LATE_DELAYS;
    this.#lookedAt = now;
  }

  /** Whether there is a limit now. */
  get set(): boolean {
    return this.#limit !== Infinity;
  }

  get reached(): boolean {
    return this.#backlog.size >= this.#limit;
  }

  /** To be called often. @param now monotonic */
  look(now: number): void {
    const sinceMs = now - this.#lookedAt;
    if (sinceMs < LOOK_EVERY_MS) return;
    this.#lookedAt = now;
    const { delayMs, largest, silent } = this.#backlog.take(now);
    // This process stood still: answers that came meanwhile are not read yet.
    if (silent && sinceMs > 2 * LOOK_EVERY_MS) return;
    if (delayMs > this.#lateMs && largest >= UNDER_WAY_MIN) {
      this.#limit = Math.max(UNDER_WAY_MIN, Math.floor(Math.min(this.#limit, largest) * SHRINK_TO));
      this.#unfelt = 0;
    } else if (this.set) {
      this.#unfelt = largest < this.#limit * UNFELT ? this.#unfelt + 1 : 0;
      this.#limit = this.#unfelt >= UNFELT_LOOKS ? Infinity : Math.ceil(this.#limit * GROW_BY);
    }
  }
}
