/** A double barrier: a fixed number of members begin together and end together. */
import type { Context } from '../context.js';
import { Hold } from '../lease/hold.js';
import { acquireIn, type Line } from './line.js';

export interface EnterOptions {
  /** How many members a round has; all of them say the same. */
  size: number;
  /** How long to wait until all are in, in milliseconds; `Infinity`, the default, for as long as it takes. */
  waitMs?: number;
  signal?: AbortSignal;
}

export class DoubleBarrier {
  readonly #context: Context;

  constructor(
    context: Context,
    readonly name: string,
  ) {
    this.#context = context;
  }

  /**
   * Enters, and waits until all members of the round are in. The hold that it returns is the membership: releasing it
   * leaves the round, and resolves when all members are out.
   *
   * @throws PosternError `timeout` if they were not in in time; this member has left then
   */
  enter({ size, waitMs = Infinity, ...rest }: EnterOptions): Promise<Hold> {
    return acquireIn(this.#context, this.#line(size), { waitMs, ...rest }, (hold) => new Hold(hold));
  }

  #line(size: number): Line {
    const { gateways, rounds } = this.#context;
    const path = { name: this.name };
    let member: string | undefined;
    return {
      kind: 'double-barrier',
      name: this.name,
      acquire: async ({ requestId, waitMs }, call) => {
        const body = { size, requestId, waitMs };
        const answer = await gateways.call('POST /v1/double-barriers/{name}/enter', { path, body }, call);
        if (answer.status === 202) return answer;
        const { memberId: holdId, fencingToken } = answer.body;
        member = answer.body.member;
        return { status: 200, body: { holdId, fencingToken } };
      },
      release: async (which, call) => {
        const waits = member !== undefined;
        for (;;) {
          const { waitMs } = waits ? rounds.next(Infinity) : { waitMs: 0 };
          const body = { ...('requestId' in which ? which : {}), ...(member !== undefined && { member }), waitMs };
          const { status } = await gateways.call('POST /v1/double-barriers/{name}/leave', { path, body }, call);
          if (status === 200 || !waits) return;
        }
      },
    };
  }
}
