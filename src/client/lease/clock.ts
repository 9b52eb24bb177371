/**
 * The clock on which leases are judged: nobody sets it, and it goes on while the machine is suspended.
 *
 * `performance.now()` stands still during a suspension on Linux, but ZooKeeper's clock does not. The time since boot
 * goes on (as long as the kernel knows of the suspension: a virtual machine that is restored from a snapshot may not),
 * but is coarse; so it only shows that, and for how long, the other one stood still.
 */
import { uptime } from 'node:os';

/** Both clocks are read one after the other, and the coarse one ticks in seconds on some systems. */
const COARSE_MS = 1_500;
/** A timer that is set for longer runs at once. */
const TIMER_MAX_MS = 2 ** 31 - 1;

const behindMs = (): number => uptime() * 1_000 - performance.now();

const atStartMs = behindMs();
let suspendedMs = 0;

/** Milliseconds since some moment; never set back. */
export function now(): number {
  const suspected = behindMs() - atStartMs;
  if (suspected > suspendedMs + COARSE_MS) suspendedMs = suspected;
  return performance.now() + suspendedMs;
}

/** Resolves after that time (24.8 days at most), or as soon as the signal aborts; never rejects. */
export function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted) return resolve();
    const done = (): void => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', done);
      resolve();
    };
    const timer = setTimeout(done, Math.min(ms, TIMER_MAX_MS));
    signal?.addEventListener('abort', done);
  });
}
