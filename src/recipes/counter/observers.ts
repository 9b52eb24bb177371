/**
 * Observes counters, for long polls and event streams (`observing/observers.ts`): one watch per counter and replica, on
 * its node, or for its creation. A counter may change a thousand times a second; subscribers are told at most some ten
 * times a second, always the newest value.
 */
import type { ControlSession } from '../../zookeeper/control-session.js';
import { baseName } from '../../zookeeper/paths.js';
import { lookAtNode, paced } from '../observing/looks.js';
import { Observers, type Subject } from '../observing/observers.js';
import { stateOf, UNUSED_COUNTER, type CounterState } from './counter.js';

const BETWEEN_MS = 100;

export type CounterObservers = Observers<Subject, CounterState>;

/** Of all counters of one replica. What somebody else has put in a counter's place is none: nothing is told of it. */
export function counterObservers(control: ControlSession): CounterObservers {
  const look = lookAtNode(control, ({ path }: Subject, { value }) =>
    value === undefined ? UNUSED_COUNTER : stateOf(baseName(path), value),
  );
  return new Observers(control, paced(BETWEEN_MS, look));
}
