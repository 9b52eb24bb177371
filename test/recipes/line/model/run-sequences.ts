/**
 * Runs sequences of whatever clients can do, made up by chance, against a model that has none of the difficulties: two
 * replicas, real HTTP, a real ZooKeeper.
 *
 * `MODEL_RUNS` is the number of sequences for each kind; a few more have replicas among them that are killed, which
 * takes a second each time. A failure prints seed, path, replayPath and the shortest sequence that still fails;
 * `MODEL_SEED`, `MODEL_PATH` and `MODEL_REPLAY` repeat it, with `-t` for the test that failed.
 */
import { env } from 'node:process';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { scaled } from '../../../support/timing.js';
import type { CommandOptions, Sequences } from './commands.js';
import type { LineScene } from './scene.js';
import { calmSite, crashSite, type Kind, type Site } from './site.js';

const RUNS = numberFrom('MODEL_RUNS', 150);
const SEED = numberFrom('MODEL_SEED', Math.floor(Math.random() * 2 ** 31));
const PATH = env['MODEL_PATH'] ?? '';
/** Sequences that run at the same time, each with a name of its own. */
const LANES = PATH === '' ? 6 : 1;
const WITH_CRASHES = PATH === '' ? Math.ceil(RUNS / 50) : 1;
const TIMEOUT = { timeout: scaled(120_000) + RUNS * 1_000 };
/** No sequence begins later, also none that would make a failure shorter: so there is time to say what failed. */
const BEGIN_MS = TIMEOUT.timeout - scaled(60_000);

export interface Subject<S extends LineScene> {
  kind: Kind;
  /** Where several are of one kind. */
  what?: string;
  /** @param number of the sequence */
  scene: (site: Site, name: string, number: number) => S;
  sequences: (scene: () => S, options: CommandOptions) => Sequences<S>;
}

/** Tests with and without replicas that are killed. */
export function testAgainstModel<S extends LineScene>(subject: Subject<S>): void {
  const { kind, what = kind } = subject;
  describe(`the line of ${what}`, () => {
    beforeAll(() => console.log(`${what}: MODEL_SEED=${SEED}`));
    const done: string[] = [];
    afterAll(() => console.log(done.join('\n')));

    test('does what the model does, whatever clients do at whichever replica', TIMEOUT, async () => {
      await using site = await calmSite();
      const each = Math.ceil(RUNS / LANES);
      const count = new Count();
      await Promise.all(
        Array.from({ length: LANES }, (_, i) =>
          runLane(subject, site, { runs: each, seed: SEED + i, crashes: false }, count),
        ),
      );
      done.push(`${what}: ${count.inWords()}`);
    });

    test('does what the model does also when replicas are killed', TIMEOUT, async () => {
      await using site = await crashSite();
      const count = new Count();
      await runLane(subject, site, { runs: WITH_CRASHES, seed: SEED, crashes: true }, count);
      done.push(`${what}, with crashes: ${count.inWords()}`);
    });
  });
}

class Count {
  sequences = 0;
  commands = 0;
  /** Of sequences that took longer than the model can be relied on. */
  cutShort = 0;
  readonly #startedAt = performance.now();

  get hasTime(): boolean {
    return performance.now() - this.#startedAt < BEGIN_MS;
  }

  inWords(): string {
    const seconds = Math.round((performance.now() - this.#startedAt) / 100) / 10;
    const short = this.cutShort === 0 ? '' : ` (${this.cutShort} cut short)`;
    return `${this.sequences} sequences${short}, ${this.commands} commands, ${seconds} s`;
  }
}

let names = 0;

async function runLane<S extends LineScene>(
  { kind, scene: begin, sequences }: Subject<S>,
  site: Site,
  { runs, seed, crashes }: { runs: number; seed: number; crashes: boolean },
  count: Count,
): Promise<void> {
  let current: S | undefined;
  const scene = (): S => current as S;
  await fc.assert(
    fc.asyncProperty(sequences(scene, { crashes, replayPath: env['MODEL_REPLAY'] }), async (sequence) => {
      if (!count.hasTime) return;
      names += 1;
      const begun = (current = begin(site, `${kind}-${names}`, names));
      try {
        await begun.begin();
        await fc.asyncModelRun(() => ({ model: begun.model, real: begun }), sequence);
        await begun.finish();
      } catch (error) {
        await begun.end().catch(() => undefined); // the first error tells more
        throw error;
      }
      count.sequences += 1;
      count.commands += begun.commands;
      if (!begun.current) count.cutShort += 1;
    }),
    { numRuns: runs, seed, ...(PATH === '' ? {} : { path: PATH }) },
  );
}

function numberFrom(name: string, otherwise: number): number {
  const text = env[name] ?? '';
  if (text === '') return otherwise;
  if (!Number.isFinite(Number(text))) throw new Error(`${name} is "${text}": give a number`);
  return Number(text);
}
