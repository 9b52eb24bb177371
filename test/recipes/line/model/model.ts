/**
 * What a line should be, in a few lines that nobody has to believe: everybody in order of arrival, and who of them may
 * hold. Nothing of ZooKeeper, replicas or attempts is in it.
 */
export type Mode = 'exclusive' | 'read' | 'write' | 'shared';

export interface Hold {
  holdId: string;
  fencingToken: number;
}

/** What a client wants of a line. */
export interface Wish {
  mode: Mode;
  /** Of a semaphore: how many permits. */
  count?: number | undefined;
  /** Of a lock: in which order it is asked for. */
  priority?: number | undefined;
}

/** One who stands in line: a lease with one of its requestIds. */
export interface Place extends Wish {
  /** Which client; its lease may be another one later, but no place outlives its lease. */
  client: number;
  requestId: string;
  /** Set when a client was told that it holds. */
  hold?: Hold;
  /** The request that waits for it, if one does: without, the place stands in line and is not granted to anybody. */
  waiting?: { keepPlace: boolean };
}

export class LineModel<P extends Place = Place> {
  places: P[] = [];
  /** How many have ever come, and as the how manieth each did. */
  #came = 0;
  readonly #order = new WeakMap<Place, number>();
  readonly #fenced: { came: number; fencingToken: number }[] = [];

  find(client: number, requestId: string): P | undefined {
    return this.places.find((place) => place.client === client && place.requestId === requestId);
  }

  join(place: P): void {
    this.#order.set(place, (this.#came += 1));
    this.places.push(place);
  }

  remove(place: Place): void {
    this.places = this.places.filter((other) => other !== place);
  }

  /** Whether the place may be held. */
  admits(place: P): boolean {
    return this.fits(place, this.places.slice(0, this.places.indexOf(place)));
  }

  /** Whether one who came now would be admitted at once. */
  isFree(wish: Wish): boolean {
    return this.fits(wish, this.places);
  }

  /** Those who must learn now that they hold. */
  due(): P[] {
    return this.places.filter((place) => place.hold === undefined && place.waiting !== undefined && this.admits(place));
  }

  holders(): P[] {
    return this.places.filter(({ hold }) => hold !== undefined);
  }

  others(): P[] {
    return this.places.filter(({ hold }) => hold === undefined);
  }

  /** A client was told that it holds. @throws when it must not */
  granted(place: P, { holdId, fencingToken }: Hold): void {
    if (!this.admits(place)) throw new Error(`client ${place.client} was granted what it must wait for`);
    this.fence(place, fencingToken);
    place.hold = { holdId, fencingToken };
    delete place.waiting;
  }

  /**
   * @throws when the fencing token of one who holds is not higher than those of all who came before it: whoever is
   * excluded by it came before it. Those who share may learn of their holds in any order.
   */
  protected fence(place: P, fencingToken: number): void {
    const came = this.#order.get(place) as number;
    const wrong = this.#fenced.find((other) => other.came < came !== other.fencingToken < fencingToken);
    if (wrong !== undefined)
      throw new Error(
        `who came as number ${came} has token ${fencingToken}, number ${wrong.came} ${wrong.fencingToken}`,
      );
    this.#fenced.push({ came, fencingToken });
  }

  /** Nobody is before it who excludes it, or whom it excludes. */
  protected fits({ mode }: Wish, before: readonly P[]): boolean {
    return mode === 'read' ? before.every((place) => place.mode === 'read') : before.length === 0;
  }
}
