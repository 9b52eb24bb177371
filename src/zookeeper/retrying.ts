/** Trying again where ZooKeeper did not answer, until a deadline: what may be repeated, and what is said then. */
import { fullJitter, pause } from '../time.js';
import { isTransient, mayBeApplied, NoReplyError } from './errors.js';

const BASE_MS = 5;
const CAP_MS = 500;

/** What an attempt ends with that has to begin anew: somebody else was faster, or a directory had to be made. */
export const AGAIN = Symbol('again');

/**
 * Repeats what may be done twice.
 * @param mayRepeat whether a failure is worth another try
 * @throws what the last try threw
 */
export async function retrying<T>(
  deadline: number,
  attempt: () => Promise<T>,
  mayRepeat: (error: unknown) => boolean = isTransient,
): Promise<T> {
  for (let tries = 0; ; tries += 1) {
    try {
      return await attempt();
    } catch (error) {
      const ms = fullJitter(tries, BASE_MS, CAP_MS);
      if (!mayRepeat(error) || performance.now() + ms >= deadline) throw error;
      await pause(ms);
    }
  }
}

/**
 * Repeats a write that finds out by itself whether an earlier try was done.
 * @param what is written, for the words of an error
 * @param attempt is told whether an earlier try may have been done
 * @throws NoReplyError at the deadline: of unknown outcome when any of the tries may have been done
 */
export async function persisting<T>(
  what: string,
  deadline: number,
  attempt: (maybeApplied: boolean) => Promise<T | typeof AGAIN>,
): Promise<T> {
  let maybeApplied = false;
  const once = async (): Promise<T> => {
    for (;;) {
      const result = await attempt(maybeApplied);
      if (result !== AGAIN) return result;
      if (performance.now() >= deadline) throw new NoReplyError(what, 'deadline', maybeApplied);
    }
  };
  try {
    return await retrying(deadline, once, (error) => {
      maybeApplied ||= mayBeApplied(error);
      return isTransient(error);
    });
  } catch (error) {
    throw maybeApplied && isTransient(error) ? new NoReplyError(what, 'connection-lost', true, error) : error;
  }
}
