/**
 * What this gateway has asked of ZooKeeper and has no answer to yet, over all its sessions; and how long answers take.
 *
 * Only answers that went through the leader count, in order with all others: writes, and `sync`. What a server answers by itself passes
 * any queue there is.
 */

export class Backlog {
  #size = 0;
  #largest = 0;
  #answers = 0;
  #totalMs = 0;
  /** Of the last answer, or of the first request after there was none under way; monotonic. */
  #movedAt = 0;

  /** Requests under way. */
  get size(): number {
    return this.#size;
  }

  /** @param now monotonic */
  sent(now: number): void {
    if (this.#size === 0) this.#movedAt = now;
    this.#size += 1;
    if (this.#size > this.#largest) this.#largest = this.#size;
  }

  /**
   * @param ms since it was sent
   * @param ordered whether it went through the leader
   */
  answered(now: number, ms: number, ordered: boolean): void {
    this.#size -= 1;
    if (!ordered) return;
    this.#movedAt = now;
    this.#answers += 1;
    this.#totalMs += ms;
  }

  /** Requests whose connection is gone. */
  lost(count: number): void {
    this.#size -= count;
  }

  /**
   * What happened since this was asked last.
   * @param now monotonic
   */
  take(now: number): BacklogLook {
    const answers = this.#answers;
    const silentMs = this.#size === 0 ? 0 : now - this.#movedAt;
    const look = { delayMs: answers === 0 ? silentMs : this.#totalMs / answers, answers, largest: this.#largest };
    this.#answers = 0;
    this.#totalMs = 0;
    this.#largest = this.#size;
    return look;
  }
}

export interface BacklogLook {
  /** What an answer took on average; without any, for how long there has been none. */
  readonly delayMs: number;
  /** Those that went through the leader. */
  readonly answers: number;
  /** The most requests that were under way at once. */
  readonly largest: number;
}
