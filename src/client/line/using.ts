/**
 * Work under a hold: acquired, done, released. Re-entrant along the chain of calls: inside the function, the same thing
 * is not acquired again but counted, and released when the last of these functions has ended. Elsewhere in the program
 * it is: two functions that do not call each other exclude each other, as those of two programs do.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import type { Hold } from '../lease/hold.js';

interface Counted {
  hold: Hold;
  count: number;
}

export class Using {
  readonly #entered = new AsyncLocalStorage<ReadonlyMap<string, Counted>>();

  /** Whether the present chain of calls works under it. */
  holds(key: string): boolean {
    return (this.#entered.getStore()?.get(key)?.count ?? 0) > 0;
  }

  /**
   * @param key names what is held; without it nothing is shared
   * @param acquire called if the present chain of calls does not work under it yet
   * @returns what `work` returns
   * @throws what `work` throws; the reason of the hold's signal if it was lost before `work` was done; `HoldLostError`,
   *   and `work` does not run, if what is shared is not held any more
   */
  async run<T>(
    key: string | undefined,
    acquire: () => Promise<Hold>,
    work: (hold: Hold) => T | Promise<T>,
  ): Promise<T> {
    const present = this.#entered.getStore();
    const shared = key === undefined ? undefined : present?.get(key);
    const counted = shared && shared.count > 0 ? shared : { hold: await acquire(), count: 0 };
    const { hold } = counted;
    // It may have been lost, or given back, since the outer function began.
    if (counted === shared) hold.assertHeld();
    counted.count += 1;
    try {
      const entered = key === undefined ? present : new Map(present).set(key, counted);
      const result = await this.#entered.run(entered ?? new Map(), async () => work(hold));
      hold.signal.throwIfAborted();
      return result;
    } finally {
      counted.count -= 1;
      // A release that was not answered is no failure of the work: the lease frees what it holds.
      if (counted.count === 0) await hold.release().catch(() => {});
    }
  }
}
