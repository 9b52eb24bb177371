/**
 * Tells all subscribers of a subject what is published: as many as a few milliseconds are enough for at once, and the
 * others in the next turns of the event loop, so that heartbeats get theirs in between.
 *
 * Each is told every state, in their order. Whoever comes meanwhile is told the newest by whoever lets it in.
 */
import type { Turns, Work } from './turns.js';

export type Subscriber<S> = (state: S) => void;

/** What telling takes of the turn in which a state is published. */
const TURN_MS = 5;

interface Round<S> {
  readonly state: S;
  readonly subscribers: readonly Subscriber<S>[];
  readonly done: (ms: number) => void;
}

export class Telling<S> {
  readonly #turns: Turns;
  readonly #subscribers: ReadonlySet<Subscriber<S>>;
  readonly #onFault: (error: unknown) => void;
  /** The first of them is under way. */
  readonly #rounds: Round<S>[] = [];
  #told: Promise<number> = Promise.resolve(0);
  /** The turn in which the first of them was published is over. */
  #isLater = false;

  /**
   * @param subscribers those who are there; whoever has gone is not told any more
   * @param onFault told what one of them has thrown; must not throw
   */
  constructor(turns: Turns, subscribers: ReadonlySet<Subscriber<S>>, onFault: (error: unknown) => void) {
    this.#turns = turns;
    this.#subscribers = subscribers;
    this.#onFault = onFault;
  }

  /** Resolves when the last state has been told, with how many ms that took after `tell` had returned. */
  get told(): Promise<number> {
    return this.#told;
  }

  tell(state: S): void {
    this.#told = new Promise((done) => this.#rounds.push({ state, subscribers: [...this.#subscribers], done }));
    if (this.#rounds.length > 1) return;
    const work = this.#work();
    this.#isLater = false;
    const until = performance.now() + TURN_MS;
    while (work.next().done !== true) {
      if (performance.now() < until) continue;
      this.#isLater = true;
      this.#turns.add(work, () => undefined);
      return;
    }
  }

  *#work(): Work {
    for (let round = this.#rounds[0]; round !== undefined; round = this.#rounds[0]) {
      const { state, subscribers, done } = round;
      let ms = 0;
      for (const subscriber of subscribers) {
        if (!this.#subscribers.has(subscriber)) continue;
        const begun = performance.now();
        this.#tellOne(subscriber, state);
        if (this.#isLater) ms += performance.now() - begun;
        yield;
      }
      this.#rounds.shift();
      done(ms);
    }
  }

  /** A fault of one is not that of the others, who have to learn it all the same. */
  #tellOne(subscriber: Subscriber<S>, state: S): void {
    try {
      subscriber(state);
    } catch (error) {
      this.#onFault(error);
    }
  }
}
