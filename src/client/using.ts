/**
 * Work under a hold: acquired, done, released. Re-entrant along the chain of calls: inside the function, the same thing
 * is not acquired again but counted, and released when the last of these functions has ended. Elsewhere in the program
 * it is: two functions that do not call each other exclude each other, as those of two programs do.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import type { Hold } from './hold.js';

interface Counted {
  hold: Hold;
  count: number;
}

export class Using {
  readonly #entered = new AsyncLocalStorage<ReadonlyMap<string, Counted>>();

  /** The hold under this key that the present chain of calls works under. */
  held(key: string): Hold | undefined {
    const counted = this.#entered.getStore()?.get(key);
    return counted && counted.count > 0 ? counted.hold : undefined;
  }

  /**
   * @param acquire called if the present chain of calls does not work under it yet
   * @returns what `work` returns
   * @throws what `work` throws; the reason of the hold's signal if it was lost before `work` was done
   */
  async run<T>(key: string, acquire: () => Promise<Hold>, work: (hold: Hold) => T | Promise<T>): Promise<T> {
    const present = this.#entered.getStore();
    let counted = present?.get(key);
    if (counted === undefined || counted.count === 0) counted = { hold: await acquire(), count: 0 };
    const { hold } = counted;
    counted.count += 1;
    try {
      const entered = new Map(present).set(key, counted);
      const result = await this.#entered.run(entered, async () => work(hold));
      hold.signal.throwIfAborted();
      return result;
    } finally {
      counted.count -= 1;
      // An answer that did not come is not the failure of the work: the release is repeated until the lease ends.
      if (counted.count === 0) await hold.release().catch(() => {});
    }
  }
}
