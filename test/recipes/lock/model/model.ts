/** What a lock by priority should be: a line in which whoever comes stands where its rank says (protocol C95). */
import { LineModel, type Place, type Wish } from '../../line/model/model.js';

export interface RankedPlace extends Place {
  /** The lower, the sooner; of those who came with a priority. */
  rank?: number;
}

export class PriorityModel extends LineModel<RankedPlace> {
  /** Since somebody asked with a priority while nobody stood in line. Until then it is taken in order of arrival. */
  byPriority = false;
  /** So many have come and gone, beside the few whom the commands of a sequence let come. */
  hundreds = 0;
  #highest = 0;

  override join(place: RankedPlace): void {
    super.join(place);
    if (place.priority === undefined) return;
    const rank = (place.rank = this.#rankOf(place));
    const others = this.places.slice(0, -1);
    const behind = others.findIndex((other) => other.hold === undefined && (other.rank as number) > rank);
    if (behind !== -1) this.places = others.toSpliced(behind, 0, place);
  }

  /** Whether one who came now and stayed would be the first, and nobody holds. */
  isNext(wish: Wish): boolean {
    return this.places.every(({ hold, rank }) => hold === undefined && (rank as number) > this.#rankOf(wish));
  }

  /** @throws when the token is not higher than that of whoever held before: one holds at a time */
  protected override fence({ client }: RankedPlace, fencingToken: number): void {
    if (fencingToken <= this.#highest)
      throw new Error(`client ${client} has token ${fencingToken}, whoever held before had ${this.#highest}`);
    this.#highest = fencingToken;
  }

  /** A step of priority is worth a hundred who come later. */
  #rankOf({ priority = 0 }: Wish): number {
    return this.hundreds - priority;
  }
}
