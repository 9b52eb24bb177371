/** A group: who is there, each with a value. */
import { randomUUID } from 'node:crypto';
import type { Context } from '../context.js';
import type { Schemas } from '../contract.js';
import { giveBack } from '../lease/give-back.js';
import { Hold, type HoldOptions } from '../lease/hold.js';
import { listen, type GroupMessage, type ListenOptions } from './messages.js';
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

  /**
   * Posts a message to all who listen; nobody has to be a member.
   *
   * @param body any JSON value of at most 4 096 bytes
   * @param options `requestId`: a repeated post with the same one adds nothing; a random one unless given, which makes
   *   repeated requests safe
   * @returns its number
   */
  async post(body: unknown, { requestId = randomUUID() }: { requestId?: string } = {}): Promise<number> {
    const parts = { path: { name: this.name }, body: { body, requestId } };
    return (await this.#context.gateways.call('POST /v1/groups/{name}/messages', parts)).body.number;
  }

  /** Where somebody begins who listens from now on: for `messages`, taken before whatever it must not miss. */
  async cursor(): Promise<number> {
    const parts = { path: { name: this.name } };
    return (await this.#context.gateways.call('GET /v1/groups/{name}/messages', parts)).body.cursor;
  }

  /** The messages behind a cursor, in their order, and those that come, until the loop over them is left. */
  messages(options: ListenOptions = {}): AsyncGenerator<GroupMessage, void> {
    return listen(this.#context, this.name, options);
  }

  /** Who is there now, and again after every change. */
  observe(options: ObserveOptions = {}): AsyncGenerator<Schemas['Group'], void> {
    const path = { name: this.name };
    return observe(this.#context, options, (look, call) =>
      this.#context.gateways.call('GET /v1/groups/{name}', { path, ...look }, call),
    );
  }
}
