/** What must be there before anything of the project can run: the right Node, the packages, a build. */
import { existsSync, readdirSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { run } from './run.mjs';

export const ROOT = fileURLToPath(new URL('../..', import.meta.url));

const NODE_MIN = /** @type {const} */ ([20, 19]);
const INSTALL_MS = 10 * 60_000;
const NPM_LINES = 12; // the cause comes first, then help pages
const BUILD_MS = 5 * 60_000;

/** What a build is made of. openapi.yaml is read at run time, but the types are generated from it. */
const SOURCES = ['src', 'openapi.yaml', 'package.json', 'tsconfig.json', 'tsconfig.build.json'];

/** @throws {Error} one sentence when this Node is too old */
export function checkNode() {
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
  const [minMajor, minMinor] = NODE_MIN;
  if (major > minMajor || (major === minMajor && minor >= minMinor)) return;
  throw new Error(
    `Postern needs Node.js ${NODE_MIN.join('.')} or newer; this is ${process.versions.node} (${process.execPath}).`,
  );
}

/** Runs `npm ci` when there are no packages, or others than package-lock.json says. @param {(line: string) => void} log */
export async function installPackages(log) {
  // npm writes this file last, and with the time of the install.
  const installed = modified(join(ROOT, 'node_modules', '.package-lock.json'));
  if (installed >= modified(join(ROOT, 'package-lock.json'))) return;
  log('Installing packages (npm ci)');
  const { problem, output } = await run('npm', ['ci', '--no-audit', '--no-fund'], { timeoutMs: INSTALL_MS, cwd: ROOT });
  if (problem) {
    const lines = output.split('\n').filter((line) => line.startsWith('npm error'));
    throw new Error(`The packages could not be installed (${problem}):\n${lines.slice(0, NPM_LINES).join('\n')}`);
  }
}

/** Builds `dist/` when it is missing or older than a source. @param {(line: string) => void} log */
export async function build(log) {
  const stamp = join(ROOT, 'dist', '.built');
  if (SOURCES.every((source) => newest(join(ROOT, source)) <= modified(stamp))) return;
  log('Building (tsc)');
  const startedAt = new Date();
  const tsc = join(ROOT, 'node_modules', 'typescript', 'bin', 'tsc');
  const args = [tsc, '-p', 'tsconfig.build.json'];
  const { problem, output } = await run(process.execPath, args, { timeoutMs: BUILD_MS, cwd: ROOT });
  if (problem) throw new Error(`The build failed:\n${output.trim() || problem}`);
  // Written after success only, and with the time of the start: what was edited meanwhile is built the next time.
  writeFileSync(stamp, '');
  utimesSync(stamp, startedAt, startedAt);
}

function modified(path) {
  return existsSync(path) ? statSync(path).mtimeMs : 0;
}

function newest(path) {
  const stat = statSync(path, { throwIfNoEntry: false });
  if (!stat) return 0;
  if (!stat.isDirectory()) return stat.mtimeMs;
  return Math.max(stat.mtimeMs, ...readdirSync(path).map((name) => newest(join(path, name))));
}
