/**
 * One piece of work for all who ask for it at the same time: whoever asks gets a result that was begun after it had asked, so what it is
 * told is no older than its question. However many ask, one is under way, and one more is to follow: where a hundred nodes go one after
 * the other, that are two looks. (`SharedReadings` begins one for each that asks later than the one under way was begun.)
 */
interface Running<T> {
  current: Promise<T>;
  /** For those who asked after `current` was begun. */
  next: Promise<T> | undefined;
}

export class SharedLooks<T> {
  readonly #running = new Map<string, Running<T>>();

  /** @param isFinal of a result that will never be another: those who wait for the next one are content with it */
  ask(key: string, work: () => Promise<T>, isFinal: (result: T) => boolean): Promise<T> {
    const running = this.#running.get(key);
    if (running === undefined) return this.#run(key, work);
    running.next ??= running.current.then(
      (result) => {
        if (!isFinal(result)) return this.#run(key, work);
        this.#running.delete(key);
        return result;
      },
      () => this.#run(key, work),
    );
    return running.next;
  }

  #run(key: string, work: () => Promise<T>): Promise<T> {
    const running: Running<T> = { current: work(), next: undefined };
    this.#running.set(key, running);
    const over = (): void => {
      if (running.next === undefined) this.#running.delete(key);
    };
    running.current.then(over, over);
    return running.current;
  }
}
