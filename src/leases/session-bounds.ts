/**
 * The session timeouts that the ensemble allows: by default 2 to 20 of its ticks. There is no question for
 * them in the protocol, so they are found out by asking for too little and for too much, once.
 */
import type { AttachedSessions } from './attached-sessions.js';

const TOO_LITTLE_MS = 1;
const TOO_MUCH_MS = 2 ** 31 - 1;

export interface Bounds {
  minTtlMs: number;
  maxTtlMs: number;
}

export class SessionBounds {
  readonly #sessions: AttachedSessions;
  #known: Bounds | undefined;
  #asking: Promise<Bounds> | undefined;

  constructor(sessions: AttachedSessions) {
    this.#sessions = sessions;
  }

  /** What is known without asking. */
  get known(): Bounds | undefined {
    return this.#known;
  }

  read(deadline: number): Promise<Bounds> {
    return this.#known === undefined ? this.reread(deadline) : Promise.resolve(this.#known);
  }

  /** Asks again: the ensemble may have been configured anew. */
  reread(deadline: number): Promise<Bounds> {
    this.#asking ??= this.#ask(deadline).finally(() => (this.#asking = undefined));
    return this.#asking;
  }

  async #ask(deadline: number): Promise<Bounds> {
    const [minTtlMs, maxTtlMs] = await Promise.all([
      this.#granted(TOO_LITTLE_MS, deadline),
      this.#granted(TOO_MUCH_MS, deadline),
    ]);
    this.#known = { minTtlMs, maxTtlMs };
    return this.#known;
  }

  async #granted(timeoutMs: number, deadline: number): Promise<number> {
    const session = await this.#sessions.open(timeoutMs, 0, deadline);
    const granted = session.timeoutMs;
    await session.close(deadline);
    return granted;
  }
}
