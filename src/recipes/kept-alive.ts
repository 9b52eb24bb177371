/** A wait that a lease is kept alive by (protocol C4). */
import { LeaseExpiredError } from '../errors.js';
import type { Lease } from '../leases/lease.js';
import type { Leases } from '../leases/leases.js';

/** A heartbeat may be lost twice before the lease ends. */
const TOUCHES_PER_TTL = 3;

/**
 * Runs `wait` and touches the lease every third of its TTL meanwhile, until it has ended or the client is gone.
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
  const touch = setInterval(() => {
    leases.touch(lease, performance.now() + (lease.ttlMs * 2) / TOUCHES_PER_TTL).catch((error: unknown) => {
      // Anything else: the next touch is due before the lease ends.
      if (!(error instanceof LeaseExpiredError)) return;
      expired = error;
      ending.abort();
    });
  }, lease.ttlMs / TOUCHES_PER_TTL);
  try {
    const result = await wait(ending.signal);
    if (expired !== undefined) throw expired;
    return result;
  } finally {
    clearInterval(touch);
    signal.removeEventListener('abort', end);
  }
}
