/** A message of a queue, claimed for this client until it says what has become of it. */
import { Bound, type BoundOptions } from '../lease/bound.js';
import type { Schemas } from '../contract.js';
import { PosternError, problemError } from '../errors.js';
import type { CallOptions } from '../gateways/gateways.js';

export interface NackOptions {
  /** How long it is held back, in milliseconds; it is then behind those that are there by then. */
  delayMs?: number;
  /** Kept with a dead letter. */
  reason?: string;
  /** It goes to the dead letters at once: nobody will ever be able to process it. */
  deadLetter?: boolean;
}

/** The requests about one claim, and what becomes of its place among those that its worker does at once. */
export interface JobActions {
  ack(options: CallOptions): Promise<Settled>;
  nack(how: NackOptions, options: CallOptions): Promise<Settled>;
  extend(claimMs: number, options: CallOptions): Promise<Settled>;
  /** It is out of the worker's hands. */
  left(): void;
  /** Minds work that settles the job. */
  mind(settled: Promise<void>, job: Job): void;
}

type Settled = { body: Schemas['SettledClaims'] };

/** The longest reason that a gateway keeps. */
const REASON_LENGTH_MAX = 1_024;

/** Its signal aborts when the lease ends; the message is then delivered again. `holdId` is the `claimId`. */
export class Job extends Bound {
  /** The message with its id, attributes and number of deliveries. */
  readonly message: Schemas['ClaimedMessage'];
  readonly #actions: JobActions;
  #settling = false;

  constructor(options: BoundOptions, message: Schemas['ClaimedMessage'], actions: JobActions) {
    super(options);
    this.message = message;
    this.#actions = actions;
  }

  /** As it was pushed: any JSON value; bytes if bytes were pushed. */
  get body(): unknown {
    const { body, bodyBase64 } = this.message;
    return bodyBase64 === undefined ? body : Buffer.from(bodyBase64, 'base64');
  }

  /** Whether it has been given to `ack`, `nack` or `done`. */
  get settled(): boolean {
    return this.#settling;
  }

  /**
   * The work is done: the message is gone.
   *
   * @throws PosternError `not-holder` if the claim was over, `HoldLostError` if the lease was: it is delivered again
   */
  ack(): Promise<void> {
    return this.#settle((call) => this.#actions.ack(call));
  }

  /** Gives the message back. @throws as `ack` does; it is then given back anyway */
  nack(how: NackOptions = {}): Promise<void> {
    return this.#settle(async (call) => {
      try {
        return await this.#actions.nack(how, call);
      } catch (error) {
        // Nothing was done: where there are no dead letters, for example.
        if (error instanceof PosternError && error.code === 'invalid') await this.#actions.nack({}, call);
        throw error;
      }
    });
  }

  /** Keeps a claim that was made with `claimMs` for that long from now on, in milliseconds. @throws as `ack` does */
  async extend(claimMs: number): Promise<void> {
    const { body } = await this.#actions.extend(claimMs, this.call);
    throwIfRefused(body);
  }

  /**
   * Acknowledges the message when the work succeeds, and gives it back when it fails. It only hands the work over: the
   * next round of the loop comes when there is room for another job, and failures are told to `onFailure`.
   */
  async done(work: Promise<unknown>): Promise<void> {
    const settled = work.then(
      () => this.ack(),
      async (error: unknown) => {
        const reason = error instanceof Error ? error.message : String(error);
        await this.nack({ reason: reason.slice(0, REASON_LENGTH_MAX) }).catch(() => {});
        throw error;
      },
    );
    this.#actions.mind(settled, this);
  }

  /** Repeated for as long as the lease lives: as long as that goes on, nobody else is given the message. */
  #settle(send: (options: CallOptions) => Promise<Settled>): Promise<void> {
    if (this.#settling) throw new PosternError('this job has been settled before', { code: 'settled' });
    this.#settling = true;
    const { call } = this;
    return this.end(async () => {
      try {
        this.signal.throwIfAborted();
        throwIfRefused((await send({ ...call, insists: true })).body);
      } finally {
        this.#actions.left();
      }
    });
  }
}

function throwIfRefused({ items }: Schemas['SettledClaims']): void {
  for (const item of items) if ('code' in item) throw problemError(item);
}
