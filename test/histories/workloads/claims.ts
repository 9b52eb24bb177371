/**
 * Clients push messages and claim them, with leases that end now and then; acknowledge what they claimed, give it back,
 * or die with it. In the end everything that is left is claimed and acknowledged.
 */
import { setTimeout as pause } from 'node:timers/promises';
import type { Reply } from '../../support/http/client.js';
import { ClientLease, unlessDone } from '../client-lease.js';
import { peek } from '../peek.js';
import {
  claimComplaints,
  groupOf,
  type Claimed,
  type ClaimInput,
  type ClaimOutput,
  type ShownMessage,
} from '../queue/claims.js';
import { NotApplied, now } from '../history.js';
import { AFTERWARDS } from '../holds.js';
import {
  ANSWER_WITHIN_MS,
  ask,
  expected,
  settleAt,
  TTL_MS,
  type Recorder,
  type Scene,
  type Workload,
} from '../workload.js';

const PUSH_MAX = 3;
const CLAIM_MAX = 3;
const KEPT_MAX = 4;
const WAIT_MAX_MS = 500;
const TRIES = 4;
const RETRY_MS = 50;
/** As long as leases take to end, and then some. */
const SETTLE_MS = 60_000;
/** So long even a busy machine finds something, if there is something. */
const SETTLE_WAIT_MS = 5_000;

interface Kept extends Claimed {
  readonly object: string;
}

export interface WorkRules {
  /** Of a grouped queue: each message belongs to one of them, and its id says to which. */
  readonly groups?: readonly string[];
  /** After which messages expire; clients look at them too. */
  readonly expiresInMs?: (random: () => number) => number;
}

/** One client. */
export class Worker {
  #lease: ClientLease | undefined;
  #kept: Kept[] = [];
  #pushes = 0;
  #turns = 0;
  readonly #configured = new Set<string>();

  constructor(
    readonly history: Recorder<ClaimInput, ClaimOutput>,
    readonly scene: Scene,
    readonly client: string,
    readonly rules: WorkRules = {},
  ) {}

