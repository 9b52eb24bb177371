/** For work that is shared with callers who have more time: nobody waits longer than they may. */
import { within } from '../time.js';
import { NoReplyError } from './errors.js';

/** The result of `shared`, or at the deadline a `NoReplyError` that says that nothing was done for this caller. */
export function byDeadline<T>(shared: Promise<T>, deadline: number, operation: string): Promise<T> {
  return within(shared, deadline - performance.now(), () => new NoReplyError(operation, 'deadline', false));
}
