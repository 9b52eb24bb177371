/**
 * Runs: of each occurrence of a job, such as the report of one night, somebody does the work once.
 *
 *   await postern.run('report').once({ occurrence: '2026-01-31' }, async ({ signal, fencingToken }) => { … });
 *
 * The starts of one client exclude each other as those of two clients do: each has a `requestId` of its own.
 */
import type { Context } from '../context.js';
import type { Schemas } from '../contract.js';
import type { CallOptions } from '../gateways/gateways.js';
import type { Lease } from '../lease/lease.js';
import { grantIn, type Place } from '../line/line.js';
import { observe, shown, type ObserveOptions } from '../state/observe.js';
import { Attempt } from './attempt.js';

/** Which occurrence is meant: by its name, or by when it is asked for. */
type Which =
  | {
      /** In the caller's words: all who mean the same one have to write it in the same way. */
      occurrence: string;
    }
  | {
      /**
       * The last one, if it is running or was first started less than so many milliseconds ago on ZooKeeper's clock;
       * otherwise a new one.
       */
      withinMs: number;
    };

export type StartOptions = Which & {
  /** How many attempts the occurrence may have; 3 unless set. It counts when it is started for the first time. */
  maxAttempts?: number;
  /**
   * How long to wait while somebody else's attempt runs, in milliseconds, to take over if it fails or is lost;
   * `Infinity` for as long as it takes. 0 unless set.
   */
  waitMs?: number;
  /** Ends the wait. */
  signal?: AbortSignal;
};

/** There is no attempt to be had: the occurrence is `done`, `failed` for good, or `running`; `by` says whose it is. */
export type Refused = Schemas['RefusedRun'];

/** What has become of `once`. */
export type Once<T> = { started: true; occurrence: string; attempt: number; result: T } | Refused;

/** As many as the gateway allows unless it is told. */
const MAX_ATTEMPTS = 3;

export class Run {
  readonly #context: Context;
  readonly #path: { name: string };

  constructor(
    context: Context,
    readonly name: string,
  ) {
    this.#context = context;
    this.#path = { name };
  }

  /**
   * Asks for the attempt at an occurrence, does the work if it is this client's, and says how it ended unless `work`
   * has said so: `done` when it has returned, `failed` with the message of what it has thrown.
   *
   * @returns with `started: true` what `work` returned; with `started: false` why somebody else has done it, or does it
   * @throws what `work` throws; `HoldLostError` if the lease ended before the attempt was finished; what `start` throws
   */
  async once<T>(options: StartOptions, work: (attempt: Attempt) => T | Promise<T>): Promise<Once<T>> {
    const attempt = await this.start(options);
    if (!attempt.started) return attempt;
    const { occurrence, attempt: number } = attempt;
    let result: T;
    try {
      result = await work(attempt);
    } catch (error) {
      // What it threw says more than a finish that did not succeed; then the attempt ends with the lease.
      if (!attempt.finished)
        await attempt.failed(error instanceof Error ? error.message : String(error)).catch(() => {});
      throw error;
    }
    if (!attempt.finished) await attempt.done();
    return { started: true, occurrence, attempt: number, result };
  }

  /**
   * Asks for the attempt at an occurrence. While somebody else's runs it waits for `waitMs`.
   *
   * @throws PosternError `conflict`, `too-many-names`; the reason of `options.signal`
   */
  start(options: StartOptions): Promise<Attempt | Refused> {
    // From one request of a wait to the next, the same occurrence is meant, however long that takes.
    const asked: Asked = {
      which: 'occurrence' in options ? { occurrence: options.occurrence } : { withinMs: options.withinMs },
      maxAttempts: options.maxAttempts ?? MAX_ATTEMPTS,
    };
    const acquire = async (place: Place, call: CallOptions): Promise<{ status: 200; body: Told } | { status: 202 }> => {
      const body = await this.#ask(asked, place, call);
      asked.which = { occurrence: body.occurrence };
      return !body.started && body.state === 'running' && place.keepPlace ? { status: 202 } : { status: 200, body };
    };
    const release = async (place: { requestId: string } | { holdId: string }, call: CallOptions): Promise<void> => {
      if ('requestId' in place) await this.#giveUp(asked, place.requestId, call);
    };
    const { waitMs, signal } = options;
    return grantIn(
      this.#context,
      { kind: 'run', name: this.name, acquire, release },
      { ...(waitMs !== undefined && { waitMs }), ...(signal && { signal }) },
      (lease: Lease, told: Told) => (told.started ? new Attempt(this.#context, lease, this.name, told) : told),
    );
  }

  /** The occurrence can be started again, also when it was done. It needs the scope `admin`. */
  async forget(occurrence: string): Promise<void> {
    const { gateways, keeper } = this.#context;
    const parts = { path: this.#path, body: { occurrence } };
    await gateways.call('POST /v1/runs/{name}/forget', parts, { signals: [keeper.closed] });
  }

  /** The occurrences that are remembered, the last one first. */
  async show(): Promise<Schemas['Run']> {
    return shown(await this.#context.gateways.call('GET /v1/runs/{name}', { path: this.#path }));
  }

  /** The occurrences now, and again whenever one of them was started, finished, lost or forgotten. */
  observe(options: ObserveOptions = {}): AsyncGenerator<Schemas['Run'], void> {
    return observe(this.#context, options, (look, call) =>
      this.#context.gateways.call('GET /v1/runs/{name}', { path: this.#path, ...look }, call),
    );
  }

  async #ask(
    { which, ...asked }: Asked,
    place: { requestId: string; waitMs: number },
    call: CallOptions,
  ): Promise<Told> {
    const { requestId, waitMs } = place;
    const body = { ...which, ...asked, requestId, waitMs };
    return (await this.#context.gateways.call('POST /v1/runs/{name}/start', { path: this.#path, body }, call)).body;
  }

  /** The attempt that a start may have got whose answer nobody waits for any more. It starts none. */
  async #giveUp(asked: Asked, requestId: string, call: CallOptions): Promise<void> {
    const { which } = asked;
    const { gateways } = this.#context;
    const { occurrences } = shown(await gateways.call('GET /v1/runs/{name}', { path: this.#path }, call));
    const running = occurrences.find(
      ({ state, occurrence }) => state === 'running' && (!('occurrence' in which) || which.occurrence === occurrence),
    );
    if (running === undefined) return;
    const { occurrence } = running;
    const told = await this.#ask({ ...asked, which: { occurrence } }, { requestId, waitMs: 0 }, call);
    if (!told.started) return; // it is not that of this start
    const { fencingToken } = told;
    const body = { occurrence, outcome: 'failed' as const, fencingToken, note: 'nobody waited for it any more' };
    await gateways.call('POST /v1/runs/{name}/finish', { path: this.#path, body }, call);
  }
}

type Told = Schemas['RunStart'];

interface Asked {
  which: { occurrence: string } | { withinMs: number };
  maxAttempts: number;
}
