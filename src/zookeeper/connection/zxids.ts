/**
 * How the transaction ids of the ensemble are numbered here: from certain ones on, a floor is added to each. So fencing
 * tokens, ETags, cursors and everything else that is made of them goes on rising in an ensemble that counts from the
 * beginning (protocol C99).
 *
 * Everything above the connections sees these numbers alone; only what is sent to a server is in its own. They rise
 * with those of the ensemble, as the floors do; and each floor is a multiple of 2^32, so that two ids of one leader
 * differ above that bit only where the floor changed between them.
 */
import { ProtocolError } from './wire.js';

/** What one leader numbers. */
const EPOCH = 2 ** 32;

/** From the ensemble's transaction `from` on, `floor` is added. */
export interface FloorStep {
  readonly from: number;
  readonly floor: number;
}

export class Zxids {
  /** The last step; nothing is added as long as there is none. */
  #from = Infinity;
  #floor = 0;
  #earlier: readonly FloorStep[] = [];

  /** @param steps in rising order, of both numbers */
  number(steps: readonly FloorStep[]): void {
    const last = steps.at(-1);
    this.#from = last?.from ?? Infinity;
    this.#floor = last?.floor ?? 0;
    this.#earlier = steps.slice(0, -1).reverse();
  }

  /** The number of the first transaction of the present floor; 0 if there is no floor. */
  get first(): number {
    return this.#floor === 0 ? 0 : this.#from + this.#floor;
  }

  /**
   * @param zxid as the ensemble has it; 0 and -1 stand for none
   * @throws ProtocolError if the number cannot be told exactly any more
   */
  of(zxid: number): number {
    if (zxid < this.#from && this.#earlier.length === 0) return zxid;
    const floor = zxid >= this.#from ? this.#floor : this.#earlierFloor(zxid);
    const number = zxid + floor;
    if (number > Number.MAX_SAFE_INTEGER)
      throw new ProtocolError(`the transaction id ${zxid}, with the fencing floor ${floor}, is beyond 2^53`);
    return number;
  }

  #earlierFloor(zxid: number): number {
    for (const { from, floor } of this.#earlier) if (zxid >= from) return floor;
    return 0;
  }
}

/** The lowest floor that lifts every later transaction above `number`. */
export function floorAbove(number: number): number {
  return Math.ceil(number / EPOCH) * EPOCH;
}
