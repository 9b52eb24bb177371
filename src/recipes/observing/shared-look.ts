/**
 * Shares one piece of work among concurrent callers. However many ask, one look is running and at most one follows: a
 * hundred nodes that go one after the other cost two looks. No result is older than the question.
 */
interface Running<T> {
  /** Monotonic. */
  begunAt: number;
  current: Promise<T>;
  /** For those for whom `current` was begun too early. */
  next: Promise<T> | undefined;
}

export interface AskOptions<T> {
  /** Monotonic: a look that was begun later is new enough; default: only one that is begun after this call. */
  since?: number;
  /** Of a result that will never be another: those who wait for the next one are content with it. */
  isFinal?: (result: T) => boolean;
}

export class SharedLooks<T> {
  readonly #running = new Map<string, Running<T>>();

  ask(key: string, work: () => Promise<T>, options: AskOptions<T> = {}): Promise<T> {
    const { since = Infinity, isFinal = () => false } = options;
    const running = this.#running.get(key);
    if (running === undefined) return this.#run(key, work);
    if (running.begunAt >= since) return running.current;
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
    const running: Running<T> = { begunAt: performance.now(), current: work(), next: undefined };
    this.#running.set(key, running);
    const over = (): void => {
      if (running.next === undefined) this.#running.delete(key);
    };
    running.current.then(over, over);
    return running.current;
  }
}
