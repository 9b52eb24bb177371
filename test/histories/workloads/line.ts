/**
 * Clients of whatever has a line: each has a lease that ends now and then, asks for a hold, with and without waiting,
 * asks again where it was not told, releases, and looks at who holds.
 *
 * Each hold has a `requestId` of its own, so that a request which a stopped replica answers late cannot touch a later
 * one: as a client should.
 *
 *   none ─acquire▶ asked ─granted▶ held ─release▶ leaving ─answered▶ none
 *                    │ ▲                            ▲
 *                    │ └ told nothing, or kept      │
 *                    └──────────release─────────────┘          refused, or the lease over: none
 *
 * Some of those who hold ask to have it in another way, and hold all the while.
 */
import { setTimeout as pause } from 'node:timers/promises';
import type { Reply } from '../../support/http/client.js';
import { ClientLease, unlessDone } from '../client-lease.js';
import { now } from '../history.js';
import { AFTERWARDS, holdComplaints, type LineInput, type LineOutput } from '../holds.js';
import {
  ANSWER_WITHIN_MS,
  ask,
  expected,
  SETTLE_TTL_MS,
  settleAt,
  TTL_MS,
  type Recorder,
  type Scene,
  type Workload,
} from '../workload.js';

export interface Shape {
  readonly reads?: boolean;
  readonly permits?: number;
  /** See `HoldInput`. */
  readonly downgrades?: true;
  /** What it may be made later by asking for that. */
  readonly becomes?: Shape;
  /** What it adds to the body of an acquire. */
  readonly body?: Record<string, unknown>;
}

export interface LineKind {
  readonly kind: string;
  /** `/v1/locks` */
  readonly collection: string;
  readonly limit: number;
  /** See `HoldRules`. */
  readonly leadsUntold?: boolean;
  /** Where somebody has to say first what there is: what is put. Such things have no tokens to check. */
  readonly definition?: Record<string, unknown>;
  /** See `HoldRules`. */
  readonly quarantineMs?: number;
  readonly acquire: 'acquire' | 'campaign';
  readonly release: 'release' | 'resign';
  /** In answers and in releases. */
  readonly id: 'holdId' | 'candidateId';
  /** What a client asks for next. */
  readonly shape: (random: () => number) => Shape;
  /** What excludes everybody else. */
  readonly whole: Shape;
  readonly tokens: (view: unknown) => number[];
  /** What a grant gives, of which nobody else has anything. */
  readonly members?: (answer: Record<string, unknown>) => string[];
}

type Line = Recorder<LineInput, LineOutput>;

interface Hold {
  readonly object: string;
  readonly requestId: string;
  readonly by: string;
  shape: Shape;
  state: 'asked' | 'held' | 'leaving';
  id?: string;
  token?: number;
}

const WAIT_MAX_MS = 1_500;
/** Some wait longer than most faults last. */
const LONG_WAIT_MAX_MS = 8_000;
/** An abandoned place is removed five seconds after its wait, and a lease ends two ticks late. */
const SETTLE_WAIT_MS = 20_000;
const SETTLE_MS = 60_000;
const RETRY_MS = 50;

class LineClient {
  #lease: ClientLease | undefined;
  #hold: Hold | undefined;
  #holds = 0;
  /** The last object that this client has defined. */
  #defined: string | undefined;

  constructor(
    readonly line: LineKind,
    readonly history: Line,
    readonly scene: Scene,
    readonly client: string,
  ) {}

  async act(): Promise<void> {
    const { random } = this.scene;
    if (this.#lease?.kept !== true) {
      this.#hold = undefined;
      this.#lease = await ClientLease.take(this.history, this.scene, this.client, this.scene.ttlMs ?? TTL_MS);
    }
    const lease = this.#lease;
    const choice = random();
    if (this.#hold === undefined) {
      if (choice < 0.2) return this.#show(this.scene.object());
      this.#hold = this.#next(lease);
      return this.#acquire(lease, this.#hold);
    }
    const hold = this.#hold;
    if (choice < 0.01) return lease.forsake();
    if (choice < 0.03) return lease.leave();
    if (hold.state === 'leaving') return this.#release(lease, hold);
    if (hold.state === 'asked') return choice < 0.75 ? this.#acquire(lease, hold) : this.#release(lease, hold);
    if (choice < 0.65 && hold.shape.becomes !== undefined) return this.#downgrade(lease, hold, hold.shape.becomes);
    if (choice < 0.5) return this.#release(lease, hold);
    if (choice < 0.65) return this.#acquire(lease, hold);
    return choice < 0.8 && this.line.definition === undefined ? this.#check(hold) : this.#show(hold.object);
  }

