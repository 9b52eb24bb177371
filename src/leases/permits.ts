/**
 * Bounds how many things run at once; each wait for a permit has a deadline. Urgent ones go first, otherwise first
 * come, first served. ZooKeeper accepts connections from a queue of 50: more in flight cost a second each.
 */
import { NoReplyError } from '../zookeeper/errors.js';

interface Waiting {
  resolve: () => void;
  timer: NodeJS.Timeout;
}

export class Permits {
  #free: number;
  readonly #urgent = new Set<Waiting>();
  readonly #others = new Set<Waiting>();

  constructor(count: number) {
    this.#free = count;
  }

  /**
   * Resolves with a permit, which must be given back with `release`.
   * @throws NoReplyError at the deadline
   */
  acquire(deadline: number, urgent = false): Promise<void> {
    if (this.#free > 0) {
      this.#free -= 1;
      return Promise.resolve();
    }
    const queue = urgent ? this.#urgent : this.#others;
    return new Promise((resolve, reject) => {
      const timer = setTimeout(
        () => {
          queue.delete(waiting);
          reject(new NoReplyError('the attach of the lease', 'deadline', false));
        },
        Math.max(0, deadline - performance.now()),
      );
      const waiting: Waiting = { resolve, timer };
      queue.add(waiting);
    });
  }

  release(): void {
    const queue = this.#urgent.size > 0 ? this.#urgent : this.#others;
    for (const next of queue) {
      queue.delete(next);
      clearTimeout(next.timer);
      next.resolve();
      return;
    }
    this.#free += 1;
  }
}
