/** A barrier: while it is raised, callers wait at it. It belongs to no lease. */
import { now } from '../lease/clock.js';
import type { Context } from '../context.js';
import { shown } from './observe.js';

export class Barrier {
  readonly #context: Context;
  readonly #path: { name: string };

  constructor(context: Context, name: string) {
    this.#context = context;
    this.#path = { name };
  }

  async raise(): Promise<void> {
    await this.#context.gateways.call('PUT /v1/barriers/{name}', { path: this.#path });
  }

  async lift(): Promise<void> {
    await this.#context.gateways.call('DELETE /v1/barriers/{name}', { path: this.#path });
  }

  /**
   * Waits until it is lifted, for at most `waitMs` milliseconds (as long as it takes unless given).
   *
   * @returns whether it is
   */
  async wait({ waitMs = Infinity, signal }: { waitMs?: number; signal?: AbortSignal } = {}): Promise<boolean> {
    const { gateways, rounds, keeper } = this.#context;
    const until = now() + waitMs;
    for (;;) {
      const round = rounds.next(until);
      const parts = { path: this.#path, query: { waitMs: round.waitMs } };
      try {
        const answer = await gateways.call('GET /v1/barriers/{name}', parts, { signals: [signal, keeper.closed] });
        if (!shown(answer).raised) return true;
        if (round.last) return false;
      } catch (error) {
        if (!rounds.tooLong(error, round)) throw error;
      }
    }
  }
}
