/**
 * When this replica learnt of lost holds, on its own monotonic clock: the ensemble's clock measures elapsed time only
 * as well as its servers agree, and another leader may be a minute ahead (protocol C40).
 *
 * Bounded: a forgotten loss is seen anew, and its delay waited for once more.
 */
import { LruMap } from '../../../lru-map.js';

const KNOWN_MAX = 20_000;

export interface KnownLoss {
  /** Monotonic. */
  readonly since: number;
  /** Found by this replica, so that the delay began then; otherwise it had been found before. */
  readonly foundHere: boolean;
}

export class LostHolds {
  readonly #known = new LruMap<string, KnownLoss>(KNOWN_MAX);

  /** @param mark path of the mark, which never comes again for another hold */
  know(mark: string, foundHere: boolean): KnownLoss {
    let known = this.#known.get(mark);
    if (known === undefined) this.#known.set(mark, (known = { since: performance.now(), foundHere }));
    return known;
  }

  forget(mark: string): void {
    this.#known.delete(mark);
  }
}
