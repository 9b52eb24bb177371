/** A barrier: while it is raised, callers wait at it. It belongs to no lease. */
import { now } from '../lease/clock.js';
import type { Context } from '../context.js';
import type { Answer } from '../contract.js';
import { shown } from './observe.js';

const SHOW = 'GET /v1/barriers/{name}';

export class Barrier {
  readonly #context: Context;
  readonly #path: { name: string };

  constructor(
    context: Context,
    readonly name: string,
  ) {
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
   * Waits until it is lifted, for at most `waitMs` milliseconds (as long as it takes unless given). That it was lifted
   * and raised again while no gateway answered shows at the end of a request, in the ETag.
   *
   * @returns whether it is, or was
   */
  async wait({ waitMs = Infinity, signal }: { waitMs?: number; signal?: AbortSignal } = {}): Promise<boolean> {
    const { gateways, rounds, keeper } = this.#context;
    const until = now() + waitMs;
    const look = (waitMs: number): Promise<Answer<typeof SHOW>> =>
      gateways.call(SHOW, { path: this.#path, query: { waitMs } }, { signals: [signal, keeper.closed] });
    const first = await look(0);
    if (!shown(first).raised) return true;
    for (;;) {
      const round = rounds.next(until);
      try {
        const answer = await look(round.waitMs);
        if (!shown(answer).raised || answer.headers['etag'] !== first.headers['etag']) return true;
        if (round.last) return false;
      } catch (error) {
        if (!rounds.tooLong(error, round)) throw error;
      }
    }
  }
}
