/** Making API keys, and replacing one by another while its principal holds things. */
import { spawnSync } from 'node:child_process';
import { chmod, chown, mkdtemp, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { Credentials } from '../../../src/http/access/credentials.js';
import { KeyedClient } from '../../support/http/api-keys.js';
import { eventually } from '../../support/eventually.js';
import { MAIN, startPair } from '../../support/start-gateway.js';
import { timing } from '../../support/timing.js';

interface Made {
  key: string;
  entry: Record<string, unknown>;
}

function run(...args: string[]): ReturnType<typeof spawnSync> & { stdout: string; stderr: string } {
  return spawnSync(process.execPath, [MAIN, 'make-key', ...args], { encoding: 'utf8' });
}

function make(...args: string[]): Made {
  const { stdout, status } = run(...args);
  expect(status).toBe(0);
  const [key = '', ...entry] = stdout.split('\n');
  return { key, entry: JSON.parse(entry.join('\n')) as Record<string, unknown> };
}

it('make-key prints the key once, and an entry that has its hash only', () => {
  const { key, entry } = make(
    '--id',
    'ci-2',
    '--principal',
    'ci',
    '--namespaces',
    'a=read',
    '--namespaces',
    '*=use,admin',
  );
  expect(key).toMatch(/^postern_[\w-]{43}$/);
  expect(entry).toMatchObject({ id: 'ci-2', principal: 'ci', namespaces: { a: ['read'], '*': ['use', 'admin'] } });
  expect(JSON.stringify(entry)).not.toContain(key.slice('postern_'.length));
  expect(make('--id', 'root', '--namespaces', '*').entry['namespaces']).toBe('*');
  expect(make('--id', 'plain').entry['namespaces']).toEqual({ default: ['read', 'use'] });
});

it.each([
  [[], '--id is missing'],
  [['--id', 'a b'], '--id is "a b"'],
  [['--id', 'a', '--principal', ''], '--principal is ""'],
  [['--id', 'a', '--namespaces', 'default=write'], '--namespaces is "default=write"'],
  [['--id', 'a', '--namespaces', 'default'], '--namespaces is "default"'],
  [['--id', 'a', '--wrong'], "Unknown option '--wrong'"],
])('make-key %j says what is wrong and makes none', (args, sentence) => {
  const { stdout, stderr, status } = run(...args);
  expect(status).toBe(64);
  expect(stdout).toBe('');
  expect(stderr).toContain(sentence);
  expect(stderr).toContain('make-key --id ID');
});

it('make-key --file makes the file for its owner alone, adds to it, and leaves one that it does not understand as it is', async () => {
  const dir = await mkdtemp(join(tmpdir(), 'postern-make-key-'));
  const file = join(dir, 'keys.json');
  const add = (id: string): ReturnType<typeof run> => run('--file', file, '--id', id);
  const keys = ['one', 'two'].map((id) => add(id).stdout.trim());
  expect((await stat(file)).mode & 0o777).toBe(0o600);
  const text = await readFile(file, 'utf8');
  const found = new Credentials(text);
  expect(keys.map((key) => found.find(key)?.principal.id)).toEqual(['one', 'two']);
  expect(add('two')).toMatchObject({ status: 1, stdout: '' });
  expect(await readFile(file, 'utf8')).toBe(text);
  await chmod(file, 0o640);
  // The gateway's user, as whom only root can make a file.
  const gateway = process.getuid?.() === 0 ? 65_532 : (await stat(file)).uid;
  await chown(file, gateway, (await stat(file)).gid);
  add('three');
  const { mode, uid } = await stat(file);
  expect([mode & 0o777, uid]).toEqual([0o640, gateway]);
  await writeFile(file, '{"keys": "none"}');
  const refused = add('four');
  expect(refused).toMatchObject({ status: 1, stdout: '' });
  expect(refused.stderr).toContain(file);
  expect(await readFile(file, 'utf8')).toBe('{"keys": "none"}');
  expect(await readdir(dir)).toEqual(['keys.json']);
  await rm(dir, { recursive: true });
});

it(
  'a key is replaced while its principal holds a lock: both work for a time, then the new one alone, at every replica',
  { timeout: timing.processMs },
  async () => {
    const dir = await mkdtemp(join(tmpdir(), 'postern-rotation-'));
    const file = join(dir, 'keys.json');
    const write = async (...made: Made[]): Promise<void> => {
      await writeFile(`${file}.new`, JSON.stringify({ keys: made.map(({ entry }) => entry) }));
      await rename(`${file}.new`, file);
    };
    const [first, second] = ['ci-1', 'ci-2'].map((id) => make('--id', id, '--principal', 'ci')) as [Made, Made];
    const other = make('--id', 'other');
    await write(first, other);
    await using pair = await startPair({ settings: { POSTERN_AUTH_FILE: file } });
    const clients = [pair.a, pair.b].map(({ url }) => ({
      before: new KeyedClient(url, first.key),
      after: new KeyedClient(url, second.key),
      stranger: new KeyedClient(url, other.key),
    }));
    const status = async (client: KeyedClient): Promise<number> => (await client.call('GET', '/v1/locks/held')).status;
    const [here, there] = clients as [(typeof clients)[0], (typeof clients)[0]];
    const lease = await here.before.createLease({ ttlMs: 30_000 });
    const { fencingToken } = await here.before.hold('held', lease);
    expect(await status(here.after)).toBe(401);

    await write(first, second, other);
    for (const { before, after, stranger } of clients) {
      await eventually('the new key works', async () => (await status(after)) === 200);
      expect(await status(before)).toBe(200);
      for (const client of [before, after]) {
        expect((await client.heartbeat(lease)).status).toBe(200);
        expect(await client.hold('held', lease)).toMatchObject({ fencingToken, alreadyHeld: true });
      }
      expect((await stranger.heartbeat(lease)).body).toMatchObject({ status: 403, code: 'invalid-lease-token' });
    }

    await write(second, other);
    for (const { before, after } of clients) {
      await eventually('the old key is gone', async () => (await status(before)) === 401);
      expect((await before.heartbeat(lease)).status).toBe(401);
      expect(await after.hold('held', lease)).toMatchObject({ fencingToken, alreadyHeld: true });
    }
    expect((await there.after.release('held', lease)).status).toBe(204);
    for (const all of clients) for (const client of Object.values(all)) await client[Symbol.asyncDispose]();
    await rm(dir, { recursive: true });
  },
);
