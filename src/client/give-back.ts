/** The end of a hold: tried for as long as the lease lives, because a lease that goes on would keep the hold. */
import { pause } from './clock.js';
import type { Context } from './context.js';
import { PosternError } from './errors.js';
import type { CallOptions } from './gateways.js';
import type { Lease } from './lease.js';

/** A lease that has ended needs no release; one that may only have ended is worth one try, in milliseconds. */
const AFTERWARDS_MS = 500;

/**
 * @param send the request that gives it back
 * @throws PosternError if it has not been confirmed within the patience of the client; it is still repeated then
 */
export async function giveBack(
  { settings, keeper }: Context,
  lease: Lease,
  send: (options: CallOptions) => Promise<unknown>,
): Promise<void> {
  const { token: leaseToken } = lease;
  if (keeper.closed.aborted) return;
  if (lease.ended.aborted) return send({ leaseToken, patienceMs: AFTERWARDS_MS }).then(ignore, ignore);
  const patient = new AbortController();
  const done = send({ leaseToken, patienceMs: Infinity, signals: [lease.ended] }).catch((error: unknown) => {
    if (lease.endedBy(error) || lease.ended.aborted) return;
    if (!(error instanceof PosternError && error.code === 'not-holder')) throw error;
  });
  const late = pause(settings.patienceMs, patient.signal).then(() => {
    if (patient.signal.aborted) return;
    const detail = `the release has not been confirmed within ${settings.patienceMs} ms; it is repeated`;
    throw new PosternError(detail, { code: 'unreachable', retryable: true, outcome: 'unknown' });
  });
  return Promise.race([done, late]).finally(() => patient.abort()) as Promise<void>;
}

function ignore(): void {}
