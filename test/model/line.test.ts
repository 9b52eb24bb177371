/**
 * Sequences of whatever clients can do, made up by chance, against a model of the line that has none of the difficulties: two
 * replicas, real HTTP, a real ZooKeeper.
 *
 * `MODEL_RUNS` is the number of sequences for each kind; a few more have replicas among them that are killed, which takes a second each
 * time. A failure prints seed, path, replayPath and the shortest sequence that still fails; `MODEL_SEED`, `MODEL_PATH` and `MODEL_REPLAY`
 * repeat it, with `-t` for the test that failed.
 */
import { env } from 'node:process';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { expireSession, spawnReplica, startPair, startReplica } from '../support/start-gateway.js';
import { freshRoot } from '../support/start-zookeeper.js';
import { scaled } from '../support/timing.js';
import { lineCommands } from './line-commands.js';
import { LineScene, type Kind, type Site } from './line-scene.js';

const RUNS = numberFrom('MODEL_RUNS', 500);
const SEED = numberFrom('MODEL_SEED', Math.floor(Math.random() * 2 ** 31));
const PATH = env['MODEL_PATH'] ?? '';
/** Sequences that run at the same time, each with a name of its own. */
const LANES = PATH === '' ? 6 : 1;
const WITH_CRASHES = PATH === '' ? Math.ceil(RUNS / 50) : 1;
const TIMEOUT = { timeout: scaled(120_000) + RUNS * 1_000 };

let names = 0;

/** @returns how many commands were run */
async function runLane(site: Site, kind: Kind, runs: number, seed: number, crashes: boolean): Promise<number> {
  let scene: LineScene | undefined;
  const current = (): LineScene => scene as LineScene;
  let commands = 0;
  await fc.assert(
    fc.asyncProperty(lineCommands(kind, current, { crashes, replayPath: env['MODEL_REPLAY'] }), async (sequence) => {
      const begun = await LineScene.begin(site, kind, `line-${(names += 1)}`);
      scene = begun;
      try {
        await fc.asyncModelRun(() => ({ model: begun.model, real: begun }), sequence);
        await begun.finish();
        commands += begun.commands;
      } catch (error) {
        await begun.abandon();
        throw error;
      }
    }),
    { numRuns: runs, seed, ...(PATH === '' ? {} : { path: PATH }) },
  );
  return commands;
}

for (const kind of ['locks', 'rwlocks'] as const) {
  describe(`the line of ${kind}`, () => {
    beforeAll(() => console.log(`${kind}: MODEL_SEED=${SEED}`));
    const done: string[] = [];
    afterAll(() => console.log(done.join('\n')));

    test('does what the model does, whatever clients do at whichever replica', TIMEOUT, async () => {
      await using pair = await startPair();
      const site: Site = {
        replicas: [pair.a, pair.b],
        expire: (leaseId) => expireSession(pair.a, leaseId),
        crash: () => Promise.reject(new Error('these replicas are not to be killed')),
      };
      const startedAt = performance.now();
      const lanes = Array.from({ length: LANES }, (_, i) =>
        runLane(site, kind, Math.ceil(RUNS / LANES), SEED + i, false),
      );
      const commands = (await Promise.all(lanes)).reduce((a, b) => a + b, 0);
      done.push(`${kind}: ${Math.ceil(RUNS / LANES) * LANES} sequences, ${commands} commands, ${seconds(startedAt)} s`);
    });

    test('does what the model does also when replicas are killed', TIMEOUT, async () => {
      const root = freshRoot();
      await using bystander = await startReplica({ root });
      await using a = await spawnReplica({ root });
      await using b = await spawnReplica({ root });
      const replicas = [a, b] as const;
      const site: Site = {
        replicas,
        expire: (leaseId) => expireSession(bystander, leaseId),
        crash: async (at) => {
          await replicas[at].kill();
          await replicas[at].restart();
        },
      };
      const startedAt = performance.now();
      const commands = await runLane(site, kind, WITH_CRASHES, SEED, true);
      done.push(`${kind}: ${WITH_CRASHES} sequences with crashes, ${commands} commands, ${seconds(startedAt)} s`);
    });
  });
}

function seconds(since: number): number {
  return Math.round((performance.now() - since) / 100) / 10;
}

function numberFrom(name: string, otherwise: number): number {
  const text = env[name] ?? '';
  if (text === '') return otherwise;
  if (!Number.isFinite(Number(text))) throw new Error(`${name} is "${text}": give a number`);
  return Number(text);
}
