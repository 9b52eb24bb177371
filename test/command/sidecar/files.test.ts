/** Files that a sidecar replaces: who may read them, and what somebody has put in its way. */
import { chmod, lstat, mkdtemp, readdir, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pid } from 'node:process';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { replaceFile } from '../../../src/command/sidecar/files.js';

const SECRET = Buffer.from('hunter2\n');

let dir: string;
let file: string;
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'postern-files-'));
  file = join(dir, 'settings');
});
afterEach(() => rm(dir, { recursive: true, force: true }));

const modeOf = async (path: string): Promise<string> => ((await stat(path)).mode & 0o777).toString(8);

describe('a file that is replaced', () => {
  it('has the mode that it is to have when it is made, and keeps the one that it has', async () => {
    expect(replaceFile(file, SECRET, 0o600)).toBe('missing');
    expect(await modeOf(file)).toBe('600');
    expect(replaceFile(file, SECRET, 0o644)).toBe('the same');
    await chmod(file, 0o640);
    expect(replaceFile(file, Buffer.from('other'), 0o600)).toBe('other');
    expect(await modeOf(file)).toBe('640');
    await chmod(file, 0o400);
    replaceFile(file, SECRET);
    expect(await modeOf(file)).toBe('400');
    expect(await readFile(file)).toEqual(SECRET);
    expect(await readdir(dir)).toEqual(['settings']);
  });

  it('is written through no link, wherever one was put', async () => {
    const precious = join(dir, 'precious');
    await writeFile(precious, 'precious', { mode: 0o644 });
    await symlink('precious', join(dir, `.settings.${pid}`)); // a name that can be guessed
    await symlink('precious', file);
    expect(replaceFile(file, SECRET, 0o600)).toBe('other');
    expect(await readFile(precious, 'utf8')).toBe('precious');
    expect((await lstat(file)).isFile()).toBe(true);
    expect(await modeOf(file)).toBe('600');
    expect(await readFile(file)).toEqual(SECRET);
  });
});
