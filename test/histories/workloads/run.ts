/**
 * Clients start occurrences of runs, with and without waiting, as whoever comes first; ask again where they were not
 * told, finish what they have as done or failed, and look how all occurrences are. Their leases end now and then. The
 * occurrences follow each other, as those of a schedule do.
 *
 * Each start has a `requestId` of its own, as a client should.
 *
 *   none ─start▶ asked ─started▶ has it ─finish▶ finishing ─answered▶ none
 *                  │ ▲                             │ ▲
 *       refused: none└ told nothing                 └ told nothing            the lease over: none
 */
import { setTimeout as pause } from 'node:timers/promises';
import type { Reply } from '../../support/http/client.js';
import { ClientLease, unlessDone } from '../client-lease.js';
import { now } from '../history.js';
import { AFTERWARDS } from '../holds.js';
import { runComplaints, type RunsInput, type RunsOutput } from '../runs.js';
import type { RunOutcome, RunState } from '../runs-model.js';
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

const MAX_ATTEMPTS = 4;
/** All clients agree on the occurrence, as they have one clock. */
const DUE_EVERY_MS = 2_000;
const WAIT_MAX_MS = 1_500;
const SETTLE_MS = 60_000;
const RETRY_MS = 50;

interface Attempt {
  readonly object: string;
  readonly occurrence: string;
  readonly requestId: string;
  readonly by: string;
  token?: number;
  outcome?: RunOutcome;
}

class Runner {
  #lease: ClientLease | undefined;
  #attempt: Attempt | undefined;
  #starts = 0;

  constructor(
    readonly history: Recorder<RunsInput, RunsOutput>,
    readonly scene: Scene,
    readonly client: string,
  ) {}

  async act(): Promise<void> {
    const { random } = this.scene;
    if (this.#lease?.kept !== true) {
      this.#attempt = undefined;
      this.#lease = await ClientLease.take(this.history, this.scene, this.client, this.scene.ttlMs ?? TTL_MS);
    }
    const lease = this.#lease;
    const choice = random();
    const attempt = this.#attempt;
    if (attempt === undefined) {
      if (choice < 0.2) return this.#look(this.scene.object());
      return this.#start(lease, (this.#attempt = this.#next(lease)));
    }
    if (choice < 0.02) return lease.forsake();
    if (choice < 0.06) return lease.leave();
    if (attempt.outcome !== undefined) return this.#finish(lease, attempt, attempt.outcome);
    if (attempt.token === undefined) {
      // What it may have got it has until its lease ends.
      if (choice > 0.9) this.#attempt = undefined;
      return this.#start(lease, attempt);
    }
    if (choice < 0.5) return this.#finish(lease, attempt, random() < 0.35 ? 'done' : 'failed');
    return choice < 0.7 ? this.#start(lease, attempt) : this.#look(attempt.object);
  }

