/**
 * Reserving a lock: held until a time, by no lease. The place in line is kept from one request of the wait to the next;
 * when nobody asks for it any more, the gateway gives it up by itself.
 */
import { randomUUID } from 'node:crypto';
import type { Context } from '../context.js';
import type { Schemas } from '../contract.js';
import { now } from '../lease/clock.js';
import type { AcquireOptions } from './line.js';

export interface ReserveOptions extends Pick<AcquireOptions, 'waitMs' | 'signal'> {
  /** For how long, in milliseconds, from when it is granted. */
  forMs: number;
  /** For whom it is; shown to everybody who looks at the lock. */
  owner: string;
  reason?: string;
}

/** @throws PosternError `lock-held` if it was not granted in time; the reason of `signal` */
export async function reserveIn(
  { gateways, rounds, keeper }: Context,
  name: string,
  { waitMs = 0, signal, ...asked }: ReserveOptions,
): Promise<Schemas['ReservedLock']> {
  const until = now() + waitMs;
  const requestId = randomUUID();
  for (;;) {
    const round = rounds.next(until);
    const body = { ...asked, requestId, waitMs: round.waitMs, keepPlace: !round.last };
    try {
      const options = { signals: [signal, keeper.closed] };
      const answer = await gateways.call('POST /v1/locks/{name}/reserve', { path: { name }, body }, options);
      // A place is kept only where another round follows.
      if (answer.status === 200) return answer.body;
    } catch (error) {
      if (!rounds.tooLong(error, round)) throw error;
    }
  }
}
