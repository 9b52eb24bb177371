/**
 * Time: the clock that everything is told, absolute deadlines, and the signal that ends a request.
 *
 * Durations are integer milliseconds. A deadline is a point on the *monotonic* clock, made once from the
 * caller's `waitMs` at the edge, so that no loop starts it anew and no change of the wall clock moves it.
 */

export const SECOND = 1_000;
export const MINUTE = 60 * SECOND;
export const HOUR = 60 * MINUTE;

export interface Clock {
  /** Wall clock, epoch ms: for people and for `expiresAt` only. */
  now(): number;
  /** Monotonic ms: for every measurement and deadline. */
  monotonic(): number;
}

export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
};

/** Why a request's signal was aborted; it is the `reason` of the signal. */
export type EndReason = 'client-gone' | 'draining';

/** What bounds a piece of work: `deadline` on the monotonic clock, `signal` with an {@link EndReason}. */
export interface Bounds {
  deadline: number;
  signal?: AbortSignal | undefined;
}

export function endReason(signal: AbortSignal | undefined): EndReason | undefined {
  return signal?.aborted ? (signal.reason as EndReason) : undefined;
}

/** An instant as the API writes it: RFC 3339, UTC. */
export function instant(epochMs: number): string {
  return new Date(epochMs).toISOString();
}

/**
 * Waits until `ms` have passed or the signal is aborted; says which. Never rejects.
 * For pauses between attempts; waits for events have their own code.
 */
export function pause(ms: number, signal?: AbortSignal): Promise<'elapsed' | 'aborted'> {
  if (signal?.aborted) return Promise.resolve('aborted');
  return new Promise((resolve) => {
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', onAbort);
      resolve('elapsed');
    }, ms);
    const onAbort = (): void => {
      clearTimeout(timer);
      resolve('aborted');
    };
    signal?.addEventListener('abort', onAbort, { once: true });
  });
}

/** Full jitter: a random pause in [0, min(cap, base · 2^attempt)), so that a crowd does not come back as one. */
export function fullJitter(attempt: number, baseMs: number, capMs: number): number {
  return Math.random() * Math.min(capMs, baseMs * 2 ** Math.min(attempt, 30));
}
