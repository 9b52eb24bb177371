/**
 * Watching what becomes of transactions, for long polls and event streams (`observers.ts`): one watch per transaction and replica, on the
 * data of its own node. It fires once, for the decision; who joins and votes wakes nobody.
 */
import type { ControlSession } from '../zookeeper/control-session.js';
import { Observers, type Look, type LookResult } from './observers.js';
import { lookAt, type TransactionLook, type TransactionRef } from './transaction-record.js';

export interface ObservedTransaction {
  etag: string;
  /** Undefined when there is none, or none any more. */
  look: TransactionLook | undefined;
}

const GONE: ObservedTransaction = { etag: '"gone"', look: undefined };

export class TransactionObservers {
  readonly #observers: Observers<TransactionRef, ObservedTransaction>;

  constructor(control: ControlSession) {
    this.#observers = new Observers(control, (_path, ref, look) => lookOnce(control, ref, look));
  }

  get size(): number {
    return this.#observers.size;
  }

  /** Calls `subscriber` with the state as soon as it is known, and with its change, until the returned function is called. */
  subscribe(ref: TransactionRef, subscriber: (state: ObservedTransaction) => void): () => void {
    return this.#observers.subscribe(ref.path, ref, subscriber);
  }

  /** Resolves with the first state that is `wanted`, or undefined at the deadline or when the signal is aborted. */
  until(
    ref: TransactionRef,
    wanted: (state: ObservedTransaction) => boolean,
    deadline: number,
    signal: AbortSignal,
  ): Promise<ObservedTransaction | undefined> {
    return this.#observers.until(ref.path, ref, wanted, deadline, signal);
  }
}

async function lookOnce(
  control: ControlSession,
  ref: TransactionRef,
  look: Look<ObservedTransaction>,
): Promise<LookResult> {
  const { value, watch } = await control.watches.getData(ref.path, look.wake, look.deadline);
  look.keep(watch);
  if (value === undefined) look.publish(GONE);
  else {
    const transaction = lookAt(ref, value);
    look.publish({ etag: transaction.etag, look: transaction });
  }
  return 'wait';
}
