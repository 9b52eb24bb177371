/**
 * Observes the runs of a name, for waiting starts, long polls and event streams (`observing/observers.ts`): one watch
 * per name and replica on its node, and one on the lease of each attempt that runs. So the end of an attempt costs one
 * notification and one reading per replica, whether it was finished or its lease ended.
 */
import type { Layout } from '../../leases/layout.js';
import type { ControlSession } from '../../zookeeper/control-session.js';
import { Observers, type LookAt } from '../observing/observers.js';
import { livingOf } from './read.js';
import { parseRuns, viewOf, type RunRef, type RunView } from './run.js';

export type RunObservers = Observers<RunRef, RunView>;

/** Of all runs of one replica. */
export function runObservers(control: ControlSession, layout: Layout): RunObservers {
  const lookAt: LookAt<RunRef, RunView> = async ({ namespace, name, path }, look) => {
    const { watches } = control;
    const present = await watches.getData(path, look.wake, look.deadline);
    look.keep(present.watch);
    if (present.value === undefined) {
      look.publish(viewOf(name, undefined, new Set()));
      const absent = await watches.exists(path, look.wake, look.deadline);
      look.keep(absent.watch);
      return absent.value === undefined ? 'wait' : 'again';
    }
    const runs = parseRuns(name, present.value.data) ?? [];
    const living = new Set(await livingOf(control.until(look.deadline), layout, namespace, runs));
    await Promise.all(
      [...living].map(async (leaseId) => {
        // Not `exists`, which would leave a watch behind for a lease that has ended.
        const { value, watch } = await watches.getData(layout.lease(namespace, leaseId), look.wake, look.deadline);
        look.keep(watch);
        if (value === undefined) living.delete(leaseId);
      }),
    );
    look.publish(viewOf(name, present.value, living));
    return 'wait';
  };
  return new Observers(control, lookAt);
}
