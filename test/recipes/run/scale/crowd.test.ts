/**
 * A crowd asks for many occurrences at once, while replicas are killed and leases end: of each occurrence never two
 * attempts run at once, and it is done once.
 */
import { expect, test } from 'vitest';
import type { Client, LeaseHandle, Reply } from '../../../support/http/client.js';
import { passed } from '../../../support/eventually.js';
import { askInTurn, killInTurns } from '../../../support/kills.js';
import { rounds, seededRandom } from '../../../support/scene.js';
import { expireSession, spawnReplica, startReplica, type Replica } from '../../../support/start-gateway.js';
import { freshRoot } from '../../../support/start-zookeeper.js';
import { scaled } from '../../../support/timing.js';
import { call, leaseFor, show, type Started, type Told } from '../client.js';

const STARTERS = 50;
const OCCURRENCES = rounds(12);
const MAX_ATTEMPTS = 10;
const WORK_MS = 5;
/** Of the attempts: those whose lease ends, and those that are finished as failed. */
const LOST = 0.25;
const FAILED = 0.15;

interface Ledger {
  running: number;
  readonly attempts: Started[];
  done: number;
}

class Crowd {
  readonly violations: string[] = [];
  readonly ledgers = Array.from({ length: OCCURRENCES }, (): Ledger => ({ running: 0, attempts: [], done: 0 }));
  readonly #random = seededRandom('a crowd at runs');

  /** @param bystander is never killed */
  constructor(
    readonly doomed: readonly Client[],
    readonly bystander: Replica,
  ) {}

  /** Asks for each occurrence until it is done or failed. */
  async starter(at: number): Promise<void> {
    let lease = await leaseFor(this.bystander);
    for (let i = 0; i < OCCURRENCES;) {
      const occurrence = String((i + at) % OCCURRENCES);
      const reply = await this.#ask(at, 'start', lease, { occurrence, maxAttempts: MAX_ATTEMPTS, waitMs: 5_000 });
      if (reply.status !== 200) return void this.violations.push(`start: ${JSON.stringify(reply.body)}`);
      const told = reply.body as Told;
      if (!told.started && told.state !== 'running') i += 1;
      if (told.started && !(await this.#work(at, lease, occurrence, told))) lease = await leaseFor(this.bystander);
    }
    await this.bystander.endLease(lease);
  }

  /** @returns false where the lease is ended on the way */
  async #work(at: number, lease: LeaseHandle, occurrence: string, told: Started): Promise<boolean> {
    const ledger = this.ledgers[Number(occurrence)] as Ledger;
    ledger.attempts.push(told);
    ledger.running += 1;
    if (ledger.running > 1) this.violations.push(`${occurrence} runs ${ledger.running} times at once`);
    if (ledger.done > 0) this.violations.push(`${occurrence} runs after it was done`);
    await passed(WORK_MS);
    const fate = this.#random();
    ledger.running -= 1; // from here on somebody else may be started
    if (fate < LOST) {
      await expireSession(this.bystander, lease.leaseId);
      return false;
    }
    const outcome = fate < LOST + FAILED ? 'failed' : 'done';
    const { fencingToken } = told;
    const finished = await this.#ask(at, 'finish', lease, { occurrence, outcome, fencingToken });
    if (finished.status !== 200) this.violations.push(`finish of ${occurrence}: ${JSON.stringify(finished.body)}`);
    else if (outcome === 'done') ledger.done += 1;
    return true;
  }

  #ask(at: number, verb: 'start' | 'finish', lease: LeaseHandle, body: Record<string, unknown>): Promise<Reply> {
    return askInTurn([...this.doomed, this.bystander], at, (replica) => call(replica, verb, lease, body));
  }
}

test(
  'each occurrence is done once, and never runs twice at once, whoever dies (C48)',
  { timeout: scaled(180_000) },
  async () => {
    const root = freshRoot();
    await using a = await spawnReplica({ root });
    await using b = await spawnReplica({ root });
    await using bystander = await startReplica({ root });
    const crowd = new Crowd([a, b], bystander);
    const stopKilling = killInTurns([a, b]);
    try {
      await Promise.all(Array.from({ length: STARTERS }, (_, at) => crowd.starter(at)));
    } finally {
      await stopKilling();
    }
    expect(crowd.violations).toEqual([]);
    for (const [i, { attempts, done }] of crowd.ledgers.entries()) {
      expect(attempts.map(({ attempt }) => attempt)).toEqual(attempts.map((_, index) => index + 1));
      const tokens = attempts.map(({ fencingToken }) => fencingToken);
      expect(tokens).toEqual([...new Set(tokens)].sort((x, y) => x - y));
      if (attempts.length < MAX_ATTEMPTS) expect(done, `occurrence ${i}`).toBe(1);
    }
    const shown = await show(bystander);
    expect(shown.filter(({ state }) => state !== 'done' && state !== 'failed')).toEqual([]);
    const total = crowd.ledgers.reduce((sum, { attempts }) => sum + attempts.length, 0);
    console.log(`${OCCURRENCES} occurrences, ${STARTERS} starters: ${total} attempts`);
  },
);
