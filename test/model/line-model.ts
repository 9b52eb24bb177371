/**
 * What a line should be, in a few lines that nobody has to believe: everybody in order of arrival, and who of them may hold.
 * Nothing of ZooKeeper, replicas or attempts is in it.
 */
export type Mode = 'exclusive' | 'read' | 'write';

export interface Hold {
  holdId: string;
  fencingToken: number;
}

/** One who stands in line: a lease with one of its requestIds. */
export interface Place {
  /** Which client; its lease may be another one later, but no place outlives its lease. */
  client: number;
  requestId: string;
  mode: Mode;
  /** Set when a client was told that it holds. */
  hold?: Hold;
  /** The request that waits for it, if one does: without, the place stands in line and is not granted to anybody. */
  waiting?: { keepPlace: boolean };
}

export class LineModel {
  places: Place[] = [];
  #highestOfAll = -1;
  #highestThatExcluded = -1;

  find(client: number, requestId: string): Place | undefined {
    return this.places.find((place) => place.client === client && place.requestId === requestId);
  }

  join(place: Place): void {
    this.places.push(place);
  }

  remove(place: Place): void {
    this.places = this.places.filter((other) => other !== place);
  }

  /** Whether the place may be held: nobody is before it who excludes it, or whom it excludes. */
  admits(place: Place): boolean {
    const before = this.places.slice(0, this.places.indexOf(place));
    return place.mode === 'read' ? before.every(({ mode }) => mode === 'read') : before.length === 0;
  }

  /** Whether one who came now would be admitted at once. */
  isFree(mode: Mode): boolean {
    return mode === 'read' ? this.places.every((place) => place.mode === 'read') : this.places.length === 0;
  }

  /** Those who must learn now that they hold. */
  due(): Place[] {
    return this.places.filter((place) => place.hold === undefined && place.waiting !== undefined && this.admits(place));
  }

  holders(): Place[] {
    return this.places.filter(({ hold }) => hold !== undefined);
  }

  others(): Place[] {
    return this.places.filter(({ hold }) => hold === undefined);
  }

  /**
   * A client was told that it holds. @throws when it must not, or when its fencing token does not fence off all that it excludes:
   * readers who share may learn of it in any order.
   */
  granted(place: Place, { holdId, fencingToken }: Hold): void {
    if (!this.admits(place)) throw new Error(`client ${place.client} was granted what it must wait for`);
    const above = place.mode === 'read' ? this.#highestThatExcluded : this.#highestOfAll;
    if (fencingToken <= above) throw new Error(`fencing token ${fencingToken} came after ${above}`);
    place.hold = { holdId, fencingToken };
    delete place.waiting;
    this.#highestOfAll = Math.max(this.#highestOfAll, fencingToken);
    if (place.mode !== 'read') this.#highestThatExcluded = fencingToken;
  }
}
