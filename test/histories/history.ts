/** Records what clients did, and what came of it, by object: for the checks of a workload. */
import type { Operation } from './linearizable.js';

/** What is known not to have happened. */
export class NotApplied extends Error {}

/** The time in ms, on the clock that all processes of a machine share and that nobody sets. */
export function now(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}

export class History<I, O> {
  readonly #byObject = new Map<string, Operation<I, O>[]>();

  /**
   * Does one operation and records it.
   * @param act gives undefined where nobody knows whether it happened
   * @throws NotApplied what `act` throws, and records nothing
   */
  async record(object: string, client: string, input: I, act: () => Promise<O | undefined>): Promise<O | undefined> {
    const begin = now();
    const output = await act();
    this.add(object, { client, begin, end: output === undefined ? Infinity : now(), input, output });
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

  of(object: string): readonly Operation<I, O>[] {
    return this.#byObject.get(object) ?? [];
  }

  get size(): number {
    return [...this.#byObject.values()].reduce((sum, operations) => sum + operations.length, 0);
  }
}
