/** An exclusive lock, granted in order of arrival. */
import type { Context } from './context.js';
import type { Schemas } from './contract.js';
import type { Hold } from './hold.js';
import { acquireIn, type AcquireOptions, type Line } from './line.js';
import type { Using } from './using.js';

export class Lock {
  readonly name: string;
  readonly #context: Context;
  readonly #using: Using;

  constructor(context: Context, using: Using, name: string) {
    this.#context = context;
    this.#using = using;
    this.name = name;
  }

  /**
   * Acquires it, runs `work`, and releases it. Re-entrant within `work`; see `using.ts`.
   *
   * @returns what `work` returns
   * @throws what `work` throws; `HoldLostError` if the lock was lost before `work` was done; what `acquire` throws
   */
  using<T>(options: AcquireOptions, work: (hold: Hold) => T | Promise<T>): Promise<T> {
    return this.#using.run(`lock ${this.name}`, () => this.acquire(options), work);
  }

  /**
   * Acquires it, waiting in line for `waitMs`. Never re-entrant: a second acquire waits for the first hold.
   *
   * @throws PosternError `lock-held` if it was not granted in time
   */
  acquire(options: AcquireOptions = {}): Promise<Hold> {
    return acquireIn(this.#context, this.#line(options), options);
  }

  /** Who holds it and who waits for it, now. */
  async show(): Promise<Schemas['Lock']> {
    const answer = await this.#context.gateways.call('GET /v1/locks/{name}', { path: { name: this.name } });
    if (answer.status === 304) throw new TypeError('304 without If-None-Match');
    return answer.body;
  }

  #line({ data, lockDelayMs }: AcquireOptions): Line {
    const { gateways } = this.#context;
    const path = { name: this.name };
    const more = { ...(data !== undefined && { data }), ...(lockDelayMs !== undefined && { lockDelayMs }) };
    return {
      kind: 'lock',
      name: this.name,
      acquire: (place, options) =>
        gateways.call('POST /v1/locks/{name}/acquire', { path, body: { ...place, ...more } }, options),
      release: (body, options) => gateways.call('POST /v1/locks/{name}/release', { path, body }, options),
    };
  }
}
