/** What can be acquired, worked under, and released: locks, the two sides of a read-write lock, permits. */
import type { Context } from '../context.js';
import { Hold } from '../lease/hold.js';
import { acquireIn, type AcquireOptions, type Line } from './line.js';
import type { Using } from './using.js';

/** @typeParam O what an acquire of this kind is asked with */
export abstract class Acquirable<O extends AcquireOptions = AcquireOptions> {
  readonly name: string;
  protected readonly context: Context;
  readonly #using: Using;

  constructor(context: Context, using: Using, name: string) {
    this.context = context;
    this.#using = using;
    this.name = name;
  }

  /**
   * Acquires it, runs `work`, and releases it. A lock that the present chain of calls works under is not acquired again
   * but counted (`using.ts`); permits are acquired each time.
   *
   * @returns what `work` returns
   * @throws what `work` throws; `HoldLostError` if it was lost before `work` was done; what `acquire` throws
   */
  async using<T>(options: O, work: (hold: Hold) => T | Promise<T>): Promise<T> {
    return this.#using.run(this.key(this.#using), () => this.acquire(options), work);
  }

  /**
   * Acquires it, waiting in line for `waitMs`. A second acquire waits for the first hold, also that of the same client.
   *
   * @throws PosternError `lock-held` if it was not granted in time; the reason of `options.signal`
   */
  acquire(options?: O): Promise<Hold> {
    return acquireIn(this.context, this.line(options), options ?? {}, (hold) => new Hold(hold));
  }

  protected abstract line(options?: O): Line;

  /** What makes two of them the same for `using`; undefined if nothing does. */
  protected abstract key(using: Using): string | undefined;
}

/** What the requests of all kinds of line say if the caller does. */
export function extras({ data, lockDelayMs }: AcquireOptions): { data?: unknown; lockDelayMs?: number } {
  return { ...(data !== undefined && { data }), ...(lockDelayMs !== undefined && { lockDelayMs }) };
}
