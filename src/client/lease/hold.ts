/** A hold: what its client has, and nobody whom it excludes. */
import { Bound, type BoundOptions } from './bound.js';

export interface HoldOptions extends BoundOptions {
  fencingToken: number;
  /** Gives it back at the gateway; it is called again only after it has failed. */
  release: () => Promise<void>;
}

export class Hold extends Bound implements AsyncDisposable {
  /** Strictly increases with every grant of the name. */
  readonly fencingToken: number;
  readonly #give: () => Promise<void>;
  #released: Promise<void> | undefined;

  constructor(options: HoldOptions) {
    super(options);
    this.fencingToken = options.fencingToken;
    this.#give = options.release;
  }

  /**
   * Gives it back. Resolves once a gateway has confirmed that, or that there is nothing left to give back; it is
   * repeated until then, or until the lease has ended, which frees it as well.
   *
   * @throws PosternError if the gateway refuses it; it may be called again then
   */
  release(): Promise<void> {
    return (this.#released ??= this.end(this.#give).catch((error: unknown) => {
      this.#released = undefined;
      throw error;
    }));
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.release();
  }
}
