/** A counter: exact, however many callers add to it at once, and however often a request is repeated. */
import type { Context } from '../context.js';
import { now } from '../lease/clock.js';
import { observe, shown, type ObserveOptions } from './observe.js';

export interface CounterWaitOptions {
  atLeast?: number;
  atMost?: number;
  /** Milliseconds. */
  waitMs?: number;
  signal?: AbortSignal;
}

export class Counter {
  readonly #context: Context;
  readonly #path: { name: string };

  constructor(context: Context, name: string) {
    this.#context = context;
    this.#path = { name };
  }

  async get(): Promise<number> {
    return shown(await this.#context.gateways.call('GET /v1/counters/{name}', { path: this.#path })).value;
  }

  /** @returns its value right after this addition */
  async add(by = 1): Promise<number> {
    const parts = { path: this.#path, body: { by } };
    return (await this.#context.gateways.call('POST /v1/counters/{name}/add', parts)).body.value;
  }

  /** @throws PosternError `version-mismatch` if `expected` is given and it has another value */
  async set(value: number, { expected }: { expected?: number } = {}): Promise<void> {
    const body = { value, ...(expected !== undefined && { expected }) };
    await this.#context.gateways.call('PUT /v1/counters/{name}', { path: this.#path, body });
  }

  /**
   * Waits until its value is at least `atLeast` and at most `atMost`, for at most `waitMs` milliseconds (as long as it
   * takes unless given). With `atMost: 0` it is a latch that others count down.
   *
   * @returns whether it is
   */
  async wait({ waitMs = Infinity, signal, ...bounds }: CounterWaitOptions): Promise<boolean> {
    const { gateways, rounds, keeper } = this.#context;
    const { atLeast = -Infinity, atMost = Infinity } = bounds;
    const until = now() + waitMs;
    for (;;) {
      const round = rounds.next(until);
      const parts = { path: this.#path, query: { ...bounds, waitMs: round.waitMs } };
      try {
        const answer = await gateways.call('GET /v1/counters/{name}', parts, { signals: [signal, keeper.closed] });
        const { value } = shown(answer);
        if (value >= atLeast && value <= atMost) return true;
        if (round.last) return false;
      } catch (error) {
        if (!rounds.tooLong(error, round)) throw error;
      }
    }
  }

  /** Its value now, and again after changes. */
  async *observe(options: ObserveOptions = {}): AsyncGenerator<number, void> {
    const states = observe(this.#context, options, (look, call) =>
      this.#context.gateways.call('GET /v1/counters/{name}', { path: this.#path, ...look }, call),
    );
    for await (const { value } of states) yield value;
  }
}
