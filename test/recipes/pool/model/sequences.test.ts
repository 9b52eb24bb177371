/**
 * Pools with whatever callers do, in whatever order and at whichever replica, made up by chance, beside a model that
 * says what each of them must be told. Replicas are killed while they answer; the client repeats the same request at
 * the next one, and must be told what the first one would have said.
 *
 * `MODEL_RUNS`, `MODEL_SEED` and `MODEL_PATH` as in `transaction/model`.
 */
import { env } from 'node:process';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Client, LeaseHandle, Reply } from '../../../support/http/client.js';
import { MortalReplicas } from '../../../support/kills.js';
import { expireSession, spawnReplica, startReplica, type Replica } from '../../../support/start-gateway.js';
import { freshRoot } from '../../../support/start-zookeeper.js';
import { scaled } from '../../../support/timing.js';
import { call, idsOf, leaseFor, put, show, type Acquired } from '../client.js';

const RUNS = Number(env['MODEL_RUNS'] ?? 20);
const SEED = Number(env['MODEL_SEED'] ?? Math.floor(Math.random() * 2 ** 31));
const PATH = env['MODEL_PATH'] ?? '';
const CALLERS = 3;
const SIZE_MAX = 5;
/** Longer than all of it takes. */
const LONG_MS = 86_400_000;

type Action =
  | { what: 'acquire'; who: number; requestId: string; count: number; owner: string | undefined; kill: boolean }
  | { what: 'release'; who: number; requestId: string; kill: boolean }
  | { what: 'size'; of: number }
  | { what: 'die'; who: number }
  | { what: 'end'; who: number };

const who = fc.nat({ max: CALLERS - 1 });
const requestId = fc.constantFrom('r1', 'r2');
const kill = fc.integer({ min: 0, max: 15 }).map((n) => n === 0);
const acquiring = {
  what: fc.constant('acquire' as const),
  who,
  requestId,
  count: fc.integer({ min: 1, max: 2 }),
  owner: fc.constantFrom(undefined, 'x', 'y'),
  kill,
};
const actions = fc.array(
  fc.oneof(
    ...([
      { weight: 6, arbitrary: fc.record(acquiring) },
      { weight: 4, arbitrary: fc.record({ what: fc.constant('release' as const), who, requestId, kill }) },
      {
        weight: 1,
        arbitrary: fc.record({ what: fc.constant('size' as const), of: fc.integer({ min: 2, max: SIZE_MAX }) }),
      },
      { weight: 1, arbitrary: fc.record({ what: fc.constant('die' as const), who }) },
      { weight: 1, arbitrary: fc.record({ what: fc.constant('end' as const), who }) },
    ] satisfies fc.WeightedArbitrary<Action>[]),
  ),
  { minLength: 5, maxLength: 25 },
);

/** What ought to be so of a member. */
interface Expected {
  state: 'free' | 'held' | 'rests';
  /** Of the hold: the lease, and its request. */
  by: string;
  /** To whom it is remembered; empty: nobody. */
  owner: string;
}

class Scene {
  readonly #members: Expected[] = Array.from({ length: SIZE_MAX }, () => ({ state: 'free', by: '', owner: '' }));
  readonly #leases: LeaseHandle[] = [];
  #size = SIZE_MAX;
  #token = 0;
  #at = 0;

  constructor(
    /** Is never killed, and is asked for what is to be looked at. */
    readonly bystander: Replica,
    readonly replicas: MortalReplicas,
  ) {}

