/**
 * Readings that many requests share. A change may answer a thousand long polls at once; those that end together take
 * one reading. A caller takes one that began after its request arrived, so the answer is no older than the request. If
 * there is none, one begins at once, whatever else is running: a reader waits for nobody. (Work that writes runs one at
 * a time instead: `SharedLooks`.)
 */
import { byDeadline } from '../../zookeeper/by-deadline.js';
import { isTransient } from '../../zookeeper/errors.js';

const READ_MS = 10_000;
/** A timer may ring a little earlier than this clock says. */
const EARLY_MS = 5;

interface Shared<T> {
  begunAt: number;
  /** When it gives up: it is not that of any one request. */
  until: number;
  reading: Promise<T>;
}

export class SharedReadings<T> {
  readonly #what: string;
  readonly #readings = new Map<string, Shared<T>>();

  /** @param what is read, for the words of an error */
  constructor(what: string) {
    this.#what = what;
  }

  /**
   * @param since monotonic: the reading must not have been begun before
   * @param read is given a deadline of its own, because it is shared; where that is over first, it begins again
   */
  async read(key: string, since: number, deadline: number, read: (deadline: number) => Promise<T>): Promise<T> {
    for (;;) {
      let shared = this.#readings.get(key);
      if (shared === undefined || shared.begunAt < since) shared = this.#begin(key, read);
      try {
        return await byDeadline(shared.reading, deadline, this.#what);
      } catch (error) {
        const now = performance.now();
        if (!isTransient(error) || now < shared.until - EARLY_MS || now >= deadline) throw error;
      }
    }
  }

  #begin(key: string, read: (deadline: number) => Promise<T>): Shared<T> {
    const begunAt = performance.now();
    const until = begunAt + READ_MS;
    const reading = read(until).finally(() => {
      if (this.#readings.get(key)?.reading === reading) this.#readings.delete(key);
    });
    const shared = { begunAt, until, reading };
    this.#readings.set(key, shared);
    return shared;
  }
}
