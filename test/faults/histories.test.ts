/**
 * Clients do whatever comes to their minds at two replicas, which are killed and started again meanwhile, or stopped
 * for a while; then the history of every object is judged (`test/histories`). `npm run torture` does the same with many
 * processes and every fault.
 *
 * `HISTORY_ROUNDS=10` does ten times as much, `HISTORY_KINDS=pool,lock` only what these do; `FAULT_SEED` repeats the
 * choices.
 */
import { env } from 'node:process';
import { test } from 'vitest';
import { Crowd } from '../histories/workloads/crowd.js';
import { SCHEDULE_SETTINGS } from '../histories/workloads/schedule.js';
import { workloads } from '../histories/workloads/index.js';
import { passed } from '../support/eventually.js';
import { spawnReplica, type ReplicaProcess } from '../support/start-gateway.js';
import { freshRoot } from '../support/start-zookeeper.js';
import { scaled } from '../support/timing.js';
import { seededRandom } from '../support/scene.js';

/** A multiple of the usual number. */
const ROUNDS = Number(env['HISTORY_ROUNDS'] ?? 1);
const KINDS = env['HISTORY_KINDS']?.split(',') ?? Object.keys(workloads);
const TROUBLE_EVERY_MS = 1_000;

interface Trouble {
  readonly what: string;
  readonly times: number;
  readonly ttlMs: number;
  /** Does it once. */
  readonly make: (victim: ReplicaProcess, random: () => number) => Promise<void>;
}

async function run({ what, times, ttlMs, make }: Trouble): Promise<void> {
  const root = freshRoot();
  await using a = await spawnReplica({ root, settings: SCHEDULE_SETTINGS });
  await using b = await spawnReplica({ root, settings: SCHEDULE_SETTINGS });
  const replicas: ReplicaProcess[] = [a, b];
  const random = seededRandom(what);
  const crowds = KINDS.map((kind) => new Crowd(workloads[kind]!, replicas, random, { ttlMs }));
  const over = new AbortController();
  const doing = Promise.all(crowds.map((crowd) => crowd.run(over.signal)));
  const troubling = (async () => {
    for (let i = 0; i < times * ROUNDS && !over.signal.aborted; i += 1) {
      await passed((0.5 + random()) * TROUBLE_EVERY_MS);
      await make(replicas[i % 2] as ReplicaProcess, random);
    }
  })();
  await Promise.race([troubling, doing]).finally(() => over.abort());
  await Promise.all([troubling, doing]);
  const complaints = (await Promise.all(crowds.map((crowd) => crowd.complaints()))).flat();
  for (const { history, workload, unknown } of crowds)
    console.log(`${workload.kind}: ${history.size} operations, ${unknown} of unknown outcome, ${what}`);
  // As the message of the error, which is all that is shown of a test that fails far away.
  if (complaints.length > 0) throw new Error(complaints.join('\n'));
}

const LIMIT = { timeout: scaled(240_000) * ROUNDS };

test('all that clients are told is right while replicas are killed', LIMIT, () =>
  run({
    what: 'replicas killed',
    times: 3,
    ttlMs: 3_000,
    make: async (victim) => {
      await victim.kill();
      await victim.restart();
    },
  }),
);

// What a stopped replica was asked it does when it goes on: its client has given it up and asked another one, and its
// lease may have ended.
test('all that clients are told is right while replicas stand still for longer than leases live', LIMIT, () =>
  run({
    what: 'replicas stopped',
    times: 6,
    ttlMs: 1_200,
    make: async (victim, random) => {
      victim.pause();
      await passed((0.5 + 2 * random()) * 1_200);
      victim.resume();
    },
  }),
);
