/** What `postern lock` costs before and after its job, beside what Node itself takes to start. */
import { spawnSync } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { env, execPath } from 'node:process';
import { expect, it } from 'vitest';
import { spawnReplica } from '../support/start-gateway.js';
import { LONG_MS, MAIN, runCommand } from './run-command.js';

const ROUNDS = 11;
/** Two processes, and three requests: it is 2 to 4. The modules of a gateway, or a large parser, would show. */
const RATIO_MAX = 5;

const asModule = (source: string): string => `data:text/javascript,${encodeURIComponent(source)}`;

/** Appends the address of every file that Node loads from then on to the file that LOADED_FILES names. */
const HOOKS = `
import { appendFileSync } from 'node:fs';
export function load(url, context, next) {
  if (url.startsWith('file:')) appendFileSync(process.env.LOADED_FILES, url + '\\n');
  return next(url, context);
}`;
const TELLS_LOADED = `import { register } from 'node:module'; register('${asModule(HOOKS).replaceAll("'", '%27')}');`;

interface Cost {
  /** Of it and of all that it starts, s: other than the time that passes, what else runs hardly changes it. */
  cpu: number;
  wallMs: number;
}

function median(numbers: readonly number[]): number {
  return [...numbers].sort((a, b) => a - b)[Math.floor(numbers.length / 2)] as number;
}

it(
  'starts, takes a lock, runs a job and gives it back at a few times the cost of starting Node',
  async () => {
    await using replica = await spawnReplica();
    const costOf = (words: readonly string[]): Cost => {
      const start = performance.now();
      const { status, stderr } = spawnSync(
        'bash',
        ['-c', 'TIMEFORMAT=\'%U %S\'; time "$@"', 'bash', execPath, ...words],
        {
          env: { PATH: env['PATH'], LC_ALL: 'C', POSTERN_URL: replica.url },
          encoding: 'utf8',
          stdio: ['ignore', 'ignore', 'pipe'],
        },
      );
      expect(status, stderr).toBe(0);
      expect(stderr).toMatch(/^[0-9.]+ [0-9.]+\n$/);
      const wallMs = performance.now() - start;
      return {
        cpu: stderr
          .trim()
          .split(' ')
          .reduce((sum, part) => sum + Number(part), 0),
        wallMs,
      };
    };
    const node: Cost[] = [];
    const command: Cost[] = [];
    for (let round = 0; round < ROUNDS; round += 1) {
      node.push(costOf(['-e', '0']));
      command.push(costOf([MAIN, 'lock', 'start-time', '--', 'true']));
    }
    const shortest = (costs: readonly Cost[]): string => Math.min(...costs.map(({ wallMs }) => wallMs)).toFixed(0);
    console.log(`postern lock x -- true: ${shortest(command)} ms; node -e 0: ${shortest(node)} ms`);
    expect(median(command.map(({ cpu }) => cpu)) / median(node.map(({ cpu }) => cpu))).toBeLessThan(RATIO_MAX);
  },
  LONG_MS,
);

it(
  'reads three files: where it begins, the guardian, and all the rest',
  async () => {
    await using replica = await spawnReplica();
    const dir = await mkdtemp(join(tmpdir(), 'postern-loaded-'));
    try {
      const file = join(dir, 'loaded');
      const settings = { NODE_OPTIONS: `--import ${asModule(TELLS_LOADED)}`, LOADED_FILES: file };
      const run = runCommand(['lock', 'loaded', '--', 'true'], { url: replica.url, settings });
      expect(await run.code(), run.stderr).toBe(0);
      const loaded = (await readFile(file, 'utf8')).trim().split('\n');
      expect(loaded.map((url) => basename(url)).sort()).toEqual(['guardian.js', 'main.js', 'run.js']);
    } finally {
      await rm(dir, { recursive: true, force: true });
    }
  },
  LONG_MS,
);
