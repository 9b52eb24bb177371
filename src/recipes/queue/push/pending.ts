/** A push while it waits in the lane (`lane.ts`) for its transaction, and what it pushes. */
import { ClientGoneError } from '../../../errors.js';
import type { Requester } from '../../../time.js';
import { NoReplyError } from '../../../zookeeper/errors.js';
import type { MultiOperation } from '../../../zookeeper/operations.js';

/** One message on its way into the queue. */
export interface Arrival {
  data: Buffer;
  priority: number;
  /** Not into the queue yet, but to where it waits until then: epoch ms on the ensemble's clock. */
  dueAt?: number | undefined;
  /** From then on nobody gets it: epoch ms on the ensemble's clock. A delayed one has it in its header. */
  expiresAt?: number | undefined;
  /** A hash of its group (`groupHash`); undefined: it has none, or is a delayed one and has it in its header. */
  group: string | undefined;
  /** What has to be done in the same transaction. */
  conditions: MultiOperation[];
}

/** What is pushed at once: all or none. */
export interface Push {
  arrivals: readonly Arrival[];
  /** Monotonic. */
  deadline: number;
  /** For whom; what is moved without anybody asking is for nobody. */
  requester?: Requester | undefined;
  /**
   * A condition was refused. Changes the arrivals, or what is remembered of them, so that it does not happen again.
   * @returns the arrivals that are still to be pushed; empty: there is nothing left to do
   * @throws what the push then fails with
   */
  refused(index: number, operation: number, error: unknown): Promise<readonly Arrival[]>;
}

/** A push in the lane. */
export class PendingPush implements Push {
  arrivals: readonly Arrival[];
  readonly deadline: number;
  readonly requester: Requester | undefined;
  /** A transaction with it was sent, and nothing is known of it yet. */
  maybeApplied = false;
  /** A transaction with it went out in a session that was given up: it may arrive as long as none was done since. */
  inDoubt = false;
  readonly #push: Push;
  readonly #resolve: () => void;
  readonly #reject: (error: unknown) => void;
  readonly #timer: NodeJS.Timeout;
  #over = false;

  constructor(push: Push, resolve: () => void, reject: (error: unknown) => void) {
    this.arrivals = push.arrivals;
    this.deadline = push.deadline;
    this.requester = push.requester;
    this.#push = push;
    this.#resolve = resolve;
    this.#reject = reject;
    this.#timer = setTimeout(
      () => this.end(new NoReplyError('the push', 'deadline', this.maybeApplied)),
      Math.max(0, push.deadline - performance.now()),
    );
  }

  refused(index: number, operation: number, error: unknown): Promise<readonly Arrival[]> {
    return this.#push.refused(index, operation, error);
  }

  /** Its caller was told, or has gone: it is in no transaction that has not been sent. */
  get over(): boolean {
    if (this.requester?.gone === true) this.end(new ClientGoneError('the push'));
    return this.#over;
  }

  end(error?: unknown): void {
    if (this.#over) return;
    this.#over = true;
    clearTimeout(this.#timer);
    if (error === undefined) this.#resolve();
    else this.#reject(error);
  }
}
