/**
 * The place in line of one attempt (one HTTP request): its znode, and the version that this attempt wrote last.
 *
 * All writes go through the control session and are checked against that version, so they are exact whichever
 * replica does them: NO_NODE from a *write* proves that the place is gone (no server answers a write from
 * old state), BAD_VERSION that another attempt has it or that an own write whose reply was lost did happen;
 * reading the node tells which (the attempt stands in it).
 */
import type { ControlSession } from '../../zookeeper/control-session.js';
import { isReason } from '../../zookeeper/errors.js';
import type { MultiOperation, Stat } from '../../zookeeper/operations.js';
import { OwnedTransaction } from '../../zookeeper/owned-transaction.js';
import { AGAIN, persisting, retrying } from '../../zookeeper/retrying.js';
import { deleteContender } from './candidate-tail.js';
import type { Cleanup } from './cleanup.js';
import {
  decodeRecord,
  encodeRecord,
  ownHoldId,
  REVOKE_MESSAGE,
  type Contender,
  type ContenderRecord,
} from './contender.js';
import { createMark, deleteMark, deleteWithMark, hasMark } from './delay/mark.js';

/** The outcome of a write: `superseded` and `lost` leave the caller without a place. */
export type Written = 'written' | 'superseded' | 'lost';
/** The write was part of a transaction, and what had to be so with it was not. */
export type Unguarded = 'unguarded';

interface PlaceContext {
  control: ControlSession;
  cleanup: Cleanup;
}

export class Place {
  readonly path: string;
  readonly name: string;
  readonly sequence: number;
  readonly reads: boolean;
  readonly permits: number | undefined;
  readonly czxid: number;
  version: number;
  record: ContenderRecord;
  readonly #control: ControlSession;
  readonly #cleanup: Cleanup;

  constructor(
    { control, cleanup }: PlaceContext,
    directory: string,
    contender: Contender,
    stat: Stat,
    record: ContenderRecord,
  ) {
    this.#control = control;
    this.#cleanup = cleanup;
    this.path = `${directory}/${contender.name}`;
    this.name = contender.name;
    this.sequence = contender.sequence;
    this.reads = contender.reads;
    this.permits = contender.permits;
    this.czxid = stat.czxid;
    this.version = stat.version;
    this.record = record;
  }

  get holdId(): string {
    return ownHoldId(this.name, this.czxid) as string;
  }

  /**
   * Writes this attempt's state, and in the same transaction makes or removes the mark of a hold with a lock-delay.
   * @param guard must succeed in the same transaction; needed where a mark is made
   * @throws NoReplyError when it is not known by `deadline` whether that was done
   */
  async write(change: Partial<ContenderRecord>, deadline: number): Promise<Written>;
  async write(change: Partial<ContenderRecord>, deadline: number, guard: MultiOperation): Promise<Written | Unguarded>;
  async write(
    change: Partial<ContenderRecord>,
    deadline: number,
    guard?: MultiOperation,
  ): Promise<Written | Unguarded> {
    const record = { ...this.record, ...change };
    const data = encodeRecord(record);
    let markGone = false;
    return persisting('the write to the place in line', deadline, async (maybeApplied) => {
      const { version } = this;
      const transaction = new OwnedTransaction<'guard' | 'place' | 'mark'>();
      if (guard !== undefined) transaction.add('guard', guard);
      transaction.add('place', { type: 'setData', path: this.path, data, version: this.version });
      const mark = markGone ? undefined : this.#markChange(record);
      if (mark !== undefined) transaction.add('mark', mark);
      try {
        const stat = await this.#setData(data, transaction, deadline);
        if (stat.czxid !== this.czxid) return 'lost'; // the same path in a directory made anew (protocol C10)
        this.version = stat.version;
        this.record = record;
        return 'written';
      } catch (error) {
        if (!isReason(error, 'NO_NODE', 'BAD_VERSION')) throw error;
        const culprit = transaction.culpritOf(error) ?? 'place';
        if (culprit === 'mark') {
          // No directory for the mark; or somebody has removed the mark by hand, and the hold ends all the same.
          if (hasMark(record)) return 'unguarded';
          markGone = true;
          return AGAIN;
        }
        if (culprit === 'place' && isReason(error, 'NO_NODE')) return 'lost';
        // A first try whose reply was lost may have been done before the guard's condition changed.
        const found = culprit === 'place' || maybeApplied ? await this.#reread(deadline) : 'mine';
        if (found !== 'mine') return found;
        // The state alone does not tell: a place that says `granted` already may be granted (`standBack`).
        if (culprit === 'guard')
          return this.version !== version && this.record.state === record.state ? 'written' : 'unguarded';
        return this.record.state === record.state && this.record.ending === record.ending ? 'written' : AGAIN;
      }
    });
  }

