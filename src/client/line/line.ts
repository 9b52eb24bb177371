/**
 * Standing in a line until it grants, which is the same for locks, read-write locks and semaphores.
 *
 * Every acquire has a `requestId` of its own, so that a repeated request finds the place or the hold of its first
 * attempt, at any replica; and two acquires of one client stand in line one behind the other, as those of two clients
 * do. The place is kept from one request of the wait to the next, and given up when the wait is over. If the lease is
 * lost meanwhile, the wait goes on at the end of the line, under a new one.
 */
import { randomUUID } from 'node:crypto';
import { now } from '../lease/clock.js';
import type { Context } from '../context.js';
import type { Revocation } from '../lease/bound.js';
import { notOfGateway, PosternError } from '../errors.js';
import { giveBack } from '../lease/give-back.js';
import type { CallOptions } from '../gateways/gateways.js';
import type { Hold, HoldOptions } from '../lease/hold.js';
import type { Lease } from '../lease/lease.js';
import type { Round } from '../gateways/rounds.js';

export interface AcquireOptions {
  /**
   * How long to wait for it, in milliseconds; `Infinity` for as long as it takes. 0, the default, takes it only if it
   * is free.
   */
  waitMs?: number;
  /** Ends the wait; the place in line is given up. */
  signal?: AbortSignal;
  /** Any JSON value to show to others with the hold. */
  data?: unknown;
  /** If the lease is lost, nobody else is granted for that long, in milliseconds. */
  lockDelayMs?: number;
  /**
   * Called when somebody with the right to do so asks for the hold. The signal then aborts only when the hold is
   * broken, at `breakAt` if there is one; without this function it aborts at once.
   */
  onRevoke?: (revocation: Revocation) => void;
}

/** What an acquire says in every kind of line. */
export interface Place {
  requestId: string;
  waitMs: number;
  keepPlace: boolean;
}

interface Granted {
  holdId: string;
  fencingToken: number;
}

export interface Line<G = Granted> {
  readonly kind: string;
  readonly name: string;
  acquire(place: Place, options: CallOptions): Promise<{ status: 200; body: G } | { status: 202 }>;
  release(which: { holdId: string } | { requestId: string }, options: CallOptions): Promise<unknown>;
}

/**
 * @param make what the caller gets of a hold
 * @returns the hold
 * @throws PosternError `lock-held` if it was not granted in time; the reason of `options.signal`
 */
export function acquireIn<H extends Hold>(
  context: Context,
  line: Line,
  options: AcquireOptions,
  make: (hold: HoldOptions) => H,
): Promise<H> {
  return grantIn(context, line, options, (lease, granted) => make(holdOf(context, line, lease, granted, options)));
}

/** The same, whatever the line grants. */
export async function grantIn<G, H>(
  context: Context,
  line: Line<G>,
  options: AcquireOptions,
  make: (lease: Lease, granted: G) => H,
): Promise<H> {
  const { keeper, rounds } = context;
  const until = now() + (options.waitMs ?? 0);
  const requestId = randomUUID();
  for (let restarts = 0; ; restarts += 1) {
    options.signal?.throwIfAborted();
    const lease = await keeper.lease();
    try {
      const granted = await stand(context, line, lease, { requestId, until, signal: options.signal });
      if (!lease.judge()) throw lease.ended.reason;
      return make(lease, granted);
    } catch (error) {
      const gone = !options.signal?.aborted && (lease.endedBy(error) || lease.ended.aborted);
      if (!gone) throw error;
      if (restarts > 0 && rounds.next(until).waitMs === 0)
        throw new PosternError('the lease ended while it waited', {
          code: 'lease-expired',
          retryable: true,
          cause: error,
        });
    }
  }
}

interface Wait {
  requestId: string;
  until: number;
  signal: AbortSignal | undefined;
}

/** Until it is granted. Whatever else ends the wait, no place stays behind. */
async function stand<G>(context: Context, line: Line<G>, lease: Lease, wait: Wait): Promise<G> {
  const { requestId, until, signal } = wait;
  const giveUp = (): Promise<void> =>
    giveBack(context, lease, (options) => line.release({ requestId }, options)).catch(() => {});
  let kept = false;
  for (;;) {
    const round: Round = context.rounds.next(until);
    const { waitMs, last } = round;
    try {
      const options = { leaseToken: lease.token, signals: [signal, lease.ended] };
      const answer = await line.acquire({ requestId, waitMs, keepPlace: !last }, options);
      if (answer.status === 200) {
        if (!signal?.aborted) return answer.body;
        void giveUp();
        throw signal.reason;
      }
      kept = true;
      if (last)
        throw new PosternError(`${line.kind} "${line.name}": the wait is over`, { code: 'timeout', retryable: true });
    } catch (error) {
      if (context.rounds.tooLong(error, round)) continue;
      const refused = error instanceof PosternError && error.outcome === 'not-applied';
      if (!refused || (kept && error.code !== 'lock-held')) void giveUp();
      throw error;
    }
  }
}

export function holdOf(
  context: Context,
  line: Pick<Line, 'kind' | 'name' | 'release'>,
  lease: Lease,
  granted: Granted,
  { onRevoke }: AcquireOptions,
): HoldOptions {
  const { kind, name } = line;
  const { holdId, fencingToken } = granted;
  if (typeof fencingToken !== 'number') throw notOfGateway(200);
  const release = (): Promise<void> => giveBack(context, lease, (options) => line.release({ holdId }, options));
  return { lease, kind, name, holdId, fencingToken, release, onRevoke };
}
