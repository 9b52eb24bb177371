/**
 * How long a request of a lease may wait. No wait exceeds what is left of the lease: a heartbeat is due every third of
 * the TTL, so one that finds its server silent still has the time for another server, and its client for another
 * heartbeat.
 */

/** How long a busy server may take. */
const BUSY_MS = 1_000;

/**
 * How long to wait for one server before giving up its connection and trying another, in ms: a sixth of the TTL. For a
 * TTL below 6 s, a second, as long as that is no more than a third.
 */
export function patienceMs(ttlMs: number): number {
  return Math.max(ttlMs / 6, Math.min(BUSY_MS, ttlMs / 3));
}
