/**
 * The `version` step of `npm version X`, which has changed package.json by then: writes the version into every other
 * place, gives what is unreleased in CHANGELOG.md its heading, and hands these files to the commit that npm makes. With
 * --released it is the `postversion` step: that commit becomes the release from which the tests upgrade, in a commit of
 * its own. With --check it only compares: the exit code says whether all places have the version of package.json.
 */
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { ROOT } from './lib/install.mjs';
import { noteRelease, RELEASE_FILE } from './lib/last-release.mjs';
import { run } from './lib/run.mjs';
import { findVersions, setVersions, versionOf } from './lib/versions.mjs';

const CHANGELOG = 'CHANGELOG.md';
const UNRELEASED = '## Unreleased\n';
const GIT_MS = 60_000;

const version = await versionOf(ROOT);
try {
  if (process.argv.includes('--check')) await check();
  else if (process.argv.includes('--released')) await released();
  else await release();
} catch (error) {
  console.error(/** @type {Error} */ (error).message);
  process.exitCode = 1;
}

async function check() {
  const others = (await findVersions(ROOT)).filter((found) => found.version !== version);
  const lines = others.map((found) => `${found.file}:${found.line} has ${found.version}, package.json has ${version}`);
  if (lines.length > 0) throw new Error([...lines, '`npm version` changes all of them'].join('\n'));
}

async function release() {
  await writeFile(join(ROOT, CHANGELOG), headed(await readFile(join(ROOT, CHANGELOG), 'utf8')));
  const files = await setVersions(ROOT, version);
  await git('add', '--', CHANGELOG, ...files);
}

async function released() {
  const tags = (await git('tag', '--points-at', 'HEAD')).split('\n');
  if (!tags.includes(`v${version}`)) return; // asked for without commit and tag
  await noteRelease({ version, commit: await git('rev-parse', 'HEAD') });
  await git('add', '--', RELEASE_FILE);
  await git('commit', '--quiet', '--message', `Upgrade from release ${version} in the tests`);
}

/** @param {string[]} args @returns {Promise<string>} what it prints */
async function git(...args) {
  const { problem, output } = await run('git', args, { timeoutMs: GIT_MS, cwd: ROOT });
  if (problem) throw new Error(problem);
  return output.trim();
}

/** @param {string} changelog @returns {string} with all that was unreleased under the version */
function headed(changelog) {
  const at = changelog.indexOf(UNRELEASED) + UNRELEASED.length;
  const [unreleased = ''] = changelog.slice(at).split(/^## /m);
  if (at < UNRELEASED.length || unreleased.trim() === '')
    throw new Error(`${CHANGELOG} has nothing under "${UNRELEASED.trim()}": a release says what changes for its users`);
  const heading = `## ${version} - ${new Date().toISOString().slice(0, 10)}\n`;
  return `${changelog.slice(0, at)}\n${heading}${changelog.slice(at)}`;
}
