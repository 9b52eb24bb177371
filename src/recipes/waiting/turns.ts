/**
 * Work on one znode takes turns within a replica, in order of arrival: otherwise all concurrent read-then-write
 * operations but one would fail and read again. What remains is contention between replicas, of which one wins every
 * round.
 */
import { byDeadline } from '../../zookeeper/by-deadline.js';

export class Turns {
  /** By what is worked on: settles when all who came so far are done with it. */
  readonly #tails = new Map<string, Promise<unknown>>();

  /** Names that somebody works on, or waits for. */
  get size(): number {
    return this.#tails.size;
  }

  /**
   * Runs `work` when everybody who came before is done with each of the names.
   * @throws NoReplyError at the deadline, nothing done
   */
  async take<T>(names: readonly string[], deadline: number, work: () => Promise<T>): Promise<T> {
    const before = names.flatMap((name) => this.#tails.get(name) ?? []);
    let finish = (): void => undefined;
    const mine = new Promise<void>((resolve) => (finish = resolve));
    // Whoever gives up waiting is done, those before it are not.
    const tail = Promise.all([...before, mine]).then(() => {
      for (const name of names) if (this.#tails.get(name) === tail) this.#tails.delete(name);
    });
    for (const name of names) this.#tails.set(name, tail);
    try {
      if (before.length > 0) await byDeadline(Promise.all(before), deadline, 'the write');
      return await work();
    } finally {
      finish();
    }
  }
}
