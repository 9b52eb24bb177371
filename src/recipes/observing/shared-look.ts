/**
 * Shares one piece of work among concurrent callers. Each caller gets a result of work begun after it asked, so the
 * result is no older than the question. However many ask, one look is running and at most one follows: a hundred nodes
 * that go one after the other cost two looks. (These looks may write, and two at once would contend; readings begin at
 * once and are shared differently: `SharedReadings`.)
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
