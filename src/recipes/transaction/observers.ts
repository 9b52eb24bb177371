/**
 * Watching what becomes of transactions, for long polls and event streams (`observing/observers.ts`): one watch per
 * transaction and replica, on the data of its own node. It fires once, for the decision; who joins and votes wakes
 * nobody.
 */
import type { ControlSession } from '../../zookeeper/control-session.js';
import { lookAtNode } from '../observing/looks.js';
import { Observers } from '../observing/observers.js';
import { lookAt, type TransactionLook, type TransactionRef } from './record.js';

export interface ObservedTransaction {
  etag: string;
  /** Undefined when there is none, or none any more. */
  look: TransactionLook | undefined;
}

const GONE: ObservedTransaction = { etag: '"gone"', look: undefined };

export type TransactionObservers = Observers<TransactionRef, ObservedTransaction>;

/** Of all transactions of one replica. */
export function transactionObservers(control: ControlSession): TransactionObservers {
  return new Observers(
    control,
    lookAtNode(control, (ref, { value }) => {
      if (value === undefined) return GONE;
      const look = lookAt(ref, value);
      return { etag: look.etag, look };
    }),
  );
}
