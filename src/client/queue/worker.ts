/** Takes jobs from a queue, or from several: as many at once as it does, and claimed under the lease of its client. */
import { randomUUID } from 'node:crypto';
import { pause } from '../lease/clock.js';
import type { Context } from '../context.js';
import type { Schemas } from '../contract.js';
import { PosternError } from '../errors.js';
import type { CallOptions } from '../gateways/gateways.js';
import { Job, type JobActions } from './job.js';
import type { Lease } from '../lease/lease.js';
import type { Round } from '../gateways/rounds.js';

export interface JobsOptions {
  /** How many jobs this worker does at once, 1 unless given. */
  concurrency?: number;
  /** The longest that one may take, in milliseconds, even while the lease lives; no longer than the lease, anyway. */
  claimMs?: number;
  /** No more jobs are taken; the loop ends. */
  signal?: AbortSignal;
  /** Told of work given to `done` that failed, and of jobs that could not be settled. */
  onFailure?: (error: unknown, job: Job) => void;
}

/** No gateway serves this program at present: before it asks again, in milliseconds. */
const AGAIN_MS = 1_000;

export class Worker {
  readonly #context: Context;
  readonly #names: readonly string[];
  readonly #options: JobsOptions;
  /** What it has claimed and not settled. */
  readonly #open = new Set<Job>();
  readonly #working = new Set<Promise<void>>();
  readonly #waiting = new Set<() => void>();

  /** @param names of the queues, those first that go before the others */
  constructor(context: Context, names: readonly string[], options: JobsOptions) {
    this.#context = context;
    this.#names = names;
    this.#options = options;
  }

  /** Jobs, as long as the loop goes on and `signal` does not abort. */
  async *jobs(): AsyncGenerator<Job, void> {
    const { signal } = this.#options;
    let claimed: Job[] = [];
    try {
      while (!signal?.aborted) {
        await this.room();
        claimed = await this.claim();
        while (claimed.length > 0 && !signal?.aborted) yield claimed.shift() as Job;
      }
    } finally {
      await Promise.all(claimed.map((job) => job.nack().catch(() => {})));
      await this.idle();
    }
  }

  /** Resolves when there is room for another job, or when no more are to be taken. */
  async room(): Promise<void> {
    const { signal } = this.#options;
    while (this.#free <= 0 && !signal?.aborted)
      await new Promise<void>((resolve) => {
        const wake = (): void => {
          signal?.removeEventListener('abort', wake);
          resolve();
        };
        this.#waiting.add(wake);
        signal?.addEventListener('abort', wake);
      });
  }

  /** Resolves when all work that settles its job itself has ended. */
  async idle(): Promise<void> {
    await Promise.all(this.#working);
  }

  /** @returns none if there are none, for as long as one request waits. @throws PosternError if that is no use */
  async claim(): Promise<Job[]> {
    const { signal } = this.#options;
    const { keeper, rounds } = this.#context;
    if (signal?.aborted) return [];
    const round = rounds.next(Infinity);
    let lease: Lease | undefined;
    try {
      lease = await keeper.lease();
      return await this.#claimUnder(lease, round);
    } catch (error) {
      if (signal?.aborted || rounds.tooLong(error, round) || lease?.endedBy(error)) return [];
      if (lease?.ended.aborted && !keeper.closed.aborted) return [];
      if (!(error instanceof PosternError && error.retryable)) throw error;
      await pause(AGAIN_MS * Math.random(), signal);
      return [];
    }
  }

  get #free(): number {
    return (this.#options.concurrency ?? 1) - this.#open.size;
  }

  async #claimUnder(lease: Lease, { waitMs }: Round): Promise<Job[]> {
    const { claimMs, signal } = this.#options;
    const body = { max: this.#free, waitMs: 0, requestId: randomUUID(), ...(claimMs !== undefined && { claimMs }) };
    try {
      return await this.#ask(lease, { ...body, waitMs }, { signals: [signal, lease.ended] });
    } catch (error) {
      const claimedNothing = error instanceof PosternError && error.outcome === 'not-applied';
      if (!claimedNothing || signal?.aborted) void this.#giveBack(lease, body);
      throw error;
    }
  }

  async #ask(lease: Lease, body: Schemas['ClaimMessagesRequest'], call: CallOptions): Promise<Job[]> {
    const options = { leaseToken: lease.token, ...call };
    const { gateways } = this.#context;
    const [name = '', ...others] = this.#names;
    if (others.length === 0) {
      const parts = { path: { name }, body };
      const answer = await gateways.call('POST /v1/queues/{name}/claim', parts, options);
      return (answer.body?.items ?? []).map((message) => this.#begin(lease, name, message));
    }
    const parts = { body: { queues: [...this.#names], ...body } };
    const answer = await gateways.call('POST /v1/queues/claim', parts, options);
    return (answer.body?.items ?? []).map((message) => this.#begin(lease, message.queue, message));
  }

  /** What a request has claimed whose answer nobody has: it would be kept for as long as the lease lives. */
  async #giveBack(lease: Lease, body: Schemas['ClaimMessagesRequest']): Promise<void> {
    // What it has claimed is answered whatever `max` is; if that is nothing, one message more is delivered in vain.
    const claimed = await this.#ask(lease, { ...body, max: 1 }, { insists: true, signals: [lease.ended] }).catch(
      () => [],
    );
    await Promise.all(claimed.map((job) => job.nack().catch(() => {})));
  }

  #begin(lease: Lease, name: string, message: Schemas['ClaimedMessage']): Job {
    const { gateways } = this.#context;
    const path = { name };
    const claimIds = [message.claimId];
    const actions: JobActions = {
      ack: (call) => gateways.call('POST /v1/queues/{name}/ack', { path, body: { claimIds } }, call),
      nack: (how, call) => gateways.call('POST /v1/queues/{name}/nack', { path, body: { claimIds, ...how } }, call),
      extend: (claimMs, call) =>
        gateways.call('POST /v1/queues/{name}/extend', { path, body: { claimIds, claimMs } }, call),
      left: () => this.#left(job),
      mind: (settled, minded) => this.#mind(settled, minded),
    };
    const job = new Job({ lease, kind: 'queue', name, holdId: message.claimId }, message, actions);
    this.#open.add(job);
    job.signal.addEventListener('abort', () => this.#left(job));
    return job;
  }

  #left(job: Job): void {
    this.#open.delete(job);
    for (const wake of this.#waiting) wake();
    this.#waiting.clear();
  }

  #mind(settled: Promise<void>, job: Job): void {
    const minded = settled
      .catch((error: unknown) => this.#options.onFailure?.(error, job))
      .finally(() => this.#working.delete(minded));
    this.#working.add(minded);
  }
}
