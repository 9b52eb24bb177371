/** Keeps the lease alive while its request waits, and ends the wait with the lease (protocol C4). */
import { LeaseExpiredError } from '../../errors.js';
import type { Lease } from '../../leases/lease.js';
import type { Leases } from '../../leases/leases.js';
import type { EndReason } from '../../time.js';

/** A heartbeat may be lost twice before the lease ends. */
const TOUCHES_PER_TTL = 3;
const ENDED: EndReason = 'client-gone'; // nobody is to be given anything any more

/**
 * Touches the lease every third of its TTL, and at once when it may have ended, until the returned function is called.
 * @param onExpired called when it has
 * @param touch replaces the touch, if it should find out more than whether the lease lives
 */
export function keepAlive(
  leases: Leases,
  lease: Lease,
  onExpired: (error: LeaseExpiredError) => void,
  touch: (deadline: number) => Promise<unknown> = (deadline) => leases.touch(lease, deadline),
): () => void {
  const everyMs = lease.ttlMs / TOUCHES_PER_TTL;
  const touchNow = (): void => {
    touch(performance.now() + 2 * everyMs).catch((error: unknown) => {
      // Anything else: the next touch is due before the lease ends.
      if (error instanceof LeaseExpiredError) onExpired(error);
    });
  };
  const timer = setInterval(touchNow, everyMs);
  const life = leases.lifeOf(lease, touchNow);
  return () => {
    clearInterval(timer);
    life.stop();
  };
}

/**
 * Runs `wait` and keeps the lease alive meanwhile, until it has ended or the client is gone.
 * @throws LeaseExpiredError as soon as the lease has ended; the signal that `wait` was given is aborted then
 */
export async function keptAlive<T>(
  leases: Leases,
  lease: Lease,
  signal: AbortSignal,
  wait: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const ending = new AbortController();
  const end = (): void => ending.abort(signal.reason);
  signal.addEventListener('abort', end, { once: true });
  if (signal.aborted) end();
  let expired: LeaseExpiredError | undefined;
  const stop = keepAlive(leases, lease, (error) => {
    expired = error;
    ending.abort(ENDED);
  });
  try {
    const result = await wait(ending.signal);
    if (expired !== undefined) throw expired;
    return result;
  } finally {
    stop();
    signal.removeEventListener('abort', end);
  }
}
