/** What must be there before anything of the project can run: the right Node, the packages, a build. */
import { existsSync, readdirSync, readFileSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { run } from './run.mjs';

export const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/**
 * The first release of each line whose V8 cannot be slowed down by member names made for it (CVE-2026-21717); lines
 * between them never got the repair, later ones have it. The same as `engines` in package.json.
 */
const NODE_FLOORS = /** @type {const} */ ([
  [20, 20, 2],
  [22, 22, 2],
  [24, 14, 1],
  [25, 8, 2],
]);
const INSTALL_MS = 10 * 60_000;
const NPM_LINES = 12; // the cause comes first, then help pages
const BUILD_MS = 5 * 60_000;

/** What a build is made of. openapi.yaml is read at run time, but the types are generated from it. */
const SOURCES = ['src', 'openapi.yaml', 'package.json', 'tsconfig.json', 'tsconfig.build.json'];

/** @param {string} version such as `24.14.1` */
export function isNodeGoodEnough(version) {
  const [major = 0, minor = 0, patch = 0] = version.split('.').map(Number);
  const floor = NODE_FLOORS.find(([line]) => line === major);
  if (floor === undefined) return major > (NODE_FLOORS.at(-1)?.[0] ?? 0);
  return minor > floor[1] || (minor === floor[1] && patch >= floor[2]);
}

/** @throws {Error} one sentence when this Node is too old */
export function checkNode() {
  if (isNodeGoodEnough(process.versions.node)) return;
  const floors = NODE_FLOORS.map((floor) => floor.join('.')).join(', ');
  throw new Error(
    `Postern needs Node.js ${floors} or a later release of these lines: older ones can be stopped by a small request (CVE-2026-21717). This is ${process.versions.node} (${process.execPath}).`,
  );
}

/**
 * Runs `npm ci` when there are no packages, or others than package-lock.json says.
 * @param {(line: string) => void} log
 * @param {string} [folder] where that file is
 */
export async function installPackages(log, folder = ROOT) {
  if (isInstalled(folder)) return;
  log('Installing packages (npm ci)');
  const options = { timeoutMs: INSTALL_MS, cwd: folder };
  const { problem, output } = await run('npm', ['ci', '--no-audit', '--no-fund'], options);
  if (problem) {
    const lines = output.split('\n').filter((line) => line.startsWith('npm error'));
    throw new Error(`The packages could not be installed (${problem}):\n${lines.slice(0, NPM_LINES).join('\n')}`);
  }
}

/**
 * By what is in the files: a checkout gives package-lock.json a new time, and the packages of whoever runs this are
 * theirs.
 * @param {string} folder
 */
function isInstalled(folder) {
  const file = join(folder, 'node_modules', '.package-lock.json'); // npm writes it last
  if (!existsSync(file)) return false;
  const [{ '': _root, ...locked }, installed] = [join(folder, 'package-lock.json'), file].map(
    (path) => JSON.parse(readFileSync(path, 'utf8')).packages,
  );
  const isThere = (/** @type {string} */ path) =>
    installed[path] === undefined
      ? locked[path].optional === true // of another platform
      : ['version', 'integrity'].every((member) => installed[path][member] === locked[path][member]);
  return Object.keys(locked).every(isThere) && Object.keys(installed).every((path) => locked[path] !== undefined);
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
  // Loaded late: the packages may not have been there.
  const { bundleGateway } = await import('./gateway-bundle.mjs');
  await bundleGateway(ROOT);
  const { bundleBrowser } = await import('./browser-bundle.mjs');
  await bundleBrowser(ROOT);
  const { bundleCommand } = await import('./command-bundle.mjs');
  await bundleCommand(ROOT);
  // What examples/ import.
  const { bundleClient } = await import('./client-bundle.mjs');
  await bundleClient(ROOT, () => {});
  const { bundleConsole } = await import('./console-bundle.mjs');
  await bundleConsole(ROOT, () => {});
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
