/** What the library chart of the sidecar gives a chart that includes it. */
import { cp, mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ROOT } from '../lib/install.mjs';
import { run } from '../lib/run.mjs';
import { tools } from './tools.mjs';

const LIBRARY = join(ROOT, 'helm', 'postern-sidecar');
const PROGRAM = join(LIBRARY, 'ci', 'program');
const HELM_MS = 60_000;

/** Its value files, beside the values that the chart has itself. */
export const PROGRAM_VALUES = ['values.yaml', 'everything.yaml'];

/**
 * The chart of a program, as `helm dependency build` would complete it.
 * @param {string} file of values @param {{ version: string, sets?: readonly string[] }} options
 * @returns {Promise<{ code: number | null, output: string }>}
 */
export async function templateProgram(file, { version, sets = [] }) {
  const dir = await mkdtemp(join(tmpdir(), 'postern-program-'));
  try {
    await cp(PROGRAM, dir, { recursive: true });
    await mkdir(join(dir, 'charts'));
    await cp(LIBRARY, join(dir, 'charts', 'postern-sidecar'), { recursive: true });
    const more = sets.flatMap((set) => ['--set', set]);
    const args = ['template', 'release', dir, '--kube-version', version, '-f', join(dir, file), ...more];
    return await run(await tools.helm(), args, { timeoutMs: HELM_MS });
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
}