  async run(actions: readonly Action[]): Promise<void> {
    await put(this.bystander, { of: SIZE_MAX, quarantineMs: LONG_MS });
    for (let i = 0; i < CALLERS; i += 1) this.#leases.push(await leaseFor(this.bystander));
    for (const action of actions) {
      await this.#do(action);
      await this.#look();
    }
    await Promise.all(this.#leases.map((lease) => this.bystander.endLease(lease)));
  }

  async #do(action: Action): Promise<void> {
    if (action.what === 'size') {
      this.#size = action.of;
      return void (await put(this.bystander, { of: action.of, quarantineMs: LONG_MS }));
    }
    const lease = this.#leases[action.who] as LeaseHandle;
    if (action.what === 'acquire') return this.#acquire(lease, action);
    if (action.what === 'release') return this.#release(lease, action);
    if (action.what === 'die') await expireSession(this.bystander, lease.leaseId);
    else await this.bystander.endLease(lease);
    for (const member of this.#members.filter(({ by }) => by.startsWith(lease.leaseId)))
      this.#free(member, action.what === 'die' ? 'rests' : 'free');
    this.#leases[action.who] = await leaseFor(this.bystander);
  }

  async #acquire(lease: LeaseHandle, action: Extract<Action, { what: 'acquire' }>): Promise<void> {
    const { count, owner } = action;
    const by = `${lease.leaseId} ${action.requestId}`;
    const before = this.#idsOf((member) => member.by === by);
    const free = this.#choose(owner ?? '');
    const asked = {
      requestId: action.requestId,
      count,
      // Whoever is to be given something has time for the places that killed replicas have left.
      waitMs: free.length < count ? 0 : 30_000,
      ...(owner !== undefined && { prefer: 'same', owner }),
    };
    const { status, body } = await this.#ask(action.kill, (replica) => call(replica, 'acquire', lease, asked));
    if (before.length > 0)
      return void expect({ status, ids: idsOf(body as Acquired) }).toEqual({ status: 200, ids: before });
    if (free.length < count)
      return void expect({ status, body }).toMatchObject({ status: 409, body: { code: 'lock-held' } });
    expect({ status, body }).toMatchObject({ status: 200 });
    const chosen = free.slice(0, count);
    expect(idsOf(body as Acquired).sort()).toEqual(chosen.map(String).sort());
    const { fencingToken } = body as Acquired;
    expect(fencingToken).toBeGreaterThan(this.#token);
    this.#token = fencingToken;
    for (const i of chosen) this.#members[i] = { state: 'held', by, owner: owner ?? '' };
  }

  async #release(lease: LeaseHandle, action: Extract<Action, { what: 'release' }>): Promise<void> {
    const by = `${lease.leaseId} ${action.requestId}`;
    const { status } = await this.#ask(action.kill, (replica) =>
      call(replica, 'release', lease, { requestId: action.requestId }),
    );
    const held = this.#members.filter((member) => member.by === by);
    // Of a release whose answer was lost with its replica the next one finds nothing.
    expect(action.kill ? [204, 409] : [held.length > 0 ? 204 : 409]).toContain(status);
    for (const member of held) this.#free(member, 'free');
  }

  #free(member: Expected, state: 'free' | 'rests'): void {
    member.state = state;
    member.by = '';
  }

  /** What is free for this owner, what it is given first in front. */
  #choose(owner: string): number[] {
    const free = this.#members.flatMap(({ state }, i) => (state === 'free' && i < this.#size ? [i] : []));
    const rank = (i: number): number => {
      const known = this.#members[i]?.owner;
      if (known === '') return 1;
      return known === owner ? 0 : 2;
    };
    return free.sort((a, b) => rank(a) - rank(b) || a - b);
  }

  #idsOf(wanted: (member: Expected) => boolean): string[] {
    return this.#members.flatMap((member, i) => (wanted(member) ? [String(i)] : []));
  }

  async #look(): Promise<void> {
    const shown = await show(this.bystander);
    expect(shown.held.map(({ id }) => id).sort()).toEqual(this.#idsOf(({ state }) => state === 'held'));
    const resting = this.#idsOf(({ state }) => state === 'rests').filter((id) => Number(id) < this.#size);
    expect(shown.resting.map(({ id }) => id)).toEqual(resting);
    expect(shown).toMatchObject({ total: this.#size, free: this.#choose('').length });
  }

  #ask(kills: boolean, send: (replica: Client) => Promise<Reply>): Promise<Reply> {
    this.#at += 1;
    return this.replicas.ask(this.#at, kills, send);
  }
}

test(
  'every answer is what the model says, also while replicas are killed (C63, C64)',
  { timeout: scaled(120_000) + RUNS * 4_000 },
  async () => {
    console.log(`pools: MODEL_SEED=${SEED}`);
    const root = freshRoot();
    await using a = await spawnReplica({ root });
    await using b = await spawnReplica({ root });
    await using bystander = await startReplica({ root });
    const replicas = new MortalReplicas([a, b], bystander);
    await fc.assert(
      fc.asyncProperty(actions, async (sequence) => {
        await new Scene(bystander, replicas).run(sequence);
        expect((await bystander.call('DELETE', '/v1/pools/workers')).status).toBe(204);
      }),
      { numRuns: RUNS, seed: SEED, endOnFailure: true, ...(PATH === '' ? {} : { path: PATH }) },
    );
    await replicas.restarted();
  },
);
