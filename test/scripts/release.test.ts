/** `npm version X` in a clone of the working tree: everything has the new version, and one commit its tag. */
import { execFile } from 'node:child_process';
import { cp, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { env } from 'node:process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, it } from 'vitest';
// @ts-expect-error -- plain JavaScript without declarations
import { findVersions } from '../../scripts/lib/versions.mjs';
import { scaled } from '../support/timing.js';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const LONG_MS = scaled(60_000);
const VERSION = '98.7.6-rc.1';

const allVersions = findVersions as (root: string) => Promise<{ file: string; line: number; version: string }[]>;

let clone: string;
/** In the clone, knowing nothing of whoever runs the tests. @returns what it prints */
const execute = async (program: string, ...args: string[]): Promise<string> => {
  const who = { name: 'A Releaser', email: 'releaser@example.org' };
  const { stdout } = await promisify(execFile)(program, args, {
    cwd: clone,
    env: {
      PATH: env['PATH'],
      HOME: clone,
      GIT_CONFIG_NOSYSTEM: '1',
      GIT_AUTHOR_NAME: who.name,
      GIT_AUTHOR_EMAIL: who.email,
      GIT_COMMITTER_NAME: who.name,
      GIT_COMMITTER_EMAIL: who.email,
      npm_config_offline: 'true',
      npm_config_cache: join(clone, '.git', 'npm'),
      npm_config_update_notifier: 'false',
    },
  });
  return stdout.trim();
};
const failure = (promise: Promise<unknown>): Promise<string> =>
  promise.then(
    () => '',
    (error: { stderr: string }) => error.stderr,
  );

beforeAll(async () => {
  clone = await mkdtemp(join(tmpdir(), 'postern-release-'));
  const listed = ['ls-files', '-z', '--cached', '--others', '--exclude-standard'];
  const { stdout } = await promisify(execFile)('git', listed, { cwd: ROOT, maxBuffer: 16 * 1_048_576 });
  for (const file of new Set(stdout.split('\0').filter((name) => name !== '')))
    await cp(join(ROOT, file), join(clone, file)).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'ENOENT') throw error; // deleted, and not committed yet
    });
  await execute('git', 'init', '--quiet');
  await writeFile(join(clone, '.git', 'info', 'exclude'), 'node_modules\n');
  await symlink(join(ROOT, 'node_modules'), join(clone, 'node_modules'));
  await execute('git', 'add', '--all');
  await execute('git', 'commit', '--quiet', '--message', 'All of it');
}, LONG_MS);
afterAll(() => rm(clone, { recursive: true, force: true }));

it('names each place that has another version', { timeout: LONG_MS }, async () => {
  const check = (): Promise<string> => failure(execute('node', 'scripts/release.mjs', '--check'));
  expect(await check()).toBe('');
  const places = await allVersions(clone);
  const files = new Set(places.map(({ file }) => file));
  for (const file of [
    'package-lock.json',
    'openapi/openapi.yaml',
    'openapi.yaml',
    'helm/postern/Chart.yaml',
    'helm/postern-sidecar/Chart.yaml',
    'helm/examples/cronjob.yaml',
    'helm/examples/sidecar.yaml',
    'docs/deploying.md',
  ])
    expect(files).toContain(file);
  for (const { file, line, version } of places) {
    const text = await readFile(join(clone, file), 'utf8');
    const lines = text.split('\n');
    lines[line - 1] = (lines[line - 1] as string).replace(version, '1.2.3');
    await writeFile(join(clone, file), lines.join('\n'));
    expect(await check()).toContain(`${file}:${line} has 1.2.3, package.json has ${version}`);
    await writeFile(join(clone, file), text);
  }
});

it(
  'gives everything the new version in one commit with a tag, and notes it as released',
  { timeout: LONG_MS },
  async () => {
    const path = join(clone, 'CHANGELOG.md');
    const text = await readFile(path, 'utf8');
    const before = text.replace(/^## Unreleased\n(?=\n*## )/m, '## Unreleased\n\n- Something.\n\n');
    if (before !== text) {
      await writeFile(path, before);
      await execute('git', 'commit', '--quiet', '--all', '--message', 'Say what changes');
    }
    await execute('npm', 'version', VERSION, '--message', 'Release %s');
    expect(await execute('git', 'log', '-2', '--format=%s')).toBe(
      `Upgrade from release ${VERSION} in the tests\nRelease ${VERSION}`,
    );
    expect(await execute('git', 'tag', '--points-at', 'HEAD^')).toBe(`v${VERSION}`);
    expect(await execute('git', 'status', '--porcelain')).toBe('');
    expect(JSON.parse(await readFile(join(clone, 'test', 'upgrade', 'release.json'), 'utf8'))).toEqual({
      version: VERSION,
      commit: await execute('git', 'rev-parse', `v${VERSION}^{commit}`),
    });
    for (const { file, version } of await allVersions(clone))
      expect({ file, version }).toEqual({ file, version: VERSION });
    expect(JSON.parse(await readFile(join(clone, 'package.json'), 'utf8'))).toMatchObject({ version: VERSION });
    await execute('node', 'scripts/generate-contract.mjs', '--check');
    const after = await readFile(join(clone, 'CHANGELOG.md'), 'utf8');
    const heading = new RegExp(`## Unreleased\n\n## ${VERSION} - \\d{4}-\\d\\d-\\d\\d\n`);
    expect(after).toMatch(heading);
    expect(after.replace(heading, '## Unreleased\n')).toBe(before);
  },
);

it('refuses a release of which the changelog says nothing, and leaves no commit', { timeout: LONG_MS }, async () => {
  const said = await failure(execute('npm', 'version', '98.7.7'));
  expect(said).toContain('CHANGELOG.md has nothing under "## Unreleased"');
  expect(await execute('git', 'log', '-1', '--format=%s')).toBe(`Upgrade from release ${VERSION} in the tests`);
});
