/** Records what clients did, and what came of it, by object: for `checkLinearizable`. */
import type { Operation } from './linearizable.js';

/** What is known not to have happened. */
export class NotApplied extends Error {}

export class History<I, O> {
  readonly #byObject = new Map<string, Operation<I, O>[]>();

  /**
   * Does one operation and records it.
   * @param act undefined where nobody knows whether it happened
   * @throws NotApplied what `act` throws, and records nothing
   */
  async record(object: string, client: string, input: I, act: () => Promise<O | undefined>): Promise<O | undefined> {
    const begin = performance.now();
    const output = await act();
    this.add(object, { client, begin, end: output === undefined ? Infinity : performance.now(), input, output });
    return output;
  }

  add(object: string, operation: Operation<I, O>): void {
    const operations = this.#byObject.get(object);
    if (operations === undefined) this.#byObject.set(object, [operation]);
    else operations.push(operation);
  }

  get objects(): readonly string[] {
    return [...this.#byObject.keys()];
  }

  /** In the order in which they began, so that the search finds its way quickly. */
  of(object: string): readonly Operation<I, O>[] {
    return [...(this.#byObject.get(object) ?? [])].sort((a, b) => a.begin - b.begin);
  }

  get size(): number {
    return [...this.#byObject.values()].reduce((sum, operations) => sum + operations.length, 0);
  }
}
