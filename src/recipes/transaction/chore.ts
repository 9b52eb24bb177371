/**
 * Housekeeping of transactions:
 *
 * - those in the list of open ones: decided if they can be (all replicas that had to do with one may have died), looked
 *   after from then on if their deadline comes before the next turn; and when they are decided, whatever is left beside
 *   their record goes;
 * - the records of those that were decided long enough ago are removed, and directories that are empty then.
 *
 * Of the history only the Stats are read, and 24 times per the time that it is kept: the record's version is 1 since
 * the decision, whose time is its mtime.
 */
import { MINUTE } from '../../time.js';
import { askTime } from '../../zookeeper/ensemble-time.js';
import { isReason } from '../../zookeeper/errors.js';
import type { Coordination } from '../coordination.js';
import type { Chore } from '../housekeeping/housekeeping.js';
import type { Sweep } from '../housekeeping/sweep.js';
import { ifKnown } from '../known-record.js';
import type { Transactions } from './transaction.js';
import { deadlineOf, lookAt, stateOf, type TransactionRef } from './record.js';

/** Longer than the longest time between two turns. */
const AHEAD_MS = 3 * MINUTE;
const SWEEPS_PER_HISTORY = 24;

export class TransactionChore implements Chore {
  readonly #context: Coordination;
  readonly #transactions: Transactions;
  readonly #historyMs: number;
  #historyDueAt = 0;

  /** @param historyMs how long the record of a decided transaction is kept */
  constructor(context: Coordination, transactions: Transactions, historyMs: number) {
    this.#context = context;
    this.#transactions = transactions;
    this.#historyMs = historyMs;
  }

  async sweep(sweep: Sweep): Promise<void> {
    await sweep.eachNamespace((namespace) => this.#sweepOpen(namespace, sweep));
    if (performance.now() < this.#historyDueAt) return;
    await sweep.eachNamespace((namespace) => this.#sweepHistory(namespace, sweep));
    this.#historyDueAt = performance.now() + this.#historyMs / SWEEPS_PER_HISTORY;
  }

  async #sweepOpen(namespace: string, sweep: Sweep): Promise<void> {
    const ids = await sweep.children(this.#context.layout.openTransactions(namespace));
    await sweep.each(ids, (id) => this.#lookAfter(namespace, id, sweep.deadline()));
  }

  async #lookAfter(namespace: string, id: string, deadline: number): Promise<void> {
    const { control, zooKeeperClock } = this.#context;
    const { decisions, watch } = this.#transactions;
    const ref = decisions.ref(namespace, id);
    const node = await control.until(deadline).find(ref.path);
    const look = node === undefined ? undefined : ifKnown(() => lookAt(ref, node));
    if (node !== undefined && look === undefined) return;
    if (look === undefined || stateOf(look) !== 'open') await decisions.tidy(ref, deadline);
    else if (decisions.isDue(look)) await decisions.decide(ref, deadline);
    else if (deadlineOf(look) - zooKeeperClock.now() < AHEAD_MS) watch.attend(ref, deadlineOf(look));
  }

  async #sweepHistory(namespace: string, sweep: Sweep): Promise<void> {
    const directory = this.#context.layout.transactions(namespace);
    const buckets = await sweep.children(directory);
    if (buckets.length === 0 || sweep.stopped) return;
    const { mtime: now } = await askTime(this.#context, sweep.deadline());
    for (const bucket of buckets) {
      const ids = await sweep.children(`${directory}/${bucket}`);
      let left = 0;
      await sweep.each(ids, async (id) => {
        const ref = this.#transactions.decisions.ref(namespace, id);
        if (!(await this.#removeIfOld(ref, now - this.#historyMs, sweep.deadline()))) left += 1;
      });
      if (sweep.stopped) return;
      if (left === 0) await this.#removeBucket(`${directory}/${bucket}`, sweep.deadline());
    }
  }

  /** @returns whether it is gone */
  async #removeIfOld(ref: TransactionRef, decidedBefore: number, deadline: number): Promise<boolean> {
    const zk = this.#context.control.until(deadline);
    const stat = await zk.exists(ref.path);
    if (stat === undefined) return true;
    if (stat.version === 0 || stat.mtime > decidedBefore) return false;
    try {
      await zk.remove(ref.path, stat.version);
      return true;
    } catch (error) {
      if (!isReason(error, 'NO_NODE', 'NOT_EMPTY', 'BAD_VERSION')) throw error;
      await this.#transactions.decisions.tidy(ref, deadline); // the record goes with the next turn
      return false;
    }
  }

  async #removeBucket(path: string, deadline: number): Promise<void> {
    try {
      await this.#context.control.until(deadline).remove(path);
    } catch (error) {
      if (!isReason(error, 'NO_NODE', 'NOT_EMPTY')) throw error; // there is a new one in it
    }
  }
}
