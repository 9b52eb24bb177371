/**
 * Deadlines of requests without a timer each: one interval checks the connections that wait for replies. A deadline is
 * noticed at most `SWEEP_EVERY_MS` late; the interval runs only while something is in flight.
 */

export interface Swept {
  /** Fails overdue requests; returns whether anything is still in flight. */
  sweep(now: number): boolean;
}

const SWEEP_EVERY_MS = 25;

class DeadlineSweep {
  readonly #waiting = new Set<Swept>();
  #timer: NodeJS.Timeout | undefined;

  add(connection: Swept): void {
    this.#waiting.add(connection);
    // Runs after the sockets were read, with the time from before: an answer that arrived during a standstill counts.
    this.#timer ??= setInterval(() => {
      const now = performance.now();
      setImmediate(() => this.#sweep(now));
    }, SWEEP_EVERY_MS).unref();
  }

  #sweep(now: number): void {
    for (const connection of this.#waiting) if (!connection.sweep(now)) this.#waiting.delete(connection);
    if (this.#waiting.size > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }
}

export const deadlineSweep = new DeadlineSweep();
