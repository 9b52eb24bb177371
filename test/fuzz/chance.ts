/** Chance that a seed repeats: what the requests of the fuzzer are drawn from. */
import { env } from 'node:process';

export class Chance {
  readonly seed: number;
  #state: number;

  /** `FUZZ_SEED` repeats a run, as far as the order in which answers come lets it. */
  constructor(seed = Number(env['FUZZ_SEED'] ?? Math.floor(Math.random() * 2 ** 31))) {
    this.seed = seed;
    this.#state = seed | 0;
  }

  /** In [0, 1), by mulberry32. */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  }

  /** Whether something happens that does in so many of a hundred cases. */
  percent(of: number): boolean {
    return this.next() * 100 < of;
  }

  /** An integer, both ends among those that may come. */
  integer(from: number, to: number): number {
    return from + Math.floor(this.next() * (to - from + 1));
  }

  pick<T>(of: readonly T[]): T {
    if (of.length === 0) throw new Error('there is nothing to pick from');
    return of[this.integer(0, of.length - 1)] as T;
  }

  text(alphabet: string, length: number): string {
    return Array.from({ length }, () => this.pick([...alphabet])).join('');
  }
}
