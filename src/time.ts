/**
 * Time: the injectable clock, absolute deadlines, and the signal that ends a request.
 *
 * Durations are integer milliseconds. A deadline is a point on the *monotonic* clock, computed once at the edge from
 * the caller's `waitMs`: no loop restarts it, and no change of the wall clock moves it.
 */

export const SECOND = 1_000;
export const MINUTE = 60 * SECOND;
export const HOUR = 60 * MINUTE;
export const DAY = 24 * HOUR;

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

/** Why a request's signal was aborted; the `reason` of the signal. `refused`: its credential no longer allows it. */
export type EndReason = 'client-gone' | 'draining' | 'refused';

/**
 * The client that waits for an answer. Nothing is written for a client that is gone: it may have done something newer
 * through another replica meanwhile, which a late write would undo.
 */
export interface Requester {
  /** The connection ended before the whole answer was written. */
  readonly gone: boolean;
}

/**
 * Those who share one write: once one of them has left, it is not sent, and put together anew of those who are there.
 */
export function sharing<T>(members: readonly T[], hasLeft: (member: T) => boolean): Requester {
  return {
    get gone() {
      return members.some(hasLeft);
    },
  };
}

/** A requester whose request may wait. */
export interface Caller extends Requester {
  /** Why it is not to wait any longer, if so. */
  readonly ended: EndReason | undefined;
  /** Calls `listener` once, when it is not to wait any longer; at once if so. In a tenth of the memory of a signal. */
  onEnd(listener: () => void): void;
  /** The listener is not called any more. */
  offEnd(listener: () => void): void;
  /** The same as a signal, aborted with the reason. Created when it is first read: most requests need none. */
  readonly signal: AbortSignal;
}

/** Bounds a write for a client: `deadline` on the monotonic clock, and whether the client is still there. */
export interface Awaited {
  deadline: number;
  requester: Requester;
}

/** The same for work that may have no client. */
export type Bounded = Pick<Awaited, 'deadline'> & Partial<Awaited>;

/** What bounds a piece of work: `deadline` on the monotonic clock, `signal` with an {@link EndReason}. */
export interface Bounds {
  deadline: number;
  signal?: AbortSignal | undefined;
}

export function endReason(signal: AbortSignal | undefined): EndReason | undefined {
  return signal?.aborted ? (signal.reason as EndReason) : undefined;
}

/** A requester whose wait ends with a signal. */
export function callerUntil(requester: Requester, signal: AbortSignal): Caller {
  return {
    get gone() {
      return requester.gone;
    },
    get ended() {
      return endReason(signal);
    },
    onEnd(listener) {
      if (signal.aborted) listener();
      else signal.addEventListener('abort', listener, { once: true });
    },
    offEnd: (listener) => signal.removeEventListener('abort', listener),
    signal,
  };
}

/** An instant as the API writes it: RFC 3339, UTC. */
export function instant(epochMs: number): string {
  return new Date(epochMs).toISOString();
}

/** The longest delay that a timer takes. */
const TIMER_MS_MAX = 2 ** 31 - 1;

/**
 * Calls back once, when the wall clock reaches `epochMs`, however far away; at once if it has passed.
 * @returns cancels it
 */
export function atInstant(epochMs: number, act: () => void): () => void {
  let timer: NodeJS.Timeout | undefined;
  const arm = (): void => {
    const leftMs = epochMs - Date.now();
    if (leftMs <= 0) act();
    else timer = setTimeout(arm, Math.min(leftMs, TIMER_MS_MAX));
  };
  arm();
  return () => clearTimeout(timer);
}

/**
 * The result of work that is shared with others who have more time, and goes on for them.
 * @param ms how long this caller may wait
 * @throws what `tooLate` makes when that time is over, or what the work fails with
 */
export function within<T>(shared: Promise<T>, ms: number, tooLate: () => Error): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(tooLate()), Math.max(0, ms));
    shared.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}

/**
 * Waits until `ms` have passed or the signal is aborted, and says which. Never rejects. For pauses between attempts;
 * waits for events have their own code.
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

/** Full jitter: a random pause in [0, min(cap, base · 2^attempt)), so that a crowd does not return in step. */
export function fullJitter(attempt: number, baseMs: number, capMs: number): number {
  return Math.random() * Math.min(capMs, baseMs * 2 ** Math.min(attempt, 30));
}