  /**
   * Gives the place up, or a hold back, if this attempt still has it. When ZooKeeper cannot be asked by `deadline`, it
   * is asked later.
   * @returns `gone`: the node does not exist any more; `superseded`: another attempt has it, and it stays;
   * `pending`: it is not known, and the deletion goes on in the background
   */
  async leave(deadline: number): Promise<'gone' | 'superseded' | 'pending'> {
    try {
      const zk = this.#control.groupCommit.until(deadline);
      // May be done twice: what is gone already is gone.
      await retrying(deadline, () =>
        hasMark(this.record)
          ? deleteWithMark(zk, this, this.record.downgradable)
          : deleteContender(zk, this.path, this.version, this.record.downgradable),
      );
      return 'gone';
    } catch (error) {
      if (isReason(error, 'NO_NODE')) return 'gone';
      if (isReason(error, 'BAD_VERSION')) {
        // Another attempt has it; or a write of ours, whose reply was lost, was done after all.
        const found = await retrying(deadline, () => this.#reread(deadline)).catch(() => 'unknown' as const);
        if (found === 'mine') return this.leave(deadline);
        if (found !== 'unknown') return found === 'lost' ? 'gone' : 'superseded';
      }
      this.#cleanup.deleteLater(this.path, this.record.attempt);
      return 'pending';
    }
  }

  /**
   * Marks the place as one whose lease is about to be ended, if this attempt still has it: from here on no other
   * attempt takes it over, so the lease can be ended without harm to anybody.
   * @param waitUntil when the lease has been ended, or will not be any more: epoch ms on the ensemble's clock
   */
  async condemn(waitUntil: number, deadline: number): Promise<'condemned' | 'gone' | 'superseded' | 'pending'> {
    try {
      const written = await this.write({ state: 'waiting', waitUntil, ending: true }, deadline);
      if (written === 'written') return 'condemned';
      return written === 'lost' ? 'gone' : 'superseded';
    } catch {
      this.#cleanup.deleteLater(this.path, this.record.attempt);
      return 'pending';
    }
  }

  async #setData(data: Buffer, { operations }: OwnedTransaction<unknown>, deadline: number): Promise<Stat> {
    const zk = this.#control.groupCommit.until(deadline);
    if (operations.length === 1) return zk.set(this.path, data, this.version);
    const results = await zk.multi(operations);
    return (results[operations.findIndex(({ path }) => path === this.path)] as { stat: Stat }).stat;
  }

  /** How writing `record` changes the mark. */
  #markChange(record: ContenderRecord): MultiOperation | undefined {
    if (hasMark(record) === hasMark(this.record)) return undefined;
    return hasMark(record) ? createMark(this, record.delayMs as number) : deleteMark(this);
  }

  /**
   * Reads the node as new as any write that was refused; takes over version and record when they are this attempt's.
   */
  async #reread(deadline: number): Promise<'mine' | 'superseded' | 'lost'> {
    try {
      await this.#control.sync(this.path, deadline);
      const { data, stat } = await this.#control.getData(this.path, deadline);
      const record = decodeRecord(data);
      if (stat.czxid !== this.czxid) return 'lost';
      // A foreign client has asked for it, and nobody else has written since this attempt did
      // (`revocation/foreign.ts`).
      if (data.equals(REVOKE_MESSAGE) && stat.version === this.version + 1) {
        this.version = stat.version;
        return 'mine';
      }
      if (record?.attempt !== this.record.attempt) return 'superseded';
      this.version = stat.version;
      this.record = record;
      return 'mine';
    } catch (error) {
      if (isReason(error, 'NO_NODE')) return 'lost';
      throw error;
    }
  }
}
