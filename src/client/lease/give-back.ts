/** The end of a hold: tried for as long as the lease lives, because a lease that goes on would keep the hold. */
import type { Context } from '../context.js';
import { PosternError } from '../errors.js';
import type { CallOptions } from '../gateways/gateways.js';
import type { Lease } from './lease.js';

/** A lease that has ended needs no release; one that may only have ended is worth a try, in milliseconds. */
const AFTERWARDS_MS = 500;

/**
 * @param send the request that gives it back
 * @throws PosternError if it is refused; not if there is nothing left to give back
 */
export async function giveBack(
  { keeper }: Context,
  lease: Lease,
  send: (options: CallOptions) => Promise<unknown>,
): Promise<void> {
  const { token: leaseToken, ended } = lease;
  if (keeper.closed.aborted) return;
  const options = ended.aborted ? { patienceMs: AFTERWARDS_MS } : { insists: true, signals: [ended] };
  try {
    await send({ leaseToken, ...options });
  } catch (error) {
    const gone = lease.endedBy(error) || ended.aborted;
    if (!gone && !(error instanceof PosternError && error.code === 'not-holder')) throw error;
  }
}
