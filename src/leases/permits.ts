/**
 * A bounded number of things at once, first come first served, each wait bounded by a deadline.
 * ZooKeeper accepts connections from a queue of 50: more than that in flight cost a second each.
 */
import { NoReplyError } from '../zookeeper/errors.js';

interface Waiting {
  resolve: () => void;
  timer: NodeJS.Timeout;
}

export class Permits {
  #free: number;
  readonly #queue = new Set<Waiting>();

  constructor(count: number) {
    this.#free = count;
  }

  /** Resolves with a permit that must be given back with `release`. @throws NoReplyError at the deadline */
  acquire(deadline: number): Promise<void> {
    if (this.#free > 0) {
      this.#free -= 1;
      return Promise.resolve();
    }
    return new Promise((resolve, reject) => {
      const timer = setTimeout(
        () => {
          this.#queue.delete(waiting);
          reject(new NoReplyError('the attach of the lease', 'deadline', false));
        },
        Math.max(0, deadline - performance.now()),
      );
      const waiting: Waiting = { resolve, timer };
      this.#queue.add(waiting);
    });
  }

  release(): void {
    for (const next of this.#queue) {
      this.#queue.delete(next);
      clearTimeout(next.timer);
      next.resolve();
      return;
    }
    this.#free += 1;
  }
}
