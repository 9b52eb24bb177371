/**
 * The last release, built from the history into `.cache/releases/`: what the tests of upgrade and rollback run beside
 * this checkout. `test/upgrade/release.json` names its commit, as tags may be missing where the tests run.
 */
import { existsSync } from 'node:fs';
import { lstat, mkdir, readFile, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { installPackages, ROOT } from './install.mjs';
import { run } from './run.mjs';

export const RELEASE_FILE = join('test', 'upgrade', 'release.json');

const GIT_MS = 120_000;
const BUILD_MS = 10 * 60_000;
/** What a replica needs; `npm run build` also makes the command and the client. */
const BUILDS = ['build:gateway', 'build:browser', 'build:console'];

/** The history here does not reach back to it, and cannot be completed. */
export class ShortHistoryError extends Error {}

/** @typedef {{ version: string, commit: string }} Release */

/** @returns {Promise<Release>} */
export async function lastRelease() {
  return JSON.parse(await readFile(join(ROOT, RELEASE_FILE), 'utf8'));
}

/**
 * Builds it, unless that was done before.
 * @param {(line: string) => void} log
 * @returns {Promise<Release & { main: string }>} with the file that starts a replica of it
 * @throws {ShortHistoryError} in a shallow clone without a remote, or outside of a clone
 */
export async function provideLastRelease(log) {
  const release = await lastRelease();
  const { version, commit } = release;
  const folder = join(ROOT, '.cache', 'releases', commit);
  const provided = { ...release, main: join(folder, 'dist', 'main.js') };
  if (existsSync(folder)) {
    await providePackages(folder, log);
    return provided;
  }
  await fetchCommit(release);
  log(`Building release ${version} (${commit.slice(0, 12)})`);
  // Under another name until it is complete: another process may be at it too.
  const unfinished = `${folder}.${process.pid}`;
  await rm(unfinished, { recursive: true, force: true });
  await mkdir(unfinished, { recursive: true });
  const archive = join(unfinished, 'release.tar');
  await must('git', ['archive', '--format=tar', `--output=${archive}`, commit], ROOT);
  await must('tar', ['-xf', archive, '-C', unfinished], ROOT);
  await rm(archive);
  await providePackages(unfinished, log);
  for (const script of BUILDS) await must('npm', ['run', script], unfinished, BUILD_MS);
  try {
    await rename(unfinished, folder);
  } catch (error) {
    if (!existsSync(folder)) throw error;
    await rm(unfinished, { recursive: true, force: true });
  }
  return provided;
}

/** @param {Release} release */
async function fetchCommit({ version, commit }) {
  if (await has(commit)) return;
  await git('fetch', '--quiet', '--depth=1', '--no-tags', 'origin', commit);
  if (await has(commit)) return;
  const what = `Release ${version} (${commit})`;
  const { code, output } = await git('rev-parse', '--is-shallow-repository');
  if (code === 0 && output.trim() === 'false')
    throw new Error(`${what}, which ${RELEASE_FILE} names, is not in the history of this clone, which is complete.`);
  throw new ShortHistoryError(
    `${what} is not in the history here, and cannot be fetched: this is a shallow clone or none. \`git fetch --unshallow\` completes it.`,
  );
}

/** @param {string} commit */
async function has(commit) {
  return (await git('cat-file', '-e', `${commit}^{commit}`)).code === 0;
}

/** @param {string[]} args */
function git(...args) {
  return run('git', args, { timeoutMs: GIT_MS, cwd: ROOT, env: { ...process.env, GIT_TERMINAL_PROMPT: '0' } });
}

/** @param {string} command @param {string[]} args @param {string} cwd @param {number} [timeoutMs] */
async function must(command, args, cwd, timeoutMs = GIT_MS) {
  const { problem, output } = await run(command, args, { timeoutMs, cwd });
  if (problem) throw new Error(`The last release cannot be built: ${problem}\n${output.trim()}`);
}

/**
 * Those of this checkout as long as they are the same, else its own.
 * @param {string} folder
 * @param {(line: string) => void} log
 */
async function providePackages(folder, log) {
  const packages = join(folder, 'node_modules');
  const isLinked = (await lstat(packages).catch(() => undefined))?.isSymbolicLink() === true;
  if (await hasSamePackages(folder)) {
    if (!existsSync(packages)) await symlink(join(ROOT, 'node_modules'), packages);
    return;
  }
  if (isLinked) await rm(packages);
  await installPackages(log, folder);
}

/** @param {string} folder */
async function hasSamePackages(folder) {
  const [here, there] = await Promise.all([ROOT, folder].map((root) => packagesOf(root)));
  return here === there;
}

/** @param {string} root @returns {Promise<string>} what is installed there, but for the project's own version */
async function packagesOf(root) {
  const { packages } = JSON.parse(await readFile(join(root, 'package-lock.json'), 'utf8'));
  delete packages[''].version;
  return JSON.stringify(packages);
}

/** Notes the release that was made last. @param {Release} release */
export async function noteRelease(release) {
  await writeFile(join(ROOT, RELEASE_FILE), `${JSON.stringify(release, null, 2)}\n`);
}
