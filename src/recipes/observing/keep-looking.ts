/** A replica's own look at something that changes, for as long as the replica lives. */
import { fullJitter, pause } from '../../time.js';
import { NoReplyError } from '../../zookeeper/errors.js';

const RETRY_BASE_MS = 50;
export const RETRY_CAP_MS = 500;

/**
 * Looks again and again until `signal` aborts; after a failure a little later each time.
 * @param look returns when there is something new to look at
 * @param onFault told of failures other than the loss of ZooKeeper
 */
export async function keepLooking(
  signal: AbortSignal,
  look: (signal: AbortSignal) => Promise<void>,
  onFault: (error: unknown) => void,
): Promise<void> {
  for (let failures = 0; !signal.aborted;) {
    try {
      await look(signal);
      failures = 0;
    } catch (error) {
      if (!signal.aborted && !(error instanceof NoReplyError)) onFault(error);
      failures += 1;
      await pause(fullJitter(failures, RETRY_BASE_MS, RETRY_CAP_MS), signal);
    }
  }
}
