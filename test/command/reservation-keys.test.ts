/** `postern reservation extend` while the gateway changes its keys. */
import { randomBytes } from 'node:crypto';
import { chmodSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { startReplica, type Replica } from '../support/start-gateway.js';
import { freshRoot } from '../support/start-zookeeper.js';
import { LONG_MS, runCommand, type Run } from './run-command.js';

it('puts the new token into the file of the old one, and says so where it cannot', { timeout: LONG_MS }, async () => {
  const [one, two] = [randomBytes(32).toString('base64'), randomBytes(32).toString('base64')];
  const root = freshRoot();
  const start = (keys: string): Promise<Replica> => startReplica({ root, settings: { POSTERN_LEASE_KEYS: keys } });
  await using before = await start(one);
  await using after = await start(`${two},${one}`);
  await using end = await start(two);
  const run = async ({ url }: Replica, words: string[], settings = {}): Promise<Run> => {
    const command = runCommand(words, { url, settings });
    expect(await command.code(), command.stderr).toBe(0);
    return command;
  };
  const extension = ['reservation', 'extend', 'stage', '--for', '3h'];
  const directory = mkdtempSync(join(tmpdir(), 'postern-token-'));
  try {
    const file = join(directory, 'token');
    const { stdout: old } = await run(before, ['reserve', 'stage', '--for', '2h']);
    writeFileSync(file, old);
    chmodSync(file, 0o600);

    const told = await run(after, extension, { POSTERN_RESERVATION_TOKEN: old.trim() });
    expect(told.stderr).toMatch(/extend with --json/);
    const extended = await run(after, [...extension, '--token-file', file]);
    expect(extended.stderr).toBe('');
    expect(extended.stdout).toMatch(/^reserved until \S+\n$/);
    expect(readFileSync(file, 'utf8')).not.toBe(old);
    expect(statSync(file).mode & 0o777).toBe(0o600);
    await run(end, [...extension, '--token-file', file]);
    await run(end, ['reservation', 'release', 'stage', '--token-file', file]);
  } finally {
    rmSync(directory, { recursive: true });
  }
});
