/**
 * Readings that many requests share. A change may answer a thousand long polls at once; those that end together take one reading.
 * Whoever asks takes one that was begun after its request had arrived, so what it is told is no older than the request.
 */
import { byDeadline } from '../zookeeper/by-deadline.js';

const READ_MS = 10_000;

export class SharedReadings<T> {
  readonly #what: string;
  readonly #readings = new Map<string, { begunAt: number; reading: Promise<T> }>();

  /** @param what is read, for the words of an error */
  constructor(what: string) {
    this.#what = what;
  }

  /**
   * @param since monotonic: the reading must not have been begun before
   * @param read is given a deadline of its own, because it is shared
   */
  read(key: string, since: number, deadline: number, read: (deadline: number) => Promise<T>): Promise<T> {
    let shared = this.#readings.get(key);
    if (shared === undefined || shared.begunAt < since) {
      const begunAt = performance.now();
      const reading = read(begunAt + READ_MS).finally(() => {
        if (this.#readings.get(key)?.reading === reading) this.#readings.delete(key);
      });
      shared = { begunAt, reading };
      this.#readings.set(key, shared);
    }
    return byDeadline(shared.reading, deadline, this.#what);
  }
}
