/** A group: who is there, each with a value. */
import { randomUUID } from 'node:crypto';
import type { Context } from '../context.js';
import type { Schemas } from '../contract.js';
import { giveBack } from '../lease/give-back.js';
import { Hold, type HoldOptions } from '../lease/hold.js';
import { observe, shown, type ObserveOptions } from './observe.js';

export interface JoinOptions {
  /** The name in the group; a random one unless given. It belongs to one lease at a time. */
  member?: string;
  /** Any JSON value to show with the member. */
  value?: unknown;
}

/** `holdId` is the `memberId`; to release it is to leave. */
export class Membership extends Hold {
  readonly member: string;
  readonly #join: (value: unknown) => Promise<unknown>;

  constructor(options: HoldOptions, member: string, join: (value: unknown) => Promise<unknown>) {
    super(options);
    this.member = member;
    this.#join = join;
  }

  /** Shows another value. @throws HoldLostError if it is not a member any more */
  async update(value: unknown): Promise<void> {
    this.assertHeld();
    await this.#join(value);
  }

  leave(): Promise<void> {
    return this.release();
  }
}

export class Group {
  readonly #context: Context;

  constructor(
    context: Context,
    readonly name: string,
  ) {
    this.#context = context;
  }

  /**
   * A member until it leaves or its signal aborts.
   *
   * @throws PosternError `conflict` if the name belongs to another lease, for example one of this program before it was
   *   restarted, until that has ended
   */
  async join({ member = randomUUID(), value }: JoinOptions = {}): Promise<Membership> {
    const { gateways, keeper } = this.#context;
    const path = { name: this.name, member };
    const lease = await keeper.lease();
    const join = async (shows: unknown): Promise<Schemas['JoinedGroup']> => {
      const body = shows === undefined ? {} : { value: shows };
      const call = { leaseToken: lease.token, signals: [lease.ended] };
      try {
        return (await gateways.call('PUT /v1/groups/{name}/members/{member}', { path, body }, call)).body;
      } catch (error) {
        lease.endedBy(error);
        throw error;
      }
    };
    const { memberId: holdId, fencingToken } = await join(value);
    const release = (): Promise<void> =>
      giveBack(this.#context, lease, (call) =>
        gateways.call('DELETE /v1/groups/{name}/members/{member}', { path }, call),
      );
    return new Membership({ lease, kind: 'group', name: this.name, holdId, fencingToken, release }, member, join);
  }

  /** Who is there, now. */
  async show(): Promise<Schemas['Group']> {
    return shown(await this.#context.gateways.call('GET /v1/groups/{name}', { path: { name: this.name } }));
  }

  /** Who is there now, and again after every change. */
  observe(options: ObserveOptions = {}): AsyncGenerator<Schemas['Group'], void> {
    const path = { name: this.name };
    return observe(this.#context, options, (look, call) =>
      this.#context.gateways.call('GET /v1/groups/{name}', { path, ...look }, call),
    );
  }
}
