/** Work for one key, in the order it was asked for; for different keys at the same time. */
export class OneByOne {
  readonly #last = new Map<string, Promise<unknown>>();

  /** Keys with work at hand. */
  get size(): number {
    return this.#last.size;
  }

  /** Runs `work` when everything before it for this key is over, however that ended. */
  async run<T>(key: string, work: () => Promise<T>): Promise<T> {
    const before = this.#last.get(key) ?? Promise.resolve();
    const mine = before.then(work, work);
    this.#last.set(key, mine);
    try {
      return await mine;
    } finally {
      if (this.#last.get(key) === mine) this.#last.delete(key);
    }
  }
}
