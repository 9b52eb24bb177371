/**
 * Limits the requests to ZooKeeper in flight while new work is admitted, once ZooKeeper answers late.
 *
 * Every quarter of a second: if answers were late on average, the limit becomes 70 % of what was in flight, so that the
 * queue in front of ZooKeeper shrinks; if not, it grows by a tenth. It is lifted when nothing has come near it for a
 * second. So replicas that share an ensemble come to share its capacity without knowing of each other.
 *
 * It never falls below `UNDER_WAY_MIN`, and new work always gets a share of ZooKeeper's answers. If something else
 * makes ZooKeeper slow (a disk; or a machine that gave it a thirtieth of a core, where the heartbeats alone exceeded
 * that minimum), sending less does not help, and all new work would be refused for as long as that lasts.
 */
import type { Backlog } from './backlog.js';

/**
 * A multiple of the delay that is too much for the event loop: more than a healthy ensemble takes between continents, a
 * fraction of the shortest TTL.
 */
const LATE_DELAYS = 5;
const LOOK_EVERY_MS = 250;
const UNDER_WAY_MIN = 64;
const SHRINK_TO = 0.7;
const GROW_BY = 1.1;
/**
 * Of the answers since the last look. Each request of new work takes a few answers, so they pay for no more than it.
 */
const SHARE_OF_ANSWERS = 0.1;
/** Of the limit: load below this did not feel it. */
const UNFELT = 0.5;
const UNFELT_LOOKS = 4;

/** Updated at each look; between looks, one comparison. */
export class BacklogLimit {
  readonly #backlog: Backlog;
  readonly #lateMs: number;
  #limit = Infinity;
  #lookedAt: number;
  #unfelt = 0;
  /** Requests of new work that are admitted before the next look, whatever is in flight. */
  #share = 0;

  /**
   * @param delayMs how late the event loop may be
   * @param now monotonic
   */
  constructor(backlog: Backlog, delayMs: number, now: number) {
    this.#backlog = backlog;
    this.#lateMs = delayMs * LATE_DELAYS;
    this.#lookedAt = now;
  }

  /** Whether there is a limit now. */
  get set(): boolean {
    return this.#limit !== Infinity;
  }

  /** Whether there is room for one more request of new work; if so, takes it. */
  admit(): boolean {
    if (this.#backlog.size < this.#limit) return true;
    if (this.#share < 1) return false;
    this.#share -= 1;
    return true;
  }

  /**
   * Call it often.
   * @param now monotonic
   */
  look(now: number): void {
    const sinceMs = now - this.#lookedAt;
    if (sinceMs < LOOK_EVERY_MS) return;
    this.#lookedAt = now;
    const { delayMs, largest, answers } = this.#backlog.take(now);
    // After a standstill, answers that arrived meanwhile are not read yet.
    if (answers === 0 && sinceMs > 2 * LOOK_EVERY_MS) return;
    this.#share = Math.ceil(answers * SHARE_OF_ANSWERS);
    if (delayMs > this.#lateMs && largest >= UNDER_WAY_MIN) {
      this.#limit = Math.max(UNDER_WAY_MIN, Math.floor(Math.min(this.#limit, largest) * SHRINK_TO));
      this.#unfelt = 0;
    } else if (this.set) {
      this.#unfelt = largest < this.#limit * UNFELT ? this.#unfelt + 1 : 0;
      this.#limit = this.#unfelt >= UNFELT_LOOKS ? Infinity : Math.ceil(this.#limit * GROW_BY);
    }
  }
}
