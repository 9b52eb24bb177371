/**
 * How a chore walks over everything: namespace by namespace, a few things at once, each request with a deadline of its
 * own, and no further once the replica shuts down. What fails in one namespace holds up no other one.
 */
import { MINUTE, SECOND } from '../../time.js';
import type { BoundClient } from '../../zookeeper/bound.js';
import { NoReplyError, ZooKeeperError } from '../../zookeeper/errors.js';
import type { Coordination } from '../coordination.js';

const REQUEST_MS = 10 * SECOND;
const AT_ONCE = 64;
/** So many failures in a row because ZooKeeper did not answer are those of single things. */
const UNANSWERED_MAX = 3;

/** @param what failed, in words; undefined: the work as a whole */
export type OnFault = (error: unknown, what?: string) => void;

export class Sweep {
  readonly #context: Pick<Coordination, 'control' | 'layout'>;
  readonly #isStopped: () => boolean;
  readonly #onFault: OnFault;
  #unanswered = 0;

  /** @param onFault told of what fails apart from the rest; without it, that ends the round */
  constructor(
    context: Pick<Coordination, 'control' | 'layout'>,
    isStopped: () => boolean,
    onFault: OnFault = (error) => {
      throw error;
    },
  ) {
    this.#context = context;
    this.#isStopped = isStopped;
    this.#onFault = onFault;
  }

  /** Whether the replica is shutting down: to be asked between two steps. */
  get stopped(): boolean {
    return this.#isStopped();
  }

  /** By which one request has to be answered that is sent now; monotonic. */
  deadline(): number {
    return performance.now() + REQUEST_MS;
  }

  /** What one request is asked of that is sent now. */
  zk(): BoundClient {
    return this.#context.control.until(this.deadline());
  }

  /** The same of a request that removes all that is below a node. */
  longDeadline(): number {
    return performance.now() + MINUTE;
  }

  /** Names; none below a node that is not there. */
  children(path: string): Promise<string[]> {
    return this.zk().children(path);
  }

  /** One namespace after the other, each apart. */
  async eachNamespace(work: (namespace: string) => Promise<unknown>): Promise<void> {
    for (const namespace of await this.children(this.#context.layout.namespaces)) {
      if (this.stopped) return;
      await this.apart(`namespace "${namespace}"`, () => work(namespace));
    }
  }

  /**
   * Work that holds up no other when it fails: that is reported, and tried again in the next round. But when the
   * session was lost over it, or ZooKeeper answers nothing in time, the round ends: everything else would fail too.
   */
  async apart(what: string, work: () => Promise<unknown>): Promise<void> {
    const { control } = this.#context;
    const { sessionId } = control;
    try {
      await work();
      this.#unanswered = 0;
    } catch (error) {
      if (error instanceof NoReplyError) this.#unanswered += 1;
      const isOver = !control.connected || control.sessionId !== sessionId || this.#unanswered > UNANSWERED_MAX;
      if (isOver) throw error;
      this.#onFault(error, what);
    }
  }

  /** Some at once. */
  async each<T>(items: readonly T[], work: (item: T) => Promise<unknown>): Promise<void> {
    await this.batches(items, AT_ONCE, (batch) => Promise.all(batch.map((item) => work(item))));
  }

  /** One batch after the other. */
  async batches<T>(items: readonly T[], size: number, work: (batch: T[]) => Promise<unknown>): Promise<void> {
    for (let i = 0; i < items.length && !this.stopped; i += size) await work(items.slice(i, i + size));
  }
}

/** Where somebody may step in, or has done it: then it is not to be done. */
export async function quietly(change: Promise<unknown>): Promise<void> {
  try {
    await change;
  } catch (error) {
    if (!(error instanceof ZooKeeperError)) throw error;
  }
}
