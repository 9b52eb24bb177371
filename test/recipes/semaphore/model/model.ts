/** What a semaphore should be: a line in which as many hold as fit, first come first. */
import { LineModel, type Place, type Wish } from '../../line/model/model.js';

export class SemaphoreModel extends LineModel {
  /** What its users agreed on, since the first of them came. */
  limit: number | undefined;

  get permitsHeld(): number {
    return sum(this.holders());
  }

  /**
   * Those before it count whether they hold yet or not; of those behind it some may hold since a time of more permits.
   */
  override admits(place: Place): boolean {
    const index = this.places.indexOf(place);
    const behind = this.places.slice(index + 1).filter(({ hold }) => hold !== undefined);
    return this.fits(place, [...this.places.slice(0, index), ...behind]);
  }

  protected override fits(wish: Wish, before: readonly Place[]): boolean {
    return sum([...before, wish]) <= (this.limit ?? Infinity);
  }
}

function sum(wishes: readonly Wish[]): number {
  return wishes.reduce((total, { count = 1 }) => total + count, 0);
}
