/**
 * Bounds what the streams of this replica watch together: names, prefixes, and configuration keys under prefixes.
 *
 * Guarantee: together they watch at most `max`, and those of one principal at most half of it.
 */
import { PosternError } from '../../errors.js';

export class Watched {
  readonly #max: number;
  readonly #onRefusal: () => void;
  readonly #ofPrincipal = new Map<string, number>();
  /** Of all shares. */
  #total = 0;
  /** What is kept for them, once for all: never more than they have together. */
  #kept = 0;

  /**
   * @param max what there is room for in this replica
   * @param onRefusal told of each refusal
   */
  constructor(max: number, onRefusal: () => void) {
    this.#max = max;
    this.#onRefusal = onRefusal;
  }

  /**
   * For what is kept for all principals together.
   * @param before what was taken before
   * @returns `overloaded` if there is no room; otherwise it is taken
   */
  take(count: number, before: number): PosternError | undefined {
    const more = count - before;
    if (more > 0 && this.#kept + more > this.#max) return this.#refuse('The streams of this replica watch', this.#max);
    this.#kept += more;
    return undefined;
  }

  /** For one stream. */
  share(principal: string): WatchedShare {
    return new WatchedShare(this, principal);
  }

  /** Only for shares: `overloaded` if the principal may not have so many more. */
  refusal(principal: string, more: number): PosternError | undefined {
    const half = Math.max(1, Math.floor(this.#max / 2));
    const own = this.#ofPrincipal.get(principal) ?? 0;
    if (own + more > half) return this.#refuse(`The streams of "${principal}" watch`, half);
    return this.#total + more > this.#max ? this.#refuse('The streams of this replica watch', this.#max) : undefined;
  }

  /** Only for shares. @param count negative: given back */
  give(principal: string, count: number): void {
    this.#total += count;
    const own = (this.#ofPrincipal.get(principal) ?? 0) + count;
    if (own === 0) this.#ofPrincipal.delete(principal);
    else this.#ofPrincipal.set(principal, own);
  }

  #refuse(whose: string, max: number): PosternError {
    this.#onRefusal();
    return new PosternError(
      'overloaded',
      `${whose} as many things here as may be together (${max}); watch longer prefixes, or ask another replica.`,
      { members: { limit: 'maxWatchedKeys', maxWatchedKeys: max }, retryAfterSeconds: RETRY_AFTER_S },
    );
  }
}

/** Streams last long: what there is no room for now is asked for again in vain for a while. */
const RETRY_AFTER_S = 10;

/** What one stream watches. */
export class WatchedShare {
  readonly #all: Watched;
  readonly #principal: string;
  #taken = 0;

  constructor(all: Watched, principal: string) {
    this.#all = all;
    this.#principal = principal;
  }

  /** @returns `overloaded` if there is no room for so many more; otherwise they are taken */
  take(more: number): PosternError | undefined {
    const refused = more > 0 ? this.#all.refusal(this.#principal, more) : undefined;
    if (refused === undefined) this.give(-more);
    return refused;
  }

  give(fewer: number): void {
    this.#taken -= fewer;
    this.#all.give(this.#principal, -fewer);
  }

  close(): void {
    this.give(this.#taken);
  }
}
