/** When this process did not get to run: stopped, or without a processor. */
import { now } from '../histories/history.js';

const EVERY_MS = 50;
/** What a busy machine does all the time. */
const NOTHING_MS = 100;
const KEPT_MS = 120_000;

export class Stalls {
  readonly #stalls: { at: number; ms: number }[] = [];
  #last = now();

  constructor() {
    setInterval(() => this.#look(), EVERY_MS).unref();
  }

  /** @param time on the clock of {@link now} @returns ms */
  since(time: number): number {
    this.#look(); // what has just ended counts, whoever is told of it first
    return this.#stalls.reduce((sum, { at, ms }) => (at + ms > time ? sum + ms : sum), 0);
  }

  #look(): void {
    const time = now();
    const ms = time - this.#last - EVERY_MS;
    if (ms > NOTHING_MS) this.#stalls.push({ at: this.#last, ms });
    while (this.#stalls[0] !== undefined && this.#stalls[0].at < time - KEPT_MS) this.#stalls.shift();
    this.#last = time;
  }
}
