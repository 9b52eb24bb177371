/**
 * Abandoned places. A killed replica, or a client that does not repeat its request after a 202, leaves a place that
 * nobody asks for any more, owned by a lease that lives on. Within the line it does no harm; at the head it would block
 * everybody. So a head that still says `waiting` 5 s after its announced wait ended is removed by a request that waits
 * behind it, at the version that was read: if its client comes back at that moment, the client wins (protocol C3). So
 * is the place of a reservation that was granted, and that did not come to stand: it holds for nobody (protocol C56).
 *
 * `waitUntil` is on the ensemble's clock, so replicas need not agree about the time.
 */
import type { ControlSession } from '../../zookeeper/control-session.js';
import { isReason, unless } from '../../zookeeper/errors.js';
import type { ServerClock } from '../../zookeeper/server-clock.js';
import { deleteContender } from './candidate-tail.js';
import { decodeRecord, type Contender, type ContenderRecord } from './contender.js';
import type { Line } from './line.js';

export const ABANDONED_GRACE_MS = 5_000;
/**
 * When a waiter looks at its predecessor for the first time, and how often again: the end that a place announces may
 * come to be earlier than it was when somebody looked.
 */
export const ABANDONED_CHECK_MS = 5_000;
const CHECK_MIN_MS = 50;
/** Of many whom a writer waits for, so many are looked at each time. */
const LOOKED_AT = 64;

interface AbandonedContext {
  control: ControlSession;
  zooKeeperClock: ServerClock;
}

/**
 * Looks at those whom a waiter waits for, and if one of them is abandoned removes whoever is, of those whom the line
 * admits. That somebody waits in a place of this replica is known without a look.
 * @returns ms until it is worth looking again
 */
export async function removeAbandoned(
  context: AbandonedContext,
  line: Line,
  blockers: readonly Contender[],
  waiter: Contender,
  deadline: number,
): Promise<number> {
  const unattended = blockers.filter(({ name }) => !line.waiters.has(name)).slice(0, LOOKED_AT);
  const looks = unattended.map(({ name }) => overdueBy(context, `${line.path}/${name}`, deadline));
  const overdue = (await Promise.all(looks)).filter(isOverdue).map(({ ms }) => ms);
  if (overdue.length === 0) return ABANDONED_CHECK_MS;
  const longest = Math.max(...overdue);
  if (longest < 0) return Math.min(ABANDONED_CHECK_MS, Math.max(CHECK_MIN_MS, -longest));
  await context.control.sync(line.path, deadline);
  await line.list(deadline);
  // Removing one that the line admits may admit others, which may be abandoned as well.
  for (let removed = true; removed;) {
    removed = false;
    for (const contender of line.admittedBefore(waiter)) {
      if (!(await removeIfAbandoned(context, line.path, contender, deadline))) continue;
      line.remove(contender);
      removed = true;
    }
  }
  return ABANDONED_CHECK_MS;
}

/** Removes `head`, which the line must admit, if it is abandoned. @returns whether it is gone, by whomever */
export async function removeIfAbandoned(
  context: AbandonedContext,
  directory: string,
  head: Contender,
  deadline: number,
): Promise<boolean> {
  const path = `${directory}/${head.name}`;
  let overdue = await overdueBy(context, path, deadline);
  // A server that lags behind may not have heard of it yet.
  if (overdue === 'gone') {
    await context.control.sync(path, deadline);
    overdue = await overdueBy(context, path, deadline);
  }
  if (overdue === 'gone') return true;
  if (overdue === undefined || overdue.ms < 0) return false;
  try {
    await deleteContender(context.control.until(deadline), path, overdue.version, overdue.downgradable);
    return true;
  } catch (error) {
    if (isReason(error, 'BAD_VERSION')) return false; // its client came back
    if (isReason(error, 'NO_NODE')) return true;
    throw error;
  }
}

/** How long it is past its time (negative: how long it still has). */
interface Overdue {
  ms: number;
  version: number;
  downgradable?: boolean | undefined;
}

/** @returns undefined for holds and foreign nodes; `gone`: the server at hand shows no such place */
async function overdueBy(
  { control, zooKeeperClock: clock }: AbandonedContext,
  path: string,
  deadline: number,
): Promise<Overdue | 'gone' | undefined> {
  if (!clock.known) return undefined;
  const node = await unless(control.getData(path, deadline), 'NO_NODE');
  if (node === undefined) return 'gone';
  const record = decodeRecord(node.data);
  if (record?.waitUntil === undefined || isHold(record)) return undefined;
  const ms = clock.now() - (record.waitUntil + ABANDONED_GRACE_MS);
  return { ms, version: node.stat.version, downgradable: record.downgradable };
}

function isHold({ state, reservation }: ContenderRecord): boolean {
  return state === 'granted' && (reservation === undefined || reservation.until !== undefined);
}

function isOverdue(look: Overdue | 'gone' | undefined): look is Overdue {
  return look !== undefined && look !== 'gone';
}
