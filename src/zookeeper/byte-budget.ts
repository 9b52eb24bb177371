/**
 * Bounds the bytes of large answers in flight on one connection. All requests of a replica share its control session:
 * many large readings at once would fill its memory, and small answers would wait behind them. Large readings wait here
 * for their share, first come, first served, until their deadline.
 */
import { PosternError } from '../errors.js';

interface Waiting {
  bytes: number;
  resolve: () => void;
  timer: NodeJS.Timeout;
}

export class ByteBudget {
  readonly #max: number;
  #free: number;
  readonly #waiting = new Set<Waiting>();

  constructor(max: number) {
    this.#max = max;
    this.#free = max;
  }

  /**
   * Does `work` with that many bytes reserved. Work must not ask for more inside: two that did would wait for each
   * other.
   * @param bytes capped at the whole budget
   * @throws PosternError `overloaded` if there is no room by the deadline
   */
  async spend<T>(bytes: number, deadline: number, work: () => Promise<T>): Promise<T> {
    const taken = Math.min(bytes, this.#max);
    await this.#take(taken, deadline);
    try {
      return await work();
    } finally {
      this.#free += taken;
      this.#serve();
    }
  }

  #take(bytes: number, deadline: number): Promise<void> {
    if (this.#waiting.size === 0 && bytes <= this.#free) {
      this.#free -= bytes;
      return Promise.resolve();
    }
    return new Promise((resolve, reject) => {
      const timer = setTimeout(
        () => {
          this.#waiting.delete(waiting);
          this.#serve(); // what came behind it may have room
          reject(
            new PosternError(
              'overloaded',
              `This replica is reading as many bytes from ZooKeeper as it may at once (${this.#max}). Nothing was done.`,
              { members: { limit: 'maxReadBytesAtOnce', maxReadBytesAtOnce: this.#max } },
            ),
          );
        },
        Math.max(0, deadline - performance.now()),
      );
      const waiting: Waiting = { bytes, resolve, timer };
      this.#waiting.add(waiting);
    });
  }

  #serve(): void {
    for (const waiting of this.#waiting) {
      if (waiting.bytes > this.#free) return;
      this.#free -= waiting.bytes;
      this.#waiting.delete(waiting);
      clearTimeout(waiting.timer);
      waiting.resolve();
    }
  }
}
