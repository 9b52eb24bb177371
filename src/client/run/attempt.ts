/**
 * An attempt at one occurrence of a run. It is this client's until it says how it ended, or the lease ends: then the
 * signal aborts before anybody else is started.
 */
import type { Context } from '../context.js';
import type { Schemas } from '../contract.js';
import { PosternError } from '../errors.js';
import type { CallOptions } from '../gateways/gateways.js';
import { Bound } from '../lease/bound.js';
import type { Lease } from '../lease/lease.js';

/** A lease that has ended finishes nothing; but what it finished before may be asked, in milliseconds. */
const AFTERWARDS_MS = 500;
/** The longest note that a gateway keeps. */
const NOTE_LENGTH_MAX = 200;

export type FinishedOccurrence = Schemas['Occurrence'];

export class Attempt extends Bound {
  readonly started = true;
  readonly occurrence: string;
  /** Its number, from 1. */
  readonly attempt: number;
  readonly maxAttempts: number;
  /** Higher than those of all earlier attempts under this name. */
  readonly fencingToken: number;
  readonly #context: Context;
  readonly #lease: Lease;
  #finishing = false;

  constructor(context: Context, lease: Lease, name: string, started: Schemas['StartedRun']) {
    super({ lease, kind: 'run', name, holdId: String(started.fencingToken) });
    this.#context = context;
    this.#lease = lease;
    this.occurrence = started.occurrence;
    this.attempt = started.attempt;
    this.maxAttempts = started.maxAttempts;
    this.fencingToken = started.fencingToken;
  }

  /** Whether it has been given to `done` or `failed`. */
  get finished(): boolean {
    return this.#finishing;
  }

  /**
   * The occurrence is done: nobody is started for it again.
   *
   * @param note for humans; what is longer than 200 characters is cut
   * @throws HoldLostError if the lease ended before that was recorded: the next who asks gets the next attempt, if
   *   there may be one more
   * @throws PosternError `not-holder` if somebody else has the occurrence, `settled` the second time
   */
  done(note?: string): Promise<FinishedOccurrence> {
    return this.#finish('done', note);
  }

  /** It has failed: the next who asks gets the next attempt, if there may be one more. @throws as `done` does */
  failed(note?: string): Promise<FinishedOccurrence> {
    return this.#finish('failed', note);
  }

  /** Repeated for as long as the lease lives: as long as that goes on, nobody else is started. */
  #finish(outcome: 'done' | 'failed', note: string | undefined): Promise<FinishedOccurrence> {
    if (this.#finishing) throw new PosternError('this attempt has been finished before', { code: 'settled' });
    this.#finishing = true;
    const { occurrence, fencingToken, call } = this;
    const parts = {
      path: { name: this.name },
      body: { occurrence, outcome, fencingToken, ...(note !== undefined && { note: note.slice(0, NOTE_LENGTH_MAX) }) },
    };
    const send = async (options: CallOptions): Promise<FinishedOccurrence> =>
      (await this.#context.gateways.call('POST /v1/runs/{name}/finish', parts, options)).body;
    return this.end(async () => {
      this.signal.throwIfAborted();
      try {
        return await send({ ...call, insists: true });
      } catch (error) {
        const { ended, token: leaseToken } = this.#lease;
        if (!this.#lease.endedBy(error) && !ended.aborted) throw error;
        // It may have been done while the lease lived, without an answer that came through.
        const asking = { leaseToken, patienceMs: AFTERWARDS_MS, signals: [this.#context.keeper.closed] };
        return await send(asking).catch(() => {
          throw ended.reason;
        });
      }
    });
  }
}
