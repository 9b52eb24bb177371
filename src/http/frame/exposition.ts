/**
 * The answer of `/metrics`. Building it takes as long as some hundred requests, and anybody may ask for it: so it is
 * built once for everybody who asks in the meantime, and each gets the same bytes.
 */
import type { Clock } from '../../time.js';

/**
 * @param forMs how long after it was begun a result is reused
 * @returns a function that never runs `make` twice at once
 */
export function sharedFor(forMs: number, clock: Clock, make: () => Promise<string>): () => Promise<Buffer> {
  let latest: Promise<Buffer> | undefined;
  let until = 0;
  return () => {
    const now = clock.monotonic();
    if (latest !== undefined && now < until) return latest;
    until = Infinity;
    latest = make().then((text) => Buffer.from(text));
    void latest.then(
      () => (until = now + forMs),
      () => (until = 0),
    );
    return latest;
  };
}
