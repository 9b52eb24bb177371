/**
 * Linearizable reads: a read shows everything that was acknowledged before it was asked for, whatever server answers.
 *
 * A `sync` does not promise that. A leader that stood still, or was cut off, and has been replaced answers it at once,
 * from a state in which a lost lock is still held, until it notices that nobody follows it (up to syncLimit ticks
 * later). Nor does ZooKeeper have a read that asks a quorum. But no *transaction* is answered before a quorum has
 * accepted it, and a server answers the requests of one session in order. So a transaction that changes nothing is sent
 * first, and the reads right behind it on the same connection, in the same packet.
 *
 * One transaction is in flight at a time; everybody who asks meanwhile shares the next one. So a thousand reads at once
 * cost two, and a lone reader waits for one write instead of one `sync`.
 *
 *   ask ──none on its way──▶ transaction, reads ──both answered──▶ told
 *     └──one on its way──▶ wait for its answer, share the next ──┘
 */
import { byDeadline } from './by-deadline.js';
import { isTransient, mayBeApplied } from './errors.js';
import { retrying } from './retrying.js';

const WHAT = 'the reading';

interface Sent {
  answered: Promise<unknown>;
}

export class QuorumReads {
  readonly #transact: () => Promise<unknown>;
  /** Settles with the transaction in flight. */
  #over: Promise<void> | undefined;
  /** For callers that asked after that one was sent. */
  #next: Promise<Sent> | undefined;

  /** @param transact sends a transaction that changes nothing */
  constructor(transact: () => Promise<unknown>) {
    this.#transact = transact;
  }

  /**
   * Runs `read` behind a transaction sent after this call. It is repeated if a connection is lost, so it must be
   * repeatable.
   * @param deadline monotonic; `read` keeps to it by itself
   * @throws NoReplyError if no quorum answered in time, and what `read` throws
   */
  async read<T>(read: () => Promise<T>, deadline: number): Promise<T> {
    const once = async (): Promise<T> => {
      const { answered } = await byDeadline(this.#begin(), deadline, WHAT);
      const reading = read();
      reading.catch(() => undefined); // without a quorum behind it it is nobody's answer, nor is its refusal
      await byDeadline(answered, deadline, WHAT);
      return await reading;
    };
    return retrying(deadline, once, (error) => isTransient(error) && !mayBeApplied(error));
  }

  /**
   * Resolves when a transaction is sent, not when it is answered: whatever the caller then sends synchronously goes
   * directly behind it.
   */
  #begin(): Promise<Sent> {
    if (this.#over === undefined) return Promise.resolve(this.#send());
    return (this.#next ??= this.#over.then(() => {
      this.#next = undefined;
      return this.#send();
    }));
  }

  #send(): Sent {
    const answered = this.#transact();
    const over = answered.then(
      () => undefined,
      () => undefined,
    );
    this.#over = over;
    void over.then(() => {
      if (this.#next === undefined) this.#over = undefined;
    });
    return { answered };
  }
}
