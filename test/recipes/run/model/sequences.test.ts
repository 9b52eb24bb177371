/**
 * Runs with whatever callers do, in whatever order and at whichever replica, made up by chance, beside a model that
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
import { call, leaseFor, show } from '../client.js';

const RUNS = Number(env['MODEL_RUNS'] ?? 40);
const SEED = Number(env['MODEL_SEED'] ?? Math.floor(Math.random() * 2 ** 31));
const PATH = env['MODEL_PATH'] ?? '';
const CALLERS = 3;
/** Longer than all of it takes. */
const LONG_MS = 86_400_000;

type Action =
  | { what: 'start'; who: number; occurrence: string; within: boolean; maxAttempts: number; kill: boolean }
  | { what: 'finish'; who: number; occurrence: string; outcome: 'done' | 'failed'; kill: boolean }
  | { what: 'die'; who: number }
  | { what: 'look' };

const who = fc.nat({ max: CALLERS - 1 });
const occurrence = fc.constantFrom('o1', 'o2');
const kill = fc.integer({ min: 0, max: 15 }).map((n) => n === 0);
const actions = fc.array(
  fc.oneof(
    ...([
      {
        weight: 5,
        arbitrary: fc.record({
          what: fc.constant('start' as const),
          who,
          occurrence,
          within: fc.boolean(),
          maxAttempts: fc.integer({ min: 1, max: 4 }),
          kill,
        }),
      },
      {
        weight: 4,
        arbitrary: fc.record({
          what: fc.constant('finish' as const),
          who,
          occurrence,
          outcome: fc.constantFrom('failed' as const, 'failed' as const, 'done' as const),
          kill,
        }),
      },
      { weight: 1, arbitrary: fc.record({ what: fc.constant('die' as const), who }) },
      { weight: 1, arbitrary: fc.record({ what: fc.constant('look' as const) }) },
    ] satisfies fc.WeightedArbitrary<Action>[]),
  ),
  { minLength: 5, maxLength: 25 },
);

/** What ought to be so of one occurrence. */
interface Expected {
  attempt: number;
  maxAttempts: number;
  leaseId: string;
  outcome: 'done' | 'failed' | undefined;
  fencingToken: number;
  /** The tokens of the attempts before that were finished as failed. */
  failed: Set<number>;
}

class Scene {
  readonly #expected = new Map<string, Expected>();
  readonly #dead = new Set<string>();
  readonly #leases: LeaseHandle[] = [];
  /** The fencing token that a lease was told, by occurrence and lease. */
  readonly #told = new Map<string, number>();
  #token = 0;
  #at = 0;

  constructor(
    /** Is never killed, and is asked for what is to be looked at. */
    readonly bystander: Replica,
    readonly replicas: MortalReplicas,
  ) {}

  async run(actions: readonly Action[], prefix: string): Promise<void> {
    for (let i = 0; i < CALLERS; i += 1) this.#leases.push(await leaseFor(this.bystander));
    for (const action of actions) await this.#do(action, prefix);
    await this.#look(prefix);
    await Promise.all(this.#leases.map((lease) => this.bystander.endLease(lease)));
  }

  async #do(action: Action, prefix: string): Promise<void> {
    if (action.what === 'look') return this.#look(prefix);
    const lease = this.#leases[action.who] as LeaseHandle;
    if (action.what === 'die') {
      await expireSession(this.bystander, lease.leaseId);
      this.#dead.add(lease.leaseId);
      this.#leases[action.who] = await leaseFor(this.bystander);
      return;
    }
    const occurrence = `${prefix}${action.occurrence}`;
    if (action.what === 'start') return this.#start(lease, occurrence, action);
    return this.#finish(lease, occurrence, action);
  }

