/**
 * Knows that a node does not exist without asking each time: the lease's own connection watches for its creation.
 *
 * A server sends everything on a connection in the order in which it did it. So the creation of a node that a read
 * behind a `sync` would show is told before the answer to that `sync`: what is known then is as new as such a read. The
 * watch goes with the connection; the next one asks again.
 */
export class Absence {
  #known = false;
  #events = 0;

  /** Whether there is no such node, as of the last `sync` that was answered on this connection. */
  get known(): boolean {
    return this.#known;
  }

  /** Something has happened to the node. */
  doubt(): void {
    this.#known = false;
    this.#events += 1;
  }

  /**
   * @param found the node, which is being asked for with a watch; undefined if there is none
   * @returns whether there is none
   */
  async look(found: Promise<unknown>): Promise<boolean> {
    const before = this.#events;
    const isAbsent = (await found) === undefined;
    this.#known = isAbsent && this.#events === before;
    return isAbsent;
  }
}
