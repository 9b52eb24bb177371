/**
 * The requests to ZooKeeper that have no answer yet, over all sessions of this gateway; and how long answers take.
 *
 * Only answers that went through the leader count, in order with all others: writes, and `sync`. Reads that a server
 * answers by itself pass any queue.
 */

export class Backlog {
  #size = 0;
  #largest = 0;
  #answers = 0;
  #totalMs = 0;
  /** When the last answer came, or the first request after none was in flight; monotonic. */
  #movedAt = 0;

  /** Requests in flight. */
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
   * @param ms since the request was sent
   * @param ordered whether it went through the leader
   */
  answered(now: number, ms: number, ordered: boolean): void {
    this.#size -= 1;
    if (!ordered) return;
    this.#movedAt = now;
    this.#answers += 1;
    this.#totalMs += ms;
  }

  /** Requests whose connection was lost. */
  lost(count: number): void {
    this.#size -= count;
  }

  /**
   * What happened since the last call.
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
  /** Average duration of the answers; without any, the time without one. */
  readonly delayMs: number;
  /** Answers that went through the leader. */
  readonly answers: number;
  /** The most requests that were in flight at once. */
  readonly largest: number;
}
