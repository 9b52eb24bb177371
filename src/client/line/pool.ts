/** Numbers, or members with names, of which each holder is told which ones it has, given out in order of arrival. */
import type { Context } from '../context.js';
import type { Schemas } from '../contract.js';
import { Hold, type HoldOptions } from '../lease/hold.js';
import { shown } from '../state/observe.js';
import { grantIn, holdOf, type AcquireOptions, type Line } from './line.js';

export interface AcquireMembersOptions extends Pick<AcquireOptions, 'waitMs' | 'signal'> {
  /** How many, all at once; 1 unless given. */
  count?: number;
  /** Only members that have all of them. */
  labels?: string[];
  /** `same`: what `owner` had before, as far as it is free; by default the label of the lease. */
  prefer?: 'same' | 'any';
  owner?: string;
}

/** Members that are held. */
export class HeldMembers extends Hold {
  readonly members: readonly Schemas['AcquiredMember'][];

  constructor(options: HoldOptions, members: readonly Schemas['AcquiredMember'][]) {
    super(options);
    this.members = members;
  }
}

export class Pool {
  readonly name: string;
  readonly #context: Context;

  constructor(context: Context, name: string) {
    this.#context = context;
    this.name = name;
  }

  /**
   * Acquires members, waiting in line for `waitMs`.
   *
   * @throws PosternError `lock-held` if they were not given in time, `not-found` if there is no such pool; the reason
   * of `options.signal`
   */
  acquire(options: AcquireMembersOptions = {}): Promise<HeldMembers> {
    const { gateways } = this.#context;
    const { waitMs: _wait, signal: _signal, ...wanted } = options;
    const path = { name: this.name };
    const line: Line<Schemas['AcquiredMembers']> = {
      kind: 'pool',
      name: this.name,
      acquire: (place, call) =>
        gateways.call(
          'POST /v1/pools/{name}/acquire',
          { path, body: { count: 1, prefer: 'any', ...place, ...wanted } },
          call,
        ),
      release: (body, call) => gateways.call('POST /v1/pools/{name}/release', { path, body }, call),
    };
    return grantIn(
      this.#context,
      line,
      options,
      (lease, granted) => new HeldMembers(holdOf(this.#context, line, lease, granted, options), granted.members),
    );
  }

  /** Who has which members, now. */
  async show(): Promise<Schemas['Pool']> {
    return shown(await this.#context.gateways.call('GET /v1/pools/{name}', { path: { name: this.name } }));
  }
}
