/** What is tried until a gateway serves it. */
import { HoldLostError, PosternError } from '../client/errors.js';
import { pause } from '../client/lease/clock.js';
import type { Output } from './output.js';

const AGAIN_MS = 1_000;

export interface Trying {
  /** In words, such as `standing for election`. */
  readonly what: string;
  readonly over: AbortSignal;
  readonly output: Output;
  /** At most so long before it is tried again, in milliseconds; the client has tried for `--timeout` by then. */
  readonly againMs?: number;
}

/**
 * @returns undefined once `over` has aborted
 * @throws what it was refused for, where trying again does not help
 */
export async function persist<T>(
  { what, over, output, againMs = AGAIN_MS }: Trying,
  work: () => Promise<T>,
): Promise<T | undefined> {
  while (!over.aborted) {
    try {
      return await work();
    } catch (error) {
      if (over.aborted) return undefined;
      const passes = error instanceof HoldLostError || (error instanceof PosternError && error.retryable);
      if (!passes) throw error;
      output.tell('not-served', `${what}: ${error.message}; trying again`, { what });
      await pause(againMs * Math.random(), over);
    }
  }
  return undefined;
}

/** Resolves when one of the signals has aborted. */
export function untilAborted(...signals: readonly AbortSignal[]): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      for (const signal of signals) signal.removeEventListener('abort', done);
      resolve();
    };
    for (const signal of signals) signal.addEventListener('abort', done);
    if (signals.some((signal) => signal.aborted)) done();
  });
}
