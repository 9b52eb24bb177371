/** For work that is shared with callers who have more time: each waits no longer than it may. */
import { NoReplyError } from './errors.js';

/** What `shared` comes to, or at the deadline a `NoReplyError` that says that nothing was done for this caller. */
export function byDeadline<T>(shared: Promise<T>, deadline: number, operation: string): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(
      () => reject(new NoReplyError(operation, 'deadline', false)),
      Math.max(0, deadline - performance.now()),
    );
    shared.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}
