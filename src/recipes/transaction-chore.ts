/**
 * What housekeeping does about transactions:
 *
 * - those in the list of open ones: decided if they can be (all replicas that had to do with one may have died), looked after from then on if
 *   their deadline comes before the next turn; and when they are decided, whatever is left beside their record goes;
 * - the records of those that were decided long enough ago are removed, and directories that are empty then.
 *
 * Of the history only the Stats are read, and 24 times per the time that it is kept: the record's version is 1 since the decision, whose time is its mtime.
 */
import { MINUTE } from '../time.js';
import { isReason, unless } from '../zookeeper/errors.js';
import type { Coordination } from './coordination.js';
import type { Chore } from './housekeeping.js';
import type { Transactions } from './transaction.js';
import { deadlineOf, lookAt, stateOf } from './transaction-record.js';

const AT_ONCE = 64;
const REQUEST_MS = 10_000;
/** Longer than the longest time between two turns. */
const AHEAD_MS = 3 * MINUTE;
const SWEEPS_PER_HISTORY = 24;

type Stopped = () => boolean;

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

  async sweep(stopped: Stopped): Promise<void> {
    const namespaces = await this.#children(this.#context.layout.namespaces);
    for (const namespace of namespaces) await this.#sweepOpen(namespace, stopped);
    if (performance.now() < this.#historyDueAt) return;
    for (const namespace of namespaces) await this.#sweepHistory(namespace, stopped);
    this.#historyDueAt = performance.now() + this.#historyMs / SWEEPS_PER_HISTORY;
  }

  async #sweepOpen(namespace: string, stopped: Stopped): Promise<void> {
    const ids = await this.#children(this.#context.layout.openTransactions(namespace));
    await inBatches(ids, stopped, (id) => this.#lookAfter(namespace, id));
  }

  async #lookAfter(namespace: string, id: string): Promise<void> {
    const { control, zooKeeperClock } = this.#context;
    const { decisions, watch } = this.#transactions;
    const deadline = performance.now() + REQUEST_MS;
    const ref = decisions.ref(namespace, id);
    const node = await unless(control.getData(ref.path, deadline), 'NO_NODE');
    const look = node === undefined ? undefined : lookAt(ref, node);
    if (look === undefined || stateOf(look) !== 'open') await decisions.tidy(ref, deadline);
    else if (decisions.isDue(look)) await decisions.decide(ref, deadline);
    else if (deadlineOf(look) - zooKeeperClock.now() < AHEAD_MS) watch.attend(ref, deadlineOf(look));
  }

  async #sweepHistory(namespace: string, stopped: Stopped): Promise<void> {
    const directory = this.#context.layout.transactions(namespace);
    const buckets = await this.#children(directory);
    if (buckets.length === 0 || stopped()) return;
    const now = await this.#transactions.decisions.ensembleTime(namespace, performance.now() + REQUEST_MS);
    for (const bucket of buckets) {
      const ids = await this.#children(`${directory}/${bucket}`);
      let left = 0;
      await inBatches(ids, stopped, async (id) => {
        if (!(await this.#removeIfOld(namespace, id, now - this.#historyMs))) left += 1;
      });
      if (stopped()) return;
      if (left === 0) await this.#removeBucket(`${directory}/${bucket}`);
    }
  }

  /** @returns whether it is gone */
  async #removeIfOld(namespace: string, id: string, decidedBefore: number): Promise<boolean> {
    const { control } = this.#context;
    const { decisions } = this.#transactions;
    const deadline = performance.now() + REQUEST_MS;
    const ref = decisions.ref(namespace, id);
    const stat = await control.exists(ref.path, deadline);
    if (stat === undefined) return true;
    if (stat.version === 0 || stat.mtime > decidedBefore) return false;
    try {
      await control.delete(ref.path, stat.version, deadline);
      return true;
    } catch (error) {
      if (!isReason(error, 'NO_NODE', 'NOT_EMPTY', 'BAD_VERSION')) throw error;
      await decisions.tidy(ref, deadline); // the record goes with the next turn
      return false;
    }
  }

  async #removeBucket(path: string): Promise<void> {
    try {
      await this.#context.control.delete(path, undefined, performance.now() + REQUEST_MS);
    } catch (error) {
      if (!isReason(error, 'NO_NODE', 'NOT_EMPTY')) throw error; // there is a new one in it
    }
  }

  async #children(path: string): Promise<string[]> {
    return (
      (await unless(this.#context.control.getChildren(path, performance.now() + REQUEST_MS), 'NO_NODE'))?.children ?? []
    );
  }
}

async function inBatches(
  ids: readonly string[],
  stopped: Stopped,
  work: (id: string) => Promise<unknown>,
): Promise<void> {
  for (let i = 0; i < ids.length && !stopped(); i += AT_ONCE) await Promise.all(ids.slice(i, i + AT_ONCE).map(work));
}