  async act(): Promise<void> {
    const { random } = this.scene;
    const lease = await this.#alive();
    const choice = random();
    const [kept] = this.#kept;
    if (choice < 0.01) return lease.forsake();
    if (choice < 0.02) return lease.leave();
    if (kept !== undefined && (choice < 0.5 || this.#kept.length >= KEPT_MAX)) return this.#settle(lease, kept, 'ack');
    if (kept !== undefined && choice < 0.6) return this.#settle(lease, kept, 'nack');
    if (choice < 0.75) return this.#push(this.scene.object());
    const object = this.scene.object();
    if (choice < 0.9 || this.rules.expiresInMs === undefined) return this.#claim(lease, object);
    await this.#peek(object);
  }

  /** With everybody else gone: nothing stays behind. @throws NotApplied when it cannot be done in time */
  async empty(object: string): Promise<void> {
    for (const startedAt = now(); now() - startedAt < SETTLE_MS;) {
      if (await this.#isEmpty(object)) {
        await this.#lease?.leave().catch(unlessDone);
        return;
      }
      const lease = await this.#alive();
      await this.#claim(lease, object, SETTLE_WAIT_MS).catch(unlessDone);
      while (lease.kept && this.#kept[0] !== undefined)
        await this.#settle(lease, this.#kept[0], 'ack').catch(unlessDone);
    }
    throw new NotApplied();
  }

  /** What has expired is not left: it is removed by and by. */
  async #isEmpty(object: string): Promise<boolean> {
    if (this.rules.expiresInMs !== undefined) {
      const left = await this.#peek(object).catch(unlessDone);
      return left?.every(({ state }) => state === 'expired') ?? false;
    }
    const view = await ask(this.scene.replica(), 'GET', `/v1/queues/${object}`).catch(unlessDone);
    return view?.status === 404 || (view?.status === 200 && (view.body as { depth: number }).depth === 0);
  }

  async #peek(object: string): Promise<readonly ShownMessage[] | undefined> {
    const output = await this.history.record(object, this.client, { do: 'peek' }, async () => {
      const shown = await peek(this.scene.replica(), object);
      return shown && { shown: shown.map(({ body, state }) => ({ id: String(body), state })) };
    });
    return output !== undefined && 'shown' in output ? output.shown : undefined;
  }

  async #alive(): Promise<ClientLease> {
    if (this.#lease?.kept === true) return this.#lease;
    this.#kept = [];
    const { ttlMs = TTL_MS } = this.scene;
    return (this.#lease = await ClientLease.take(this.history, this.scene, this.client, ttlMs));
  }

  async #push(object: string): Promise<void> {
    const count = 1 + Math.floor(this.scene.random() * PUSH_MAX);
    const ids = Array.from(
      { length: count },
      () => `${this.#someGroup()}${this.client}-${process.pid}-${(this.#pushes += 1)}`,
    );
    await this.#configure(object);
    const expiresInMs = this.rules.expiresInMs?.(this.scene.random);
    const lasting = expiresInMs !== undefined && { expiresInMs };
    await this.history.record(object, this.client, { do: 'push', ids, ...lasting }, async () => {
      const messages = ids.map((id) => ({ body: id, messageId: id.replaceAll('/', '~'), ...lasting }));
      const isGrouped = this.rules.groups !== undefined;
      const body = { messages: messages.map((one) => (isGrouped ? { ...one, group: groupOf(one.body) } : one)) };
      const reply = await this.#persist('POST', object, 'messages', { body });
      return reply && expected(reply, [201]) && { pushed: true };
    });
  }

  async #claim(lease: ClientLease, object: string, waitMs = this.#someWait()): Promise<void> {
    const body = {
      max: 1 + Math.floor(this.scene.random() * CLAIM_MAX),
      waitMs,
      requestId: `turn-${(this.#turns += 1)}`,
    };
    lease.useOn(object);
    const output = await this.history.record(object, this.client, { do: 'claim', lease: lease.name }, async () => {
      const { leaseToken } = lease;
      const reply = await this.#persist('POST', object, 'claim', {
        body,
        leaseToken,
        withinMs: waitMs + ANSWER_WITHIN_MS,
      });
      if (reply?.status === 410) lease.lose();
      if (reply === undefined || reply.status === 410) return undefined;
      if (expected(reply, [200, 204]).status === 204) return { items: [] };
      const { items } = reply.body as { items: { body: string; claimId: string; deliveries: number }[] };
      return { items: items.map(({ body: id, claimId, deliveries }) => ({ id, claimId, deliveries })) };
    });
    // What it may have claimed is nobody's as long as this lease lives.
    if (output === undefined) lease.forsake();
    else if ('items' in output) this.#kept.push(...output.items.map((item) => ({ ...item, object })));
  }

  async #settle(lease: ClientLease, kept: Kept, verb: 'ack' | 'nack'): Promise<void> {
    const { object, id, claimId } = kept;
    const input = { do: verb, lease: lease.name, id, claimId } as const;
    lease.useOn(object);
    const output = await this.history.record(object, this.client, input, async () => {
      const body = { claimIds: [claimId] };
      const reply = await this.#persist('POST', object, verb, { body, leaseToken: lease.leaseToken });
      if (reply?.status === 410) lease.lose();
      if (reply === undefined || reply.status === 410) return undefined;
      const [item] = (expected(reply, [200]).body as { items: { status: number; gone?: boolean }[] }).items;
      if (item?.status === 409) return { result: 'lost' };
      if (item?.status !== 200) throw new NotApplied();
      return { result: item.gone === true ? 'again' : 'done' };
    });
    if (output !== undefined) this.#kept = this.#kept.filter((one) => one !== kept);
  }

  /** @throws NotApplied when nobody knows whether the queue has groups */
  async #configure(object: string): Promise<void> {
    if (this.rules.groups === undefined || this.#configured.has(object)) return;
    const reply = await ask(this.scene.replica(), 'PUT', `/v1/queues/${object}`, { body: { order: 'grouped' } });
    if (reply === undefined) throw new NotApplied();
    expected(reply, [200, 201]);
    this.#configured.add(object);
  }

  #someGroup(): string {
    const { groups = [] } = this.rules;
    const group = groups[Math.floor(this.scene.random() * groups.length)];
    return group === undefined ? '' : `${group}:`;
  }

  #someWait(): number {
    return this.scene.random() < 0.3 ? 0 : Math.floor(this.scene.random() * WAIT_MAX_MS);
  }

  /** The same request again where nobody knows what came of it. @throws NotApplied when it was not done at any time */
  async #persist(
    method: 'POST',
    object: string,
    verb: string,
    options: { body: unknown; leaseToken?: string; withinMs?: number },
  ): Promise<Reply | undefined> {
    let unknown = false;
    for (let tries = 0; tries < TRIES; tries += 1) {
      if (tries > 0) await pause(RETRY_MS);
      const path = `/v1/queues/${object}/${verb}`;
      try {
        const reply = await ask(this.scene.replica(), method, path, options);
        if (reply !== undefined) return reply;
        unknown = true;
      } catch (error) {
        unlessDone(error);
      }
    }
    if (unknown) return undefined;
    throw new NotApplied();
  }
}

export const claims: Workload<ClaimInput, ClaimOutput> = {
  kind: 'claims',

  async start(history, scene, client) {
    const worker = new Worker(history, scene, client);
    return () => worker.act();
  },

  settle: (history, replica, object) =>
    settleAt(replica, object, (scene) => new Worker(history, scene, AFTERWARDS).empty(object), Math.random),

  check: claimComplaints,
};
