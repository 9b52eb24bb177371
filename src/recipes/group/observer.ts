/**
 * Observes the members of a group, for long polls and event streams (`observing/observers.ts`): one recursive watch per
 * group and replica. A change costs one notification and the reading of the one member that came, went or wrote,
 * whatever the number of members and subscribers.
 */
import type { ControlSession } from '../../zookeeper/control-session.js';
import { baseName, parentOf } from '../../zookeeper/paths.js';
import { pause } from '../../time.js';
import { lookAtTree } from '../observing/looks.js';
import { Observers, type Subject } from '../observing/observers.js';
import { SeenMembers, type GroupView } from './seen-members.js';

export interface GroupState extends GroupView {
  /** Names the set of members alone, whatever their values. */
  membership: string;
}

export type GroupObservers = Observers<Subject, GroupState>;

/** Telling of a group takes this part of the time at most, however many its members are. */
const PART_OF_TIME = 1 / 10;
const PAUSE_MS_MIN = 10;
const PAUSE_MS_MAX = 1_000;

/** Of all groups of one replica. */
export function groupObservers(control: ControlSession): GroupObservers {
  return new Observers(control, ({ path: directory }, look) => {
    const members = new SeenMembers(directory, control.largeReads);
    return lookAtTree(control, directory, look, async ({ changed, zk }) => {
      await members.read(zk, changed?.filter((path) => parentOf(path) === directory).map(baseName));
      const begun = performance.now();
      const state = { ...members.view(), membership: members.membership() };
      look.publish(state);
      const ownMs = performance.now() - begun;
      const pauseMs = (ownMs + (await look.told())) / PART_OF_TIME;
      if (pauseMs > PAUSE_MS_MIN) await pause(Math.min(pauseMs, PAUSE_MS_MAX), look.signal);
    });
  });
}
