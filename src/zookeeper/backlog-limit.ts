/**
 * How many requests to ZooKeeper may be under way while new work is taken on, once ZooKeeper answers later than it should.
 *
 * Every quarter of a second: when answers were late on average, the limit becomes 70 % of what was under way, so that the queue in front of ZooKeeper
 * gets shorter; when they were not, it grows by a tenth. It is lifted when nothing has come near it for a second. So replicas that share an
 * ensemble come to share what it can do, none of them knowing of the others.
 *
 * Never below `UNDER_WAY_MIN`, and new work always has a share of what ZooKeeper does: where something else than we makes it slow (a disk; a machine that
 * gave it a thirtieth of a core, where the heartbeats alone were more than that least), less from us does not help, and all new work would be
 * refused for as long as that lasts.
 */
import type { Backlog } from './backlog.js';

/** Times the delay that is too much for the event loop: more than a healthy ensemble takes between continents, a fraction of the shortest TTL. */
const LATE_DELAYS = 5;
const LOOK_EVERY_MS = 250;
const UNDER_WAY_MIN = 64;
const SHRINK_TO = 0.7;
const GROW_BY = 1.1;
/** Of what was answered since the last look; each request of new work takes a few answers, and they must not pay for more than themselves. */
const SHARE_OF_ANSWERS = 0.1;
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
  /** Requests of new work that are taken on before the next look, whatever is under way. */
  #share = 0;

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

  /** Whether there is room for one more request of new work, which then has it. */
  admit(): boolean {
    if (this.#backlog.size < this.#limit) return true;
    if (this.#share < 1) return false;
    this.#share -= 1;
    return true;
  }

  /** To be called often. @param now monotonic */
  look(now: number): void {
    const sinceMs = now - this.#lookedAt;
    if (sinceMs < LOOK_EVERY_MS) return;
    this.#lookedAt = now;
    const { delayMs, largest, answers } = this.#backlog.take(now);
    // This process stood still: answers that came meanwhile are not read yet.
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
