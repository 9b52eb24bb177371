/**
 * Readings that many requests share. A change may answer a thousand long polls at once, and a thousand may ask for one
 * thing; a caller takes a reading that began after its request arrived, so the answer is no older than the request. One
 * is under way, and one may follow (`SharedLooks`). Nobody would gain by a second one beside it: what is asked of
 * ZooKeeper on one connection is answered in the order in which it was asked.
 */
import { byDeadline } from '../../zookeeper/by-deadline.js';
import { isTransient } from '../../zookeeper/errors.js';
import { SharedLooks } from './shared-look.js';

const READ_MS = 10_000;
/** A timer may ring a little earlier than this clock says. */
const EARLY_MS = 5;

/** `gaveUp`: the time of the reading was over, which is not that of any one request. */
type Outcome<T> = { value: T } | { gaveUp: unknown };

export class SharedReadings<T> {
  readonly #what: string;
  readonly #readings = new SharedLooks<Outcome<T>>();

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
      const outcome = await byDeadline(
        this.#readings.ask(key, () => readOnce(read), { since }),
        deadline,
        this.#what,
      );
      if ('value' in outcome) return outcome.value;
      if (performance.now() >= deadline) throw outcome.gaveUp;
    }
  }
}

async function readOnce<T>(read: (deadline: number) => Promise<T>): Promise<Outcome<T>> {
  const until = performance.now() + READ_MS;
  try {
    return { value: await read(until) };
  } catch (error) {
    if (!isTransient(error) || performance.now() < until - EARLY_MS) throw error;
    return { gaveUp: error };
  }
}
