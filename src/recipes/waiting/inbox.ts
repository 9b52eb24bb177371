/** Messages for one reader, in order; they wait while it is busy. */
export class Inbox<T> {
  readonly #messages: T[] = [];
  #reader: ((message: T) => void) | undefined;

  post(message: T): void {
    const reader = this.#reader;
    if (reader === undefined) {
      this.#messages.push(message);
      return;
    }
    this.#reader = undefined;
    reader(message);
  }

  next(): Promise<T> {
    const message = this.#messages.shift();
    if (message !== undefined) return Promise.resolve(message);
    return new Promise((resolve) => (this.#reader = resolve));
  }
}
