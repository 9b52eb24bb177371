/**
 * The hold of a writer, which may become that of a reader.
 *
 * The place of the reader stands ready, so a downgrade is one request, which finds what an earlier attempt of it did.
 * While it is not known what became of it the writer's hold counts as gone: others may be reading.
 */
import type { Context } from '../context.js';
import type { Schemas } from '../contract.js';
import { HoldLostError, PosternError } from '../errors.js';
import type { CallOptions } from '../gateways/gateways.js';
import { giveBack } from '../lease/give-back.js';
import { Hold } from '../lease/hold.js';
import type { Lease } from '../lease/lease.js';
import { holdOf, type AcquireOptions, type Line } from './line.js';

/** What a writer was granted, and how. */
export interface Written {
  readonly context: Context;
  readonly line: Line;
  readonly lease: Lease;
  readonly granted: Schemas['AcquiredLock'];
  readonly options: AcquireOptions;
  /** Acquires with the same `requestId` as a reader. */
  readonly read: (call: CallOptions) => Promise<{ status: 200; body: Schemas['AcquiredLock'] } | { status: 202 }>;
}

export class WriteHold extends Hold {
  readonly #written: Written;
  #reading: Promise<Hold> | undefined;
  /** A downgrade was asked for, and may have been done. */
  #unsure = false;

  constructor(written: Written) {
    const { context, lease, granted, options } = written;
    // By the request: whatever has become of it is given back.
    const release: Line['release'] = (_, call) => written.line.release({ requestId: granted.requestId }, call);
    super(holdOf(context, { ...written.line, release }, lease, granted, options));
    this.#written = written;
  }

  /**
   * Makes it the hold of a reader: readers in line directly behind are let in, and no writer comes in between. This
   * hold is over with the call, unless it is refused with `conflict`. If no gateway answers, call it again, or release
   * this hold: both are right whether or not it was done.
   *
   * @returns the hold to go on with, and to release: its fencing token is the same, its `holdId` is new
   * @throws PosternError `conflict` if it was not acquired with `downgradable`, or somebody asks for it;
   *   `HoldLostError` if it is not held any more
   */
  downgrade(): Promise<Hold> {
    return (this.#reading ??= this.#downgrade());
  }

  /** As of every hold; after a downgrade there is nothing to give back but the hold of the reader. */
  override release(): Promise<void> {
    const give = (): Promise<void> => {
      this.#unsure = false;
      return super.release();
    };
    return this.#reading === undefined ? give() : this.#reading.then(() => {}, give);
  }

  async #downgrade(): Promise<Hold> {
    try {
      if (!this.#unsure) this.assertHeld();
      this.signal.throwIfAborted();
      this.#unsure = true;
      return await this.turn(() => this.#read(), isRefusal);
    } catch (error) {
      this.#reading = undefined;
      if (isRefusal(error)) this.#unsure = false;
      throw error;
    }
  }

  async #read(): Promise<Hold> {
    const { context, line, lease, options, read } = this.#written;
    const answer = await read({ leaseToken: lease.token, signals: [lease.ended] }).catch((error: unknown) => {
      throw lease.endedBy(error) ? lease.ended.reason : isHeld(error) ? this.#lost() : error;
    });
    // A place is kept only where that is asked for.
    if (answer.status === 202) throw this.#lost();
    const { holdId, fencingToken } = answer.body;
    if (fencingToken === this.fencingToken) return new Hold(holdOf(context, line, lease, answer.body, options));
    // There was nothing to downgrade, so it is an acquire like any other.
    void giveBack(context, lease, (call) => line.release({ holdId }, call)).catch(() => {});
    throw this.#lost();
  }

  #lost(): HoldLostError {
    return new HoldLostError('lost', `${this.kind} "${this.name}" was gone before it was downgraded`);
  }
}

/** It is the writer's as before. */
function isRefusal(error: unknown): boolean {
  return error instanceof PosternError && error.code === 'conflict' && !error.retryable;
}

/** Somebody else has it. */
function isHeld(error: unknown): boolean {
  return error instanceof PosternError && error.code === 'lock-held';
}
