/** Looks (`observers.ts`) at what repeats: one node, and a tree. */
import { pause } from '../../time.js';
import type { BoundClient } from '../../zookeeper/bound.js';
import type { ControlSession } from '../../zookeeper/control-session.js';
import type { NodeData } from '../../zookeeper/operations.js';
import type { Watched, WatchEvent } from '../../zookeeper/watch.js';
import type { Look, LookAt, LookResult, Observed, Subject } from './observers.js';

/**
 * One node, watched by its data, or, while there is none, for it to appear: a change costs one notification and one
 * reading.
 * @param describe undefined for what nothing is to be told of
 */
export function lookAtNode<T extends Subject, S extends Observed>(
  control: ControlSession,
  describe: (subject: T, found: Omit<Watched<NodeData>, 'watch'>) => S | undefined,
): LookAt<T, S> {
  return async (subject, look) => {
    const present = await control.watches.getData(subject.path, look.wake, look.deadline);
    look.keep(present.watch);
    const state = describe(subject, present);
    if (state !== undefined) look.publish(state);
    if (present.value !== undefined) return 'wait';
    const absent = await control.watches.exists(subject.path, look.wake, look.deadline);
    look.keep(absent.watch);
    return absent.value === undefined ? 'wait' : 'again';
  };
}

/** What changes more often than anybody wants to be told: each look but the first comes so many ms late. */
export function paced<T extends Subject, S extends Observed>(ms: number, lookAt: LookAt<T, S>): LookAt<T, S> {
  return async (subject, look) => {
    if (look.known !== undefined) await pause(ms, look.signal);
    return lookAt(subject, look);
  };
}

/** What is to be read of a tree, now. */
export interface TreeReading {
  /** The paths of the nodes that have changed since the reading before. Undefined: everything is to be read. */
  readonly changed: readonly string[] | undefined;
  /** What it is read of. */
  readonly zk: BoundClient;
  /** Has everything read again after this. */
  readonly again: () => void;
}

const READ_MS = 10_000;

/**
 * A directory and all below it, by one recursive watch, which stays also while there is no directory. Its events name
 * the nodes, so only these are read again, on the same connection, and so at least as new; those that come while a
 * reading is under way are taken together. What a lost connection made the watch miss nobody reports: then everything
 * is read again. Lasts as long as anybody looks, or until something fails.
 */
export async function lookAtTree<S extends Observed>(
  control: ControlSession,
  directory: string,
  { keep, deadline, signal }: Pick<Look<S>, 'keep' | 'deadline' | 'signal'>,
  read: (reading: TreeReading) => Promise<void>,
): Promise<LookResult> {
  /** Undefined: everything. */
  let changed = undefined as Set<string> | undefined;
  let wake = (): void => undefined;
  const again = (): void => {
    changed = undefined;
    wake();
  };
  const onEvent = ({ type, path }: WatchEvent): void => {
    if (type === 'reset') return again();
    changed?.add(control.relative(path));
    wake();
  };
  const stop = (): void => wake();
  keep(await control.watches.persistent(directory, 'persistent-recursive', onEvent, deadline));
  signal.addEventListener('abort', stop, { once: true });
  try {
    while (!signal.aborted) {
      if (changed?.size === 0) await new Promise<void>((resolve) => (wake = resolve));
      else {
        const taken = changed === undefined ? undefined : [...changed];
        changed = new Set(); // whatever is noted from here on may be newer than what is read
        await read({ changed: taken, zk: control.until(performance.now() + READ_MS), again });
      }
    }
  } finally {
    signal.removeEventListener('abort', stop);
  }
  return 'again';
}
