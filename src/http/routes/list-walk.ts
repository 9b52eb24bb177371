/**
 * Goes through what a list has, and then through what changes in it, in order and a little in each turn of the event
 * loop: a list may have very many names, of which the caller may read few.
 */
import type { Work } from '../../recipes/observing/turns.js';
import type { ManyThings } from './many-things.js';

/** So many names a visit may look at without a pause (`yield`): each takes about a microsecond. */
export const AT_ONCE = 256;

/** Looks at names that the list has, or had before: what it finds at that time counts. */
export type Visit = (names: Iterable<string>) => Work;

export class ListWalk {
  readonly #things: ManyThings;
  readonly #visit: Visit;
  readonly #due: Iterable<string>[] = [];
  #isUnderWay = false;
  #isListed = false;

  constructor(things: ManyThings, visit: Visit) {
    this.#things = things;
    this.#visit = visit;
    things.lists();
  }

  /** @param names all of the list at first, and later those that have changed */
  add(names: Iterable<string>): void {
    if (this.#things.isClosed) return;
    this.#due.push(names);
    if (!this.#isUnderWay) this.#things.run(this.#walk());
    this.#isUnderWay = true;
  }

  *#walk(): Work {
    for (let names = this.#due.shift(); names !== undefined; names = this.#due.shift()) {
      for (const visit = this.#visit(names); ; yield) {
        if (this.#things.isClosed) return;
        if (visit.next().done === true) break;
      }
      if (!this.#isListed) this.#things.listed();
      this.#isListed = true;
    }
    this.#isUnderWay = false;
  }
}
