/**
 * Asks for the ensemble's time (`server-clock.ts`) by writing to a node that serves nothing else, so that asking wakes
 * nobody and blocks nobody. The node's stat is proof: the leader measured that time after it was asked. This replica's
 * own estimate only tells when asking is worthwhile (protocol T9).
 */
import type { ControlSession } from './control-session.js';
import { unless } from './errors.js';
import type { Stat } from './operations.js';
import type { ServerClock } from './server-clock.js';

/** Slightly more than the error of a write that is accepted at once (`ServerClock`). */
const PRECISE_MS = 50;

const NO_DATA = new Uint8Array(0);

export interface TimeContext {
  control: ControlSession;
  zooKeeperClock: ServerClock;
  layout: {
    /** The node to write; created if missing. */
    readonly clock: string;
  };
}

/**
 * @returns of the write: `mtime` is the leader's time, epoch ms; `mzxid` identifies the leader
 * @throws NoReplyError
 */
export async function askTime(
  { control, layout }: Pick<TimeContext, 'control' | 'layout'>,
  deadline: number,
): Promise<Stat> {
  for (;;) {
    const written = await unless(control.setData(layout.clock, NO_DATA, undefined, deadline), 'NO_NODE');
    if (written !== undefined) return written;
    await control.ensurePath(layout.clock, deadline);
  }
}

/** Epoch ms on the ensemble's clock. A replica that has not written yet does not know it, and asks. */
export async function ensembleNow(context: TimeContext, deadline: number): Promise<number> {
  const { zooKeeperClock } = context;
  if (!zooKeeperClock.known) await askTime(context, deadline);
  return zooKeeperClock.now();
}

/** The ensemble's clock, known to {@link PRECISE_MS}: asks if this replica has not written for long. */
export async function preciseClock(context: TimeContext, deadline: number): Promise<ServerClock> {
  const { zooKeeperClock } = context;
  if (zooKeeperClock.errorMs > PRECISE_MS) await askTime(context, deadline);
  return zooKeeperClock;
}
