/**
 * Waiting in tests: for something to become so, and to see that something stays so. Neither waits longer than it must.
 */
import { inspect } from 'node:util';
import { timing } from './timing.js';

export interface EventuallyOptions {
  withinMs?: number;
  everyMs?: number;
}

type Truthy<T> = Exclude<T, false | null | undefined | 0 | ''>;

/** A look that takes longer than this is dear: others need the processor too, so a long pause follows. */
const DEAR_LOOK_MS = 50;
/** For each millisecond beyond that. */
const PAUSE_PER_MS = 4;
/** Yet it is looked so often at least. */
const LOOKS_MIN = 20;

/**
 * Polls `condition` until it is truthy and returns what it returned; an error it throws means "not yet".
 * On timeout it fails with `what` and the last value or error.
 */
export async function eventually<T>(
  what: string,
  condition: () => T | Promise<T>,
  { withinMs = timing.eventuallyMs, everyMs = timing.pollMs }: EventuallyOptions = {},
): Promise<Truthy<T>> {
  const deadline = performance.now() + withinMs;
  let last: Outcome<T> = { kind: 'none' };
  do {
    const lookedAt = performance.now();
    const outcome = await outcomeOf(condition, Math.max(1, deadline - lookedAt));
    if (outcome.kind === 'value' && outcome.value) return outcome.value as Truthy<T>;
    // A look that did not come back in time tells less than the one before it.
    if (outcome.kind !== 'none' || last.kind === 'none') last = outcome;
    const now = performance.now();
    const pauseMs = Math.max(everyMs, Math.min(withinMs / LOOKS_MIN, PAUSE_PER_MS * (now - lookedAt - DEAR_LOOK_MS)));
    await passed(Math.min(pauseMs, Math.max(0, deadline - now)));
  } while (performance.now() < deadline);
  throw failure(`not within ${withinMs} ms: ${what}`, last);
}

/** Polls `condition` for `forMs` and fails as soon as it is not truthy: for "nothing happens meanwhile". */
export async function throughout(
  what: string,
  condition: () => unknown,
  { forMs = timing.quietMs, everyMs = timing.pollMs }: { forMs?: number; everyMs?: number } = {},
): Promise<void> {
  const start = performance.now();
  do {
    const outcome = await outcomeOf(condition, timing.eventuallyMs);
    if (outcome.kind !== 'value' || !outcome.value) {
      throw failure(`only for ${Math.round(performance.now() - start)} of ${forMs} ms: ${what}`, outcome);
    }
    await passed(everyMs);
  } while (performance.now() - start < forMs);
}

/** Lets `ms` pass. Only where time itself is what the test is about; everything else is a condition. */
export function passed(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

type Outcome<T> = { kind: 'none' } | { kind: 'value'; value: T } | { kind: 'error'; error: unknown };

/** What one look at the condition gives, or nothing when it does not come back within `withinMs`. */
async function outcomeOf<T>(condition: () => T | Promise<T>, withinMs: number): Promise<Outcome<T>> {
  let timer: NodeJS.Timeout | undefined;
  const look = (async (): Promise<Outcome<T>> => {
    try {
      return { kind: 'value', value: await condition() };
    } catch (error) {
      return { kind: 'error', error };
    }
  })();
  const late = new Promise<Outcome<T>>((resolve) => {
    timer = setTimeout(() => resolve({ kind: 'none' }), withinMs);
  });
  try {
    return await Promise.race([look, late]);
  } finally {
    clearTimeout(timer);
  }
}

function failure<T>(sentence: string, last: Outcome<T>): Error {
  if (last.kind === 'none') return new Error(`${sentence} (the condition did not answer)`);
  if (last.kind === 'value') return new Error(`${sentence} (last value: ${inspect(last.value, { depth: 4 })})`);
  const text = last.error instanceof Error ? last.error.message : inspect(last.error);
  return new Error(`${sentence} (last error: ${text})`, { cause: last.error });
}