  /** With everybody else gone: one occurrence is started, and done. */
  async settle(object: string): Promise<void> {
    for (const startedAt = now(); now() - startedAt < SETTLE_MS;) {
      if (this.#lease?.kept !== true) {
        this.#lease = await ClientLease.take(this.history, this.scene, this.client, SETTLE_TTL_MS);
        this.#attempt = { ...this.#next(this.#lease), object, occurrence: `last-${(this.#starts += 1)}` };
      }
      const attempt = this.#attempt as Attempt;
      if (attempt.token === undefined) await this.#start(this.#lease, attempt, 0).catch(unlessDone);
      else await this.#finish(this.#lease, attempt, 'done').catch(unlessDone);
      if (this.#attempt === undefined) break;
      await pause(RETRY_MS);
    }
    await this.#look(object).catch(unlessDone);
    await this.#lease?.leave();
  }

  #next({ name }: ClientLease): Attempt {
    const requestId = String((this.#starts += 1));
    const occurrence = `o${Math.floor(now() / DUE_EVERY_MS)}`;
    return { object: this.scene.object(), occurrence, requestId, by: `${name}#${requestId}` };
  }

  async #start(lease: ClientLease, attempt: Attempt, waitMs = this.#someWait()): Promise<void> {
    const { object, occurrence, requestId, by } = attempt;
    lease.useOn(object);
    const output = await this.history.record(object, this.client, { do: 'start', by, occurrence }, async () => {
      const body = { occurrence, maxAttempts: MAX_ATTEMPTS, requestId, waitMs };
      const reply = await this.#ask(lease, object, 'start', body, waitMs + ANSWER_WITHIN_MS);
      if (reply === undefined) return undefined;
      const told = expected(reply, [200]).body as Told;
      const { attempt: number } = told;
      return told.started
        ? { started: true, attempt: number, token: told.fencingToken }
        : { started: false, attempt: number, state: told.state };
    });
    if (output === undefined || !('started' in output)) return;
    if (output.started) attempt.token = output.token;
    else if (this.#attempt === attempt) this.#attempt = undefined;
  }

  async #finish(lease: ClientLease, attempt: Attempt, outcome: RunOutcome): Promise<void> {
    const { object, occurrence, by, token } = attempt;
    if (token === undefined) return;
    attempt.outcome = outcome;
    lease.useOn(object);
    const input = { do: 'finish', by, occurrence, token, outcome } as const;
    const output = await this.history.record(object, this.client, input, async () => {
      const reply = await this.#ask(lease, object, 'finish', { occurrence, outcome, fencingToken: token });
      if (reply === undefined) return undefined;
      if (expected(reply, [200, 409]).status === 409)
        return { refused: true, detail: (reply.body as { detail: string }).detail };
      const { state, attempt: number } = reply.body as { state: RunState; attempt: number };
      return { state, attempt: number };
    });
    if (output !== undefined && this.#attempt === attempt) this.#attempt = undefined;
  }

  async #look(object: string): Promise<void> {
    await this.history.record(object, this.client, { do: 'look' }, async () => {
      const reply = await ask(this.scene.replica(), 'GET', `/v1/runs/${object}`);
      if (reply === undefined) return undefined;
      const { occurrences } = expected(reply, [200]).body as { occurrences: Shown[] };
      return { occurrences: occurrences.map(shown) };
    });
  }

  /** @returns undefined when it is not known what came of it, or when the lease has ended and took it along */
  async #ask(
    lease: ClientLease,
    object: string,
    verb: 'start' | 'finish',
    body: Record<string, unknown>,
    withinMs = ANSWER_WITHIN_MS,
  ): Promise<Reply | undefined> {
    const { leaseToken } = lease;
    const reply = await ask(this.scene.replica(), 'POST', `/v1/runs/${object}/${verb}`, { body, leaseToken, withinMs });
    if (reply?.status !== 410) return reply;
    lease.lose();
    return undefined;
  }

  #someWait(): number {
    const { random } = this.scene;
    return random() < 0.5 ? 0 : Math.floor(random() * WAIT_MAX_MS);
  }
}

type Told =
  { started: true; attempt: number; fencingToken: number } | { started: false; attempt: number; state: RunState };

function shown({
  occurrence,
  state,
  attempt,
  fencingToken: token,
}: Shown): Omit<Shown, 'fencingToken'> & { token: number } {
  return { occurrence, state, attempt, token };
}

interface Shown {
  occurrence: string;
  state: RunState;
  attempt: number;
  fencingToken: number;
}

export const run: Workload<RunsInput, RunsOutput> = {
  kind: 'run',

  async start(history, scene, client) {
    const runner = new Runner(history, scene, client);
    return () => runner.act();
  },

  settle: (history, replica, object) =>
    settleAt(replica, object, (scene) => new Runner(history, scene, AFTERWARDS).settle(object)),

  check: (operations, circumstances) => runComplaints(operations, MAX_ATTEMPTS, circumstances),
};
