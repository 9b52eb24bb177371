/**
 * Transactions with whatever participants do, in whatever order and at whichever replica, made up by chance: nobody is
 * told `committed` where another one is told `aborted`, what was told once is told for ever, and all of them are
 * decided in time.
 *
 * `MODEL_RUNS`, `MODEL_SEED` and `MODEL_PATH` as in `line/line.test.ts`.
 */
import { env } from 'node:process';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { HOUSEKEEPING_TIMING } from '../../../../src/recipes/housekeeping/housekeeping.js';
import { expireSession, spawnReplica, startPair, startReplica } from '../../../support/start-gateway.js';
import { freshRoot } from '../../../support/start-zookeeper.js';
import { scaled } from '../../../support/timing.js';
import { TransactionScene, type Action, type Site, type Step } from './scene.js';

const RUNS = Number(env['MODEL_RUNS'] ?? 120);
const SEED = Number(env['MODEL_SEED'] ?? Math.floor(Math.random() * 2 ** 31));
const PATH = env['MODEL_PATH'] ?? '';
const LANES = PATH === '' ? 6 : 1;
const WITH_KILLS = PATH === '' ? Math.ceil(RUNS / 10) : 1;
const PARTICIPANTS_MAX = 5;
const TIMEOUT = { timeout: scaled(120_000) + RUNS * 1_000 };

function scenes(replicas: number, kills: boolean): fc.Arbitrary<{ participants: number; steps: Step[] }> {
  return fc.integer({ min: 1, max: PARTICIPANTS_MAX }).chain((participants) => {
    const at = fc.nat({ max: replicas - 1 });
    const who = fc.nat({ max: participants - 1 });
    const action = fc.oneof(
      ...([
        { weight: 3, arbitrary: fc.record({ what: fc.constant('join' as const), who, at, waits: fc.constant(false) }) },
        { weight: 8, arbitrary: fc.record({ what: fc.constant('commit' as const), who, at, waits: fc.boolean() }) },
        {
          weight: 1,
          arbitrary: fc.record({ what: fc.constant('abort' as const), who, at, waits: fc.constant(false) }),
        },
        { weight: 1, arbitrary: fc.record({ what: fc.constant('die' as const), who, at }) },
        { weight: 2, arbitrary: fc.record({ what: fc.constantFrom('look' as const, 'wait' as const), who, at }) },
        ...(kills
          ? [{ weight: 2, arbitrary: fc.record({ what: fc.constant('kill' as const), at: fc.nat({ max: 1 }) }) }]
          : []),
      ] satisfies fc.WeightedArbitrary<Action>[]),
    );
    const step = fc.array(action, { minLength: 1, maxLength: 4 });
    // All vote in the end, most of the time: what is decided by the deadline alone tells little.
    const last = fc.tuple(
      fc.shuffledSubarray([...Array(participants).keys()]),
      fc.boolean(),
      fc.option(fc.record({ what: fc.constantFrom('die' as const, 'cancel' as const), who, at }), { freq: 4 }),
      at,
    );
    return fc.tuple(fc.array(step, { maxLength: kills ? 4 : 6 }), last).map(([steps, [some, all, last, place]]) => ({
      participants,
      steps: [
        ...steps,
        [
          ...(all ? [...Array(participants).keys()] : some).map((voter, i) => ({
            what: 'commit' as const,
            who: voter,
            at: (place + i) % replicas,
            waits: true,
          })),
          ...(last === null ? [] : [last]),
        ],
      ],
    }));
  });
}

async function runLane(
  site: Site,
  runs: number,
  seed: number,
  kills: boolean,
  seen: Map<string, number>,
): Promise<void> {
  await fc.assert(
    fc.asyncProperty(scenes(site.replicas.length, kills), async ({ participants, steps }) => {
      const scene = await TransactionScene.begin(site, participants);
      await scene.run(steps);
      const { state, reason } = await scene.finish();
      expect(scene.violations).toEqual([]);
      const outcome = reason ?? state;
      seen.set(outcome, (seen.get(outcome) ?? 0) + 1);
    }),
    { numRuns: runs, seed, ...(PATH === '' ? {} : { path: PATH }) },
  );
}

function report(what: string, seen: ReadonlyMap<string, number>): void {
  console.log(`${what}, MODEL_SEED=${SEED}: ${[...seen].map(([outcome, count]) => `${count} ${outcome}`).join(', ')}`);
}

test('everybody is told the same, for ever, and in time (C29)', TIMEOUT, async () => {
  await using pair = await startPair();
  const site: Site = {
    replicas: [pair.a, pair.b],
    deadlineMs: 1_200,
    crash: () => Promise.reject(new Error('these replicas are not to be killed')),
    expire: (leaseId) => expireSession(pair.a, leaseId),
  };
  const seen = new Map<string, number>();
  const runs = Math.ceil(RUNS / LANES);
  await Promise.all(Array.from({ length: LANES }, (_, i) => runLane(site, runs, SEED + i, false, seen)));
  report('transactions', seen);
  expect(seen.get('committed')).toBeGreaterThan(0);
});

test('everybody is told the same, for ever, and in time, while replicas are killed (C29)', TIMEOUT, async () => {
  const root = freshRoot();
  await using a = await spawnReplica({ root });
  await using b = await spawnReplica({ root });
  await using bystander = await startReplica({ root, housekeeping: { ...HOUSEKEEPING_TIMING, everyMs: 200 } });
  const doomed = [a, b];
  const restarting = new Map<number, Promise<void>>();
  const site: Site = {
    replicas: [a, b, bystander],
    deadlineMs: 5_000,
    async crash(at) {
      const victim = doomed[at];
      if (victim === undefined) return;
      // Several kills of one step may meet here: each is of a replica that is up.
      const killed = (restarting.get(at) ?? Promise.resolve()).then(() => victim.kill());
      restarting.set(
        at,
        killed.then(() => victim.restart()),
      );
      await killed;
    },
    expire: (leaseId) => expireSession(bystander, leaseId),
  };
  const seen = new Map<string, number>();
  await runLane(site, WITH_KILLS, SEED, true, seen);
  await Promise.all(restarting.values());
  report('transactions with kills', seen);
});
