/**
 * One request for messages while it waits in its replica. Waiting costs ZooKeeper nothing. It may wait at several
 * queues at once: the first of them that has something takes it for this request, and the others leave it alone
 * meanwhile.
 *
 *   waiting ──messages assigned──▶ taking ──taken──▶ answered
 *      ▲  │                          │
 *      │  ├─its wait has ended, and the queue was seen to be empty─▶ answered with nothing
 *      │  └─client gone, draining──▶ answered with nothing: nothing was taken
 *      └──────the assigned messages could not be taken───┘
 */
import type { PosternError } from '../../../errors.js';
import type { Lease } from '../../../leases/lease.js';
import type { Metrics } from '../../../metrics/metrics.js';
import type { Caller } from '../../../time.js';
import { NoReplyError } from '../../../zookeeper/errors.js';
import type { Entry } from './entry.js';
import type { StoredMessage } from '../message.js';

/** A message that was handed out. */
export interface Delivered {
  /** The name of its queue. */
  queue: string;
  message: StoredMessage;
  priority: number;
  /** Epoch ms. */
  enqueuedAt: number;
  /** Epoch ms; undefined: it does not expire. */
  expiresAt: number | undefined;
  /** How often it was handed out, this time included. */
  deliveries: number;
  claimId?: string | undefined;
  /** Epoch ms: until when the claim lasts at most. */
  claimedUntil?: number | undefined;
  /** Of a claim: the message's node and the version of its delivery record. */
  path: string;
  version: number;
}

export interface ClaimTerms {
  lease: Lease;
  requestId: string;
  /** How long the claim lasts at most, ms; undefined: as long as the lease. */
  claimMs: number | undefined;
}

export interface DemandOptions {
  /** Messages at most. */
  max: number;
  /** Of a claim; undefined: the messages are popped. */
  claim: ClaimTerms | undefined;
  /** Arrival of the request, monotonic. */
  receivedAt: number;
  waitMs: number;
  /** An answer is due by then, whatever is under way; monotonic. */
  hardDeadline: number;
  caller: Caller;
  reserve: Reserve;
}

/** Sets room for an answer of so many bytes aside, before what it tells is taken or read. @returns why there is none */
export type Reserve = (bytes: number) => PosternError | undefined;

export class Demand {
  readonly options: DemandOptions;
  readonly answered: Promise<Delivered[]>;
  /** Messages are being taken for it. */
  taking = false;
  over = false;
  /** It has waited, and not only been looked at. */
  waited = false;
  /** Of the queues that it waits at. */
  readonly #onChange: (() => void)[] = [];
  readonly #metrics: Pick<Metrics, 'waiters'>;
  #resolve!: (items: Delivered[]) => void;
  #reject!: (error: unknown) => void;
  readonly #timers: NodeJS.Timeout[] = [];
  readonly #onAbort = (): void => {
    if (!this.taking) this.end([]);
  };

  constructor(options: DemandOptions, metrics: Pick<Metrics, 'waiters'>) {
    this.options = options;
    this.#metrics = metrics;
    metrics.waiters.inc({ kind: 'queue' });
    this.answered = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    const { waitMs, receivedAt, hardDeadline, caller } = options;
    const now = performance.now();
    if (waitMs > 0) {
      // That there is nothing can be said when it has been looked. Before that it is answered by the look, as one that
      // does not wait is.
      const onEnd = (): void => {
        if (!this.taking && this.waited) this.end([]);
      };
      this.#timers.push(setTimeout(onEnd, Math.max(0, receivedAt + waitMs - now)));
    }
    const fail = (): void => this.fail(new NoReplyError('the request for messages', 'deadline', this.taking));
    this.#timers.push(setTimeout(fail, Math.max(0, hardDeadline - now)));
    if (this.left) this.end([]);
    else if (waitMs > 0) caller.onEnd(this.#onAbort);
  }

  /** @param listener called when it needs nothing any more, and when another queue has failed to serve it */
  onChange(listener: () => void): void {
    this.#onChange.push(listener);
  }

  /** Whether nobody waits for its answer any more. */
  get left(): boolean {
    const { caller, waitMs } = this.options;
    return caller.gone || (waitMs > 0 && caller.ended !== undefined);
  }

  /** Whether it would rather have nothing than wait (any more). */
  get impatient(): boolean {
    const { waitMs, receivedAt } = this.options;
    return waitMs === 0 || performance.now() >= receivedAt + waitMs;
  }

  /** What was assigned could not be taken: it waits again, or is over when its time is and there was nothing before. */
  again(): void {
    this.taking = false;
    if (this.left || (this.options.waitMs > 0 && this.waited && this.impatient)) this.end([]);
    else if (this.#onChange.length > 1) for (const changed of this.#onChange) changed();
  }

  end(items: Delivered[]): void {
    if (this.#finish()) this.#resolve(items);
  }

  fail(error: unknown): void {
    if (this.#finish()) this.#reject(error);
  }

  #finish(): boolean {
    if (this.over) return false;
    this.over = true;
    for (const timer of this.#timers) clearTimeout(timer);
    const { caller, waitMs } = this.options;
    if (waitMs > 0) caller.offEnd(this.#onAbort);
    this.#metrics.waiters.dec({ kind: 'queue' });
    for (const changed of this.#onChange) changed();
    return true;
  }
}

/** What goes to one demand. */
export interface Assignment {
  demand: Demand;
  entries: Entry[];
}
