/**
 * Waits at a double barrier until all are in, or out: for the shared watch (`observer.ts`), with an occasional look of
 * its own.
 */
import type { Kind } from '../../metrics/metrics.js';
import { isTransient } from '../../zookeeper/errors.js';
import type { Coordination } from '../coordination.js';
import { keptAlive } from '../waiting/kept-alive.js';
import type { RoundObservers, RoundState } from './observer.js';
import type { Passage } from './passage.js';

export const KIND: Kind = 'barrier';
/** Looks of a waiting request, per TTL: as often as its lease is kept alive. */
const LOOKS_PER_TTL = 3;

/** What is waited for. */
export interface WaitedFor {
  /** Whether it is so, as ZooKeeper knows it now. */
  readonly look: () => Promise<boolean>;
  /** Whether it is so in this state. */
  readonly wanted: (state: RoundState) => boolean;
  /** Asked now and then: whether a look is worth while. Throws what ends the wait. */
  readonly mayBe: () => Promise<boolean>;
}

/**
 * Waits until a state is as it is wanted, or a look finds it so, and keeps the lease alive meanwhile (C4).
 * @returns false when the wait is over before
 */
export async function waitFor(
  { metrics, leases, contention }: Coordination,
  observers: RoundObservers,
  { lease, waitMs, receivedAt, signal }: Passage,
  directory: string,
  { look, wanted, mayBe }: WaitedFor,
): Promise<boolean> {
  if (waitMs === 0) return false;
  return keptAlive(leases, lease, signal, async (ending) => {
    const over = new AbortController();
    const end = (): void => over.abort(ending.reason);
    ending.addEventListener('abort', end, { once: true });
    if (ending.aborted) end();
    let failure: Error | undefined;
    let found = false;
    const lookNow = (when: () => Promise<boolean>): void => {
      void untilNoReply(async () => (await when()) && (await look())).then(
        (done) => {
          if (!done) return;
          found = true;
          over.abort();
        },
        (error: Error) => {
          failure = error;
          over.abort();
        },
      );
    };
    let states = 0;
    const seen = (state: RoundState): boolean => {
      const done = wanted(state);
      if (states > 0 || done) metrics.wakeupsTotal.inc({ kind: KIND });
      if (states > 0 && !done) metrics.spuriousWakeupsTotal.inc({ kind: KIND });
      // A round is over, and the next one may begin.
      if (!done && state.round === undefined) lookNow(() => Promise.resolve(true));
      states += 1;
      return done;
    };
    const looks = setInterval(() => lookNow(mayBe), lease.ttlMs / LOOKS_PER_TTL);
    metrics.waiters.inc({ kind: KIND });
    const endWait = contention.begin(KIND, directory);
    try {
      const state = await observers.until({ path: directory }, seen, receivedAt + waitMs, over.signal);
      if (failure !== undefined) throw failure;
      const done = state !== undefined || found;
      if (done) metrics.handoffsTotal.inc({ kind: KIND });
      return done;
    } finally {
      metrics.waiters.dec({ kind: KIND });
      endWait();
      clearInterval(looks);
      ending.removeEventListener('abort', end);
    }
  });
}

/** A look that ZooKeeper does not answer has found nothing yet. */
export async function untilNoReply(look: () => Promise<boolean>): Promise<boolean> {
  try {
    return await look();
  } catch (error) {
    if (isTransient(error)) return false;
    throw error;
  }
}
