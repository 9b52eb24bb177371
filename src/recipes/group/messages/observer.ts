/**
 * Observes the messages of groups, for long polls and event streams (`observing/observers.ts`): one watch per group and
 * replica, on the log, which every post writes. What is published is the number of the last message; those who wait
 * read what is behind their cursor, and those with the same cursor share a reading.
 */
import type { ControlSession } from '../../../zookeeper/control-session.js';
import { lookAtNode } from '../../observing/looks.js';
import { Observers } from '../../observing/observers.js';
import { parseLog, type LogRef } from './log.js';

export interface LogState {
  readonly etag: string;
  /** The number of the last message, which may have been dropped; -1 while the log has had none. */
  readonly last: number;
}

export type LogObservers = Observers<LogRef, LogState>;

/** Of all groups of one replica. */
export function logObservers(control: ControlSession): LogObservers {
  return new Observers(
    control,
    lookAtNode(control, (_, { value }) => {
      const log = value === undefined ? undefined : parseLog(value);
      const last = log === undefined || log.next === log.start ? -1 : log.next - 1;
      return { etag: `"${last}"`, last };
    }),
  );
}