  #next({ name }: ClientLease): Hold {
    const requestId = String((this.#holds += 1));
    const shape = this.line.shape(this.scene.random);
    return { object: this.scene.object(), requestId, by: `${name}#${requestId}`, shape, state: 'asked' };
  }

  async #acquire(lease: ClientLease, hold: Hold, waitMs = this.#someWait()): Promise<void> {
    const { object, by, requestId, shape } = hold;
    const { body, becomes: _becomes, ...rest } = shape;
    if (!(await this.#define(object))) return;
    lease.useOn(object);
    const keepPlace = this.scene.random() < 0.3;
    let refused = false;
    const output = await this.history.record(object, this.client, { do: 'acquire', by, waitMs, ...rest }, async () => {
      const reply = await this.#ask('POST', hold, this.line.acquire, lease, {
        body: { ...body, requestId, waitMs, keepPlace },
        withinMs: waitMs + ANSWER_WITHIN_MS,
      });
      if (reply === undefined) return undefined;
      const answer = reply.body as Record<string, unknown>;
      if (reply.status === 202 || reply.status === 503) return { kept: true };
      if (reply.status === 409) {
        refused = answer['code'] === 'lock-held';
        return refused ? { refused: true } : undefined;
      }
      hold.id = String(answer[this.line.id]);
      const members = this.line.members?.(answer);
      return { token: answer['fencingToken'] as number, ...(members && { members }) };
    });
    if (refused) this.#hold = undefined;
    if (output !== undefined && 'token' in output) {
      hold.state = 'held';
      hold.token = output.token;
    }
  }

  /** From then on it asks for what it has become, whatever it is told; and it has no holdId until it knows that one. */
  #downgrade(lease: ClientLease, hold: Hold, shape: Shape): Promise<void> {
    hold.shape = shape;
    delete hold.id;
    return this.#acquire(lease, hold);
  }

  async #release(lease: ClientLease, hold: Hold): Promise<void> {
    const { object, by, requestId, id } = hold;
    const named = id === undefined || this.scene.random() < 0.3 ? { requestId } : { [this.line.id]: id };
    hold.state = 'leaving';
    lease.useOn(object);
    const output = await this.history.record(object, this.client, { do: 'release', by }, async () => {
      const reply = await this.#ask('POST', hold, this.line.release, lease, { body: named });
      return reply && { done: reply.status === 204 };
    });
    if (output !== undefined) this.#hold = undefined;
  }

  /** @returns whether there is something to be asked for */
  async #define(object: string): Promise<boolean> {
    const { definition: body, collection } = this.line;
    if (body === undefined || this.#defined === object) return true;
    const reply = await ask(this.scene.replica(), 'PUT', `${collection}/${object}`, { body });
    if (reply === undefined || expected(reply, [200, 201, 409, 503]).status >= 409) return false;
    this.#defined = object;
    return true;
  }

  async #show(object: string): Promise<void> {
    if (!(await this.#define(object))) return;
    await this.history.record(object, this.client, { do: 'show' }, async () => {
      const reply = await ask(this.scene.replica(), 'GET', `${this.line.collection}/${object}`);
      return reply && { tokens: this.line.tokens(expected(reply, [200]).body) };
    });
  }

  async #check({ object, token }: Hold): Promise<void> {
    if (token === undefined) return;
    await this.history.record(object, this.client, { do: 'check', token }, async () => {
      const body = { fencingToken: token };
      const reply = await ask(this.scene.replica(), 'POST', `${this.line.collection}/${object}/check`, { body });
      return reply && { done: (expected(reply, [200]).body as { current: boolean }).current };
    });
  }

  /** With everybody else gone: somebody is granted. */
  async settle(object: string): Promise<void> {
    let lease: ClientLease | undefined;
    let hold: Hold | undefined;
    for (const startedAt = now(); hold?.token === undefined && now() - startedAt < SETTLE_MS;) {
      if (lease?.kept !== true || hold === undefined) {
        lease = await ClientLease.take(this.history, this.scene, this.client, SETTLE_TTL_MS);
        hold = { object, requestId: 'last', by: `${lease.name}#last`, shape: this.line.whole, state: 'asked' };
      }
      await this.#acquire(lease, hold, SETTLE_WAIT_MS).catch(unlessDone);
      await pause(RETRY_MS);
    }
    await lease?.leave();
  }

  /**
   * @returns undefined when it is not known what came of it, or when the lease has ended and took it along; 503 when
   *   the replica ends and the place is kept
   */
  async #ask(
    method: 'POST',
    { object }: Hold,
    verb: string,
    lease: ClientLease,
    options: { body: Record<string, unknown>; withinMs?: number },
  ): Promise<Reply | undefined> {
    const path = `${this.line.collection}/${object}/${verb}`;
    const reply = await ask(this.scene.replica(), method, path, { ...options, leaseToken: lease.leaseToken });
    if (reply?.status !== 410) return reply && expected(reply, [200, 202, 204, 409, 503]);
    lease.lose();
    return undefined;
  }

  #someWait(): number {
    const { random } = this.scene;
    const choice = random();
    if (choice < 0.3) return 0;
    return Math.floor(random() * (choice < 0.9 ? WAIT_MAX_MS : LONG_WAIT_MAX_MS));
  }
}

export function lineWorkload(line: LineKind): Workload<LineInput, LineOutput> {
  return {
    kind: line.kind,
    async start(history, scene, client) {
      const one = new LineClient(line, history, scene, client);
      return () => one.act();
    },
    settle: (history, replica, object) =>
      settleAt(replica, object, (scene) => new LineClient(line, history, scene, AFTERWARDS).settle(object)),
    check: (operations, circumstances) => holdComplaints(operations, line, circumstances),
  };
}

/** Of a view that lists its holders. */
export function holderTokens(view: unknown): number[] {
  return (view as { holders: { fencingToken: number }[] }).holders.map(({ fencingToken }) => fencingToken);
}
