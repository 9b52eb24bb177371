/**
 * Observes whether a barrier is raised, for waiters, long polls and event streams (`observing/observers.ts`): one watch
 * per barrier and replica, on the node, or for its creation.
 */
import type { ControlSession } from '../../zookeeper/control-session.js';
import { endReason } from '../../time.js';
import type { Coordination } from '../coordination.js';
import { describeBarrier, isLifted, liftedAt, type BarrierView } from './barrier.js';
import { lookAtNode } from '../observing/looks.js';
import { Observers, type Observed, type Subject } from '../observing/observers.js';

/**
 * Also published if the barrier was raised and lifted between two looks: a waiter that saw it raised must learn that.
 */
export type BarrierState = BarrierView & Observed;

export type BarrierObservers = Observers<Subject, BarrierState>;

/** The observers of all barriers in one replica. */
export function barrierObservers(control: ControlSession): BarrierObservers {
  return new Observers(
    control,
    lookAtNode(control, (_, { value, zxid }): BarrierState => {
      const barrier = value === undefined ? liftedAt(zxid) : describeBarrier(value);
      return { ...barrier, moment: zxid };
    }),
  );
}

export interface BarrierWait {
  path: string;
  /** The barrier as it was found raised. */
  seen: BarrierView;
  /** Monotonic. */
  receivedAt: number;
  deadline: number;
  signal: AbortSignal;
}

const KIND = 'barrier';

type Counted = Pick<Coordination, 'metrics' | 'contention'>;

/** @returns whether it was lifted in time */
export async function untilLifted(
  { metrics, contention }: Counted,
  observers: BarrierObservers,
  { path, seen, receivedAt, deadline, signal }: BarrierWait,
): Promise<boolean> {
  let looks = 0;
  const wanted = (barrier: BarrierState): boolean => {
    const lifted = isLifted(seen, barrier);
    // The first state is no wakeup, unless the barrier has been lifted since it was seen.
    if (looks > 0 || lifted) metrics.wakeupsTotal.inc({ kind: KIND });
    if (looks > 0 && !lifted) metrics.spuriousWakeupsTotal.inc({ kind: KIND });
    looks += 1;
    return lifted;
  };
  metrics.waiters.inc({ kind: KIND });
  const endWait = contention.begin(KIND, path);
  try {
    const lifted = (await observers.until({ path }, wanted, deadline, signal)) !== undefined;
    if (lifted) {
      metrics.handoffsTotal.inc({ kind: KIND });
      countWait(metrics, 'waited', receivedAt);
    } else {
      countWait(metrics, endReason(signal) === 'client-gone' ? 'left' : 'refused', receivedAt);
    }
    return lifted;
  } finally {
    metrics.waiters.dec({ kind: KIND });
    endWait();
  }
}

/** Counts one wait by its outcome. */
export function countWait(
  metrics: Coordination['metrics'],
  outcome: 'immediate' | 'waited' | 'refused' | 'left',
  receivedAt: number,
): void {
  metrics.acquireTotal.inc({ kind: KIND, outcome });
  if (outcome === 'immediate' || outcome === 'waited')
    metrics.acquireWaitSeconds.observe({ kind: KIND }, (performance.now() - receivedAt) / 1_000);
}
