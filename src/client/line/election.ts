/** An election: one leader at a time, in order of preference and arrival. */
import type { Context } from '../context.js';
import type { Schemas } from '../contract.js';
import { PosternError } from '../errors.js';
import type { Revocation } from '../lease/bound.js';
import { Hold, type HoldOptions } from '../lease/hold.js';
import { acquireIn, type Line } from './line.js';
import { pause } from '../lease/clock.js';
import { observe, shown, type ObserveOptions } from '../state/observe.js';

export interface CampaignOptions {
  /** Any JSON value to show with the candidate, for example where to reach it. */
  value?: unknown;
  /** From 0, the default, to 1000: whoever of those who wait has the highest leads next. The leader stays. */
  preference?: number;
  /** How long to wait to lead, in milliseconds; `Infinity`, the default, for as long as it takes. */
  waitMs?: number;
  /** Ends the candidacy. */
  signal?: AbortSignal;
  /** As for a lock. */
  onRevoke?: (revocation: Revocation) => void;
}

/** No gateway serves this program at present: before it stands again, in milliseconds. */
const AGAIN_MS = 1_000;

/** A time of leading. `holdId` is the `candidateId`; to release it is to resign. */
export class Term extends Hold {
  readonly #context: Context;
  readonly #which: { path: { name: string }; candidateId: string };

  constructor(options: HoldOptions, context: Context) {
    super(options);
    this.#context = context;
    this.#which = { path: { name: options.name }, candidateId: options.holdId };
  }

  /** Shows another value with the leader. @throws PosternError `not-holder` if it does not lead */
  async proclaim(value: unknown): Promise<void> {
    const { path, candidateId } = this.#which;
    await this.#context.gateways.call(
      'POST /v1/elections/{name}/proclaim',
      { path, body: { value, candidateId } },
      this.call,
    );
  }

  /** Says that it has taken over. @throws PosternError `not-holder` if it does not lead */
  async acknowledge(): Promise<void> {
    const { path, candidateId } = this.#which;
    await this.#context.gateways.call(
      'POST /v1/elections/{name}/acknowledge',
      { path, body: { candidateId } },
      this.call,
    );
  }

  resign(): Promise<void> {
    return this.release();
  }
}

export class Election {
  readonly #context: Context;

  constructor(
    context: Context,
    readonly name: string,
  ) {
    this.#context = context;
  }

  /**
   * Stands, and waits until it leads.
   *
   * @throws PosternError `lock-held` if it did not lead in time; it does not stand any more then
   */
  campaign(options: CampaignOptions = {}): Promise<Term> {
    const { waitMs = Infinity, ...rest } = options;
    return acquireIn(this.#context, this.#line(options), { waitMs, ...rest }, (hold) => new Term(hold, this.#context));
  }

  /**
   * Leads, again and again: each round of the loop is a term. When the loop goes on the term is resigned if it is not
   * over, and the program stands again, behind all others with this preference or more; when the loop is left it
   * resigns.
   */
  async *terms(options: Omit<CampaignOptions, 'waitMs'> = {}): AsyncGenerator<Term, void> {
    while (!options.signal?.aborted) {
      const term = await this.#persist(options);
      if (term === undefined) return;
      try {
        yield term;
      } finally {
        await term.resign().catch(() => {});
      }
    }
  }

  /** Who leads and who stands, now. */
  async show(): Promise<Schemas['Election']> {
    return shown(await this.#context.gateways.call('GET /v1/elections/{name}', { path: { name: this.name } }));
  }

  /** The election now, and again whenever the leader, its value or its acknowledgement has changed. */
  observe(options: ObserveOptions = {}): AsyncGenerator<Schemas['Election'], void> {
    const path = { name: this.name };
    return observe(this.#context, options, (look, call) =>
      this.#context.gateways.call('GET /v1/elections/{name}', { path, ...look }, call),
    );
  }

  /** @returns undefined if the signal has aborted */
  async #persist(options: CampaignOptions): Promise<Term | undefined> {
    for (;;) {
      try {
        return await this.campaign(options);
      } catch (error) {
        if (options.signal?.aborted) return undefined;
        if (!(error instanceof PosternError && error.retryable)) throw error;
        await pause(AGAIN_MS * Math.random(), options.signal);
      }
    }
  }

  #line({ value, preference }: CampaignOptions): Line {
    const { gateways } = this.#context;
    const path = { name: this.name };
    const more = { ...(value !== undefined && { value }), ...(preference !== undefined && { preference }) };
    return {
      kind: 'election',
      name: this.name,
      acquire: async (place, call) => {
        const answer = await gateways.call(
          'POST /v1/elections/{name}/campaign',
          { path, body: { ...place, ...more } },
          call,
        );
        if (answer.status === 202) return answer;
        const { candidateId: holdId, fencingToken } = answer.body;
        return { status: 200, body: { holdId, fencingToken } };
      },
      release: (which, call) => {
        const body = 'holdId' in which ? { candidateId: which.holdId } : which;
        return gateways.call('POST /v1/elections/{name}/resign', { path, body }, call);
      },
    };
  }
}
