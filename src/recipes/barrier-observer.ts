/**
 * Watching whether a barrier is raised, for those who wait at it, for long polls and for event streams (`observers.ts`): one watch per
 * barrier and replica, on the node, or for it to appear.
 */
import type { Metrics } from '../metrics/metrics.js';
import type { ControlSession } from '../zookeeper/control-session.js';
import { endReason } from '../time.js';
import type { Contention } from './contention.js';
import type { Coordination } from './coordination.js';
import { describeBarrier, isLifted, liftedAt, type BarrierView } from './barrier.js';
import { Observers, type Look, type LookResult, type Observed } from './observers.js';

/** Told apart also where the barrier was raised and lifted between two looks: who saw it raised must learn that. */
interface Observation extends Observed {
  barrier: BarrierView;
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

/** Of all barriers of one replica. */
export class BarrierObservers {
  readonly #observers: Observers<undefined, Observation>;
  readonly #metrics: Metrics;
  readonly #contention: Contention;

  constructor({ control, metrics, contention }: Pick<Coordination, 'control' | 'metrics' | 'contention'>) {
    this.#metrics = metrics;
    this.#contention = contention;
    this.#observers = new Observers(control, (path, _, look) => lookAt(control, path, look));
  }

  get size(): number {
    return this.#observers.size;
  }

  /** Calls `subscriber` with the barrier as soon as it is known, and with every change, until the returned function is called. */
  subscribe(path: string, subscriber: (barrier: BarrierView) => void): () => void {
    let told: string | undefined;
    return this.#observers.subscribe(path, undefined, ({ barrier }) => {
      if (barrier.etag === told) return;
      told = barrier.etag;
      subscriber(barrier);
    });
  }

  /** Resolves with the first state whose etag is not known, or undefined at the deadline or when the signal is aborted. */
  async changed(
    path: string,
    isKnown: (etag: string) => boolean,
    deadline: number,
    signal: AbortSignal,
  ): Promise<BarrierView | undefined> {
    const wanted = ({ barrier }: Observation): boolean => !isKnown(barrier.etag);
    return (await this.#observers.until(path, undefined, wanted, deadline, signal))?.barrier;
  }

  /** @returns whether it was lifted in time */
  async untilLifted({ path, seen, receivedAt, deadline, signal }: BarrierWait): Promise<boolean> {
    const metrics = this.#metrics;
    let looks = 0;
    const wanted = ({ barrier }: Observation): boolean => {
      const lifted = isLifted(seen, barrier);
      // The first state is what is found, and no waking, unless it has been lifted since.
      if (looks > 0 || lifted) metrics.wakeupsTotal.inc({ kind: KIND });
      if (looks > 0 && !lifted) metrics.spuriousWakeupsTotal.inc({ kind: KIND });
      looks += 1;
      return lifted;
    };
    metrics.waiters.inc({ kind: KIND });
    const endWait = this.#contention.begin(KIND, path);
    try {
      const lifted = (await this.#observers.until(path, undefined, wanted, deadline, signal)) !== undefined;
      if (lifted) {
        metrics.handoffsTotal.inc({ kind: KIND });
        this.count('waited', receivedAt);
      } else {
        this.count(endReason(signal) === 'client-gone' ? 'left' : 'refused', receivedAt);
      }
      return lifted;
    } finally {
      metrics.waiters.dec({ kind: KIND });
      endWait();
    }
  }

  /** One wait, by how it ended. */
  count(outcome: 'immediate' | 'waited' | 'refused' | 'left', receivedAt: number): void {
    this.#metrics.acquireTotal.inc({ kind: KIND, outcome });
    if (outcome === 'immediate' || outcome === 'waited')
      this.#metrics.acquireWaitSeconds.observe({ kind: KIND }, (performance.now() - receivedAt) / 1_000);
  }
}

async function lookAt(control: ControlSession, path: string, look: Look<Observation>): Promise<LookResult> {
  const { watches } = control;
  const publish = (barrier: BarrierView): void => look.publish({ barrier, etag: `${barrier.czxid} ${barrier.zxid}` });
  const present = await watches.getData(path, look.wake, look.deadline);
  look.keep(present.watch);
  if (present.value !== undefined) {
    publish(describeBarrier(present.value));
    return 'wait';
  }
  publish(liftedAt(present.zxid));
  const absent = await watches.exists(path, look.wake, look.deadline);
  look.keep(absent.watch);
  return absent.value === undefined ? 'wait' : 'again';
}