  async #start(lease: LeaseHandle, named: string, action: Extract<Action, { what: 'start' }>): Promise<void> {
    const { maxAttempts } = action;
    const meant = action.within ? this.#meantBy(lease) : undefined;
    const which = meant === undefined ? { occurrence: named } : { withinMs: LONG_MS };
    const occurrence = meant ?? named;
    const { status, body } = await this.#ask(action.kill, (replica) =>
      call(replica, 'start', lease, { ...which, maxAttempts }),
    );
    expect(status).toBe(200);
    expect(body).toMatchObject({ occurrence });
    const before = this.#expected.get(occurrence);
    const state = before === undefined ? 'open' : this.#stateOf(before);
    if (before !== undefined && state === 'running' && before.leaseId === lease.leaseId)
      return void expect(body).toMatchObject({ started: true, attempt: before.attempt });
    if (before !== undefined && state !== 'open')
      return void expect(body).toMatchObject({ started: false, state, by: { leaseId: before.leaseId } });
    const attempt = (before?.attempt ?? 0) + 1;
    expect(body).toMatchObject({ started: true, attempt, maxAttempts: before?.maxAttempts ?? maxAttempts });
    const { fencingToken } = body as { fencingToken: number };
    expect(fencingToken).toBeGreaterThan(this.#token);
    this.#token = fencingToken;
    const failed = new Set(before?.failed);
    if (before?.outcome === 'failed') failed.add(before.fencingToken);
    const { leaseId } = lease;
    this.#told.set(`${occurrence} ${leaseId}`, fencingToken);
    const expected = {
      attempt,
      maxAttempts: before?.maxAttempts ?? maxAttempts,
      leaseId,
      outcome: undefined,
      fencingToken,
      failed,
    };
    this.#expected.set(occurrence, expected);
  }

  async #finish(lease: LeaseHandle, occurrence: string, action: Extract<Action, { what: 'finish' }>): Promise<void> {
    const { outcome } = action;
    // That of an earlier attempt of this lease, if another one has the occurrence by now.
    const fencingToken = this.#told.get(`${occurrence} ${lease.leaseId}`) ?? 1;
    const { status, body } = await this.#ask(action.kill, (replica) =>
      call(replica, 'finish', lease, { occurrence, outcome, fencingToken }),
    );
    const before = this.#expected.get(occurrence);
    const isMine = before?.leaseId === lease.leaseId && before.fencingToken === fencingToken;
    const isRepeated = isMine ? before.outcome === outcome : outcome === 'failed' && before?.failed.has(fencingToken);
    if (isMine && before.outcome === undefined) before.outcome = outcome;
    else if (isRepeated !== true)
      return void expect({ status, body }).toMatchObject({ status: 409, body: { code: 'not-holder' } });
    expect(status).toBe(200);
    expect(body).toMatchObject({ attempt: before?.attempt, state: this.#stateOf(before as Expected) });
  }

  /** By a start that comes soon after all others: the attempt that it repeats, or the last occurrence. */
  #meantBy({ leaseId }: LeaseHandle): string | undefined {
    const all = [...this.#expected];
    const own = all.findLast(([, one]) => one.leaseId === leaseId && one.outcome === undefined);
    return (own ?? all.at(-1))?.[0];
  }

  async #look(prefix: string): Promise<void> {
    const shown = (await show(this.bystander)).filter((one) => one.occurrence.startsWith(prefix));
    const found = new Map(shown.map((one) => [one.occurrence, { state: one.state, attempt: one.attempt }]));
    const expected = [...this.#expected].map(
      ([occurrence, one]) => [occurrence, { state: this.#stateOf(one), attempt: one.attempt }] as const,
    );
    expect(found).toEqual(new Map(expected));
  }

  #stateOf({ outcome, leaseId, attempt, maxAttempts }: Expected): string {
    if (outcome === 'done') return 'done';
    if (outcome === undefined && !this.#dead.has(leaseId)) return 'running';
    return attempt < maxAttempts ? 'open' : 'failed';
  }

  #ask(kills: boolean, send: (replica: Client) => Promise<Reply>): Promise<Reply> {
    this.#at += 1;
    return this.replicas.ask(this.#at, kills, send);
  }
}

test(
  'every answer is what the model says, also while replicas are killed (C48)',
  { timeout: scaled(120_000) + RUNS * 2_000 },
  async () => {
    console.log(`runs: MODEL_SEED=${SEED}`);
    const root = freshRoot();
    await using a = await spawnReplica({ root });
    await using b = await spawnReplica({ root });
    await using bystander = await startReplica({ root });
    const replicas = new MortalReplicas([a, b], bystander);
    let run = 0;
    await fc.assert(
      fc.asyncProperty(actions, async (sequence) => {
        run += 1;
        await new Scene(bystander, replicas).run(sequence, `run-${run}:`);
      }),
      { numRuns: RUNS, seed: SEED, ...(PATH === '' ? {} : { path: PATH }) },
    );
    await replicas.restarted();
  },
);
