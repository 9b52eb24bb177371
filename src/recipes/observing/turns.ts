/**
 * Long pieces of work that may take a while, a little in each turn of the event loop: however many there are,
 * heartbeats get their turn in between. The pieces take turns with each other, too.
 */

/** What all pieces together take of one turn. */
const TURN_MS = 5;

/** Work with a `yield` wherever it may be interrupted: at least every some hundred microseconds. */
export type Work = Generator<void, void>;

export class Turns {
  /** With what is told of an error that the work was given up for. */
  readonly #works = new Map<Work, (error: Error) => void>();
  #isDue = false;

  /**
   * The work begins with the next turn.
   * @param onFault told what it has thrown; must not throw
   */
  add(work: Work, onFault: (error: Error) => void): void {
    this.#works.set(work, onFault);
    this.#continue();
  }

  #continue(): void {
    if (this.#isDue || this.#works.size === 0) return;
    this.#isDue = true;
    setImmediate(() => this.#turn());
  }

  #turn(): void {
    const until = performance.now() + TURN_MS;
    for (const [work, onFault] of this.#works) {
      // To the end of the line, where this loop comes by again if there is time.
      this.#works.delete(work);
      if (!isDone(work, onFault)) this.#works.set(work, onFault);
      if (performance.now() >= until) break;
    }
    this.#isDue = false;
    this.#continue();
  }
}

/** Takes one step. */
function isDone(work: Work, onFault: (error: Error) => void): boolean {
  try {
    return work.next().done === true;
  } catch (error) {
    onFault(error as Error);
    return true;
  }
}
