/** A look that is repeated: one at a time, and again where something has happened since it began, or it failed. */
import { fullJitter, pause } from '../../time.js';

const RETRY_BASE_MS = 10;
const RETRY_CAP_MS = 500;

export class Rounds {
  readonly #look: () => Promise<void>;
  #again = false;
  #running = false;

  constructor(look: () => Promise<void>) {
    this.#look = look;
  }

  /** Something has happened: it looks, or looks once more. */
  again(): void {
    this.#again = true;
    if (!this.#running) void this.#run();
  }

  async #run(): Promise<void> {
    this.#running = true;
    for (let failures = 0; this.#again;) {
      this.#again = false;
      try {
        await this.#look();
        failures = 0;
      } catch {
        // No connection, most likely; whoever waits does so until its own deadline.
        this.#again = true;
        await pause(fullJitter(failures, RETRY_BASE_MS, RETRY_CAP_MS));
        failures += 1;
      }
    }
    this.#running = false;
  }
}
