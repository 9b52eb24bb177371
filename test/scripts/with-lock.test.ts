/**
 * `scripts/with-lock.sh` as people run it: real shells, a real curl, and gateways that are asked, restarted and killed.
 */
import { spawnSync } from 'node:child_process';
import { chmod, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { env } from 'node:process';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { makeApiKeys } from '../support/http/api-keys.js';
import { eventually, throughout } from '../support/eventually.js';
import { freePort } from '../support/free-port.js';
import { spawnReplica, startPair, startReplica, type Pair } from '../support/start-gateway.js';
import { freshRoot } from '../support/start-zookeeper.js';
import { scaled } from '../support/timing.js';
import { LONG_MS, pidOf, runs, runWithLock, SHORTEST_TTL, STUBBORN, type Options, type Run } from './with-lock-run.js';

let pair: Pair;
let dir: string;
beforeAll(async () => {
  pair = await startPair();
  dir = await mkdtemp(join(tmpdir(), 'postern-with-lock-'));
});
afterAll(async () => {
  await pair[Symbol.asyncDispose]();
  await rm(dir, { recursive: true, force: true });
});

const withLock = (args: readonly string[], options: Partial<Options> = {}): Run =>
  runWithLock(args, { url: pair.a.url, ...options });

const holders = async (name: string): Promise<unknown[]> => (await pair.b.showLock(name)).holders as unknown[];
const SHELLS = ['sh', 'dash', 'bash', 'busybox sh'].filter((shell) => {
  const { status } = spawnSync(shell.split(' ')[0] as string, [...shell.split(' ').slice(1), '-c', ':']);
  return status === 0;
});

describe.concurrent('with-lock.sh', { timeout: LONG_MS * 2 }, () => {
  it.each(SHELLS)('under %s gives the command its input and the fencing token, and ends as it does', async (shell) => {
    const name = `plain-${shell.replace(' ', '-')}`;
    const command = ['sh', '-c', 'cat; echo "$1 $FENCING_TOKEN"; exit 7', 'sh', 'two words'];
    const run = withLock([name, ...command], { shell, stdin: 'from standard input\n' });
    expect(await run.code()).toBe(7);
    expect(run.stdout).toMatch(/^from standard input\ntwo words \d+\n$/);
    expect(run.stderr).toBe('');
    expect(await holders(name)).toEqual([]);
  });

  it.each([
    ['no command', ['alone']],
    ['no name', []],
    ['an option that there is not', ['-x', 'a', 'true']],
    ['an option behind the name', ['a', '-w', '0', 'true']],
    ['nothing behind the name but --', ['a', '--']],
    ['a wait that is no number', ['-w', 'long', 'a', 'true']],
    ['a wait that a shell would read as octal', ['-w', '010', 'a', 'true']],
    ['a longest hold that no shell could reckon with', ['-m', '08', 'a', 'true']],
    ['a TTL too short to stop anything in time', ['-t', '9', 'a', 'true']],
    ['a name that the gateway would not take', ['a/b', 'true']],
    ['a TTL that the gateway does not take', ['-t', '90000', 'a', 'true']],
  ])('exits with 64 and runs nothing: %s', async (_what, args) => {
    const run = withLock(args);
    expect(await run.code()).toBe(64);
    expect(run.stderr).toMatch(/^with-lock\.sh: |^.*option/);
    expect(run.stdout).toBe('');
  });

  it('exits with 69 when no gateway answers', async () => {
    const run = withLock(['-w', '0', 'nobody', 'echo', 'ran'], { url: `http://127.0.0.1:${await freePort()}` });
    expect(await run.code()).toBe(69);
    expect(run.stderr).toContain('no gateway at http://127.0.0.1:');
    expect(run.stdout).toBe('');
  });

  it('exits with 69 when what answers there has no locks, and not as if somebody else had it', async () => {
    const run = withLock(['-w', '0', '-E', '0', 'wrong', 'echo', 'ran'], { url: `${pair.a.url}/gateway` });
    expect(await run.code()).toBe(69);
    expect(run.stderr).toContain('/gateway has no locks at that path (404)');
    expect(run.stdout).toBe('');
  });

  it('exits with 77 when the file of its key cannot be read', async () => {
    const run = withLock(['-w', '0', 'a', 'true'], { settings: { POSTERN_API_KEY_FILE: join(dir, 'none') } });
    expect(await run.code()).toBe(77);
    expect(run.stderr).toContain('which cannot be read');
  });

  it.each(['-h', '--help'])('tells with %s how it is used', async (option) => {
    const run = withLock([option]);
    expect(await run.code()).toBe(0);
    expect(run.stdout).toMatch(/^Runs a command while holding a lock/);
    expect(run.stdout).toContain('64 wrong usage, 69 no gateway');
  });

  it('exits with 75, or as -E says, when somebody else has the lock, and leaves no place in line', async () => {
    const lease = await pair.a.createLease({ ttlMs: 60_000 });
    await pair.a.hold('taken', lease);
    for (const [code, options] of [
      [75, ['-w', '0']],
      [0, ['-w', '0', '-E', '0']],
      [75, ['-w', '1']],
    ] as const) {
      const run = withLock([...options, 'taken', 'echo', 'ran']);
      expect(await run.code()).toBe(code);
      expect(run.stdout).toBe('');
      expect(run.stderr).toContain('somebody else holds taken');
      expect(await pair.b.showLock('taken')).toMatchObject({ holderCount: 1, waiterCount: 0 });
    }
    await pair.a.endLease(lease);
  });

  it('leaves no lease when it exits, also when it has waited in vain', async () => {
    await using replica = await startReplica();
    const lease = await replica.createLease({ ttlMs: 60_000 });
    await replica.hold('taken', lease);
    for (const [code, options] of [
      [75, ['-w', '0', 'taken']],
      [75, ['-w', '1', 'taken']],
      [0, ['free']],
    ] as const) {
      const run = withLock(['-t', '120', ...options, 'true'], { url: replica.url });
      expect(await run.code()).toBe(code);
      await eventually(`no lease is left after ${options.join(' ')}`, async () => {
        const { items } = (await replica.expect(200, 'GET', '/v1/leases')) as { items: { leaseId: string }[] };
        return items.every(({ leaseId }) => leaseId === lease.leaseId);
      });
    }
  });

  it('kills a command that does not end when its lock is revoked, before the next holder begins', async () => {
    const [mine, next] = [join(dir, 'mine'), join(dir, 'next')];
    const first = withLock(['revoked', 'sh', '-c', `trap "" TERM; while :; do date +%s%N >>${mine}; sleep 0.05; done`]);
    await eventually('the command runs', () => readFile(mine, 'utf8'), { withinMs: LONG_MS });
    const second = withLock(['-w', '50', 'revoked', 'sh', '-c', `date +%s%N >${next}`]);
    await pair.a.untilWaiting('revoked', 1);
    await pair.b.expect(200, 'POST', '/v1/locks/revoked/revoke', { body: { graceMs: scaled(15_000) } });
    expect(await first.code()).toBe(76);
    expect(first.stderr).toContain('the lock is being taken back');
    expect(await second.code()).toBe(0);
    const last = BigInt((await readFile(mine, 'utf8')).trim().split('\n').at(-1) as string);
    expect(last).toBeLessThan(BigInt((await readFile(next, 'utf8')).trim()));
  });

  it('stops all that the command started when the lock was taken away at once', async () => {
    const run = withLock(['broken', 'sh', '-c', 'sleep 600 & echo "pid $!"; wait']);
    const pid = await pidOf(run);
    await pair.b.expect(200, 'POST', '/v1/locks/broken/revoke', { body: { graceMs: 0 } });
    expect(await run.code()).toBe(76);
    expect(run.stderr).toContain('the lock was lost');
    expect(runs(pid)).toBe(false);
  });

  it('ends a command whose lock is asked back, and gives it the time it needs', async () => {
    const command = 'trap "sleep 7; echo tidied; exit 0" TERM; echo "pid $$"; while :; do sleep 0.1; done';
    const run = withLock(['-k', '30', 'asked', 'sh', '-c', command]);
    await pidOf(run);
    await pair.b.expect(200, 'POST', '/v1/locks/asked/revoke', { body: {} });
    expect(await run.code()).toBe(76);
    expect(run.stdout).toContain('tidied');
    expect(await holders('asked')).toEqual([]);
  });

  it('kills a command that does not end when its lock is asked back, after as long as -k says', async () => {
    const run = withLock(['-k', '1', 'asked-in-vain', ...STUBBORN]);
    const pid = await pidOf(run);
    await pair.b.expect(200, 'POST', '/v1/locks/asked-in-vain/revoke', { body: {} });
    expect(await run.code()).toBe(76);
    expect(run.stderr).toContain('the lock was asked back');
    expect(runs(pid)).toBe(false);
    expect(await holders('asked-in-vain')).toEqual([]);
  });

  it('kills a command that was stopped after the longest hold and does not end', async () => {
    const run = withLock(['-m', '1', '-k', '1', 'longest', ...STUBBORN]);
    expect(await run.code()).toBe(76);
    expect(run.stderr).toContain('the lock was held for 1 seconds');
    expect(runs(await pidOf(run))).toBe(false);
    expect(await holders('longest')).toEqual([]);
  });

  it.each(['SIGINT', 'SIGTERM', 'SIGHUP'] as const)('passes %s on, and ends as the command does', async (signal) => {
    const traps = 'trap "echo INT; exit 3" INT; trap "echo TERM; exit 3" TERM; trap "echo HUP; exit 3" HUP';
    const name = `signal-${signal}`;
    const run = withLock([name, 'sh', '-c', `${traps}; echo "pid $$"; while :; do sleep 0.1; done`]);
    const pid = await pidOf(run);
    run.child.kill(signal);
    expect(await run.code()).toBe(3);
    // An env that cannot undo what shells do to commands in the background leaves TERM in place of INT.
    expect(run.stdout).toMatch(signal === 'SIGINT' ? /INT|TERM/ : new RegExp(signal.slice(3)));
    expect(runs(pid)).toBe(false);
    expect(await holders(name)).toEqual([]);
  });

  it('holds the lock until what the command started has ended too, after a signal', async () => {
    const child = 'trap "sleep 2; echo tidied; exit" TERM; echo "pid $$"; while :; do sleep 0.1; done';
    const run = withLock(['family', 'sh', '-c', `sh -c '${child}' & wait`]);
    const pid = await pidOf(run);
    run.child.kill('SIGTERM');
    await throughout('it is held as long as the child runs', async () => {
      const held = (await holders('family')).length === 1;
      return held || !runs(pid);
    });
    expect(await run.code()).toBe(143);
    expect(run.stdout).toContain('tidied');
    expect(await holders('family')).toEqual([]);
  });

  it('gives up its place when it is told to end while it waits', async () => {
    const lease = await pair.a.createLease({ ttlMs: 60_000 });
    await pair.a.hold('queued', lease);
    const run = withLock(['queued', 'echo', 'ran']);
    await pair.a.untilWaiting('queued', 1);
    run.child.kill('SIGTERM');
    expect(await run.ended).toEqual({ code: null, signal: 'SIGTERM' });
    expect(run.stdout).toBe('');
    // The replica hears that its client hung up a moment later.
    await eventually('the place is given up', async () => {
      return ((await pair.b.showLock('queued')) as { waiterCount: number }).waiterCount === 0;
    });
    await pair.a.endLease(lease);
  });

  it('is not held up by its own waiting when the command has ended', async () => {
    const slow = await mkdtemp(join(dir, 'slow-'));
    await writeFile(join(slow, 'sleep'), '#!/bin/sh\nexec /bin/sleep 600\n');
    await chmod(join(slow, 'sleep'), 0o755);
    const run = withLock(['pipe', 'sh', '-c', '/bin/sleep 1'], { settings: { PATH: `${slow}:${env['PATH']}` } });
    expect(await Promise.race([run.code(), throughout('', () => true, { forMs: LONG_MS })])).toBe(0);
  });

  it('shows its key to nobody who lists processes, also when it comes from a file', async () => {
    await using keys = await makeApiKeys({ cron: { default: ['use', 'read'] } });
    await using replica = await startReplica({ settings: { POSTERN_AUTH_FILE: keys.file } });
    const client = keys.as('cron', replica.url);
    const file = join(dir, 'api-key');
    await writeFile(file, `${client.key}\n`, { mode: 0o600 });
    for (const settings of [{ POSTERN_API_KEY: client.key }, { POSTERN_API_KEY_FILE: file }]) {
      const lease = await client.createLease({ ttlMs: 60_000 });
      await client.hold('secret', lease);
      const run = withLock(['secret', 'true'], { url: replica.url, settings });
      await client.untilWaiting('secret', 1);
      // Between two requests there is none.
      const lines = await eventually('it asks', async () => {
        const found = await commandLines();
        return found.some((line) => line.includes('curl')) && found;
      });
      expect(lines.filter((line) => line.includes(client.key) || line.includes(lease.leaseToken))).toEqual([]);
      await client.endLease(lease);
      expect(await run.code()).toBe(0);
    }
  });

  it('exits with 77, and not as if somebody else had the lock, when its key is wrong or may not take it', async () => {
    await using keys = await makeApiKeys({ reader: { default: ['read'] } });
    await using replica = await startReplica({ settings: { POSTERN_AUTH_FILE: keys.file } });
    for (const [key, outcome] of [
      ['', 'unauthenticated'],
      ['wrong', 'unauthenticated'],
      [keys.as('reader', replica.url).key, 'forbidden'],
    ] as const) {
      const run = withLock(['-E', '0', 'mine', 'echo', 'ran'], {
        url: replica.url,
        settings: { POSTERN_API_KEY: key },
      });
      expect(await run.code()).toBe(77);
      expect(run.stderr).toContain(outcome);
      expect(run.stdout).toBe('');
    }
  });

  it('takes an address that ends in a slash, and a command behind --', async () => {
    const run = withLock(['-w', '0', '--', 'slash', '--', 'echo', 'ran'], { url: `${pair.a.url}/ ${pair.b.url}//` });
    expect(await run.code()).toBe(0);
    expect(run.stdout).toBe('ran\n');
  });

  it('gives the lock back when the command has ended, whatever it has left in the background', async () => {
    const run = withLock(['daemon', 'sh', '-c', 'sleep 60 >/dev/null 2>&1 & echo "pid $!"']);
    expect(await run.code()).toBe(0);
    expect(await holders('daemon')).toEqual([]);
    const pid = await pidOf(run);
    expect(runs(pid)).toBe(true);
    process.kill(pid);
  });

  it('keeps its place in line while every replica is restarted in turn', async () => {
    const root = freshRoot();
    const settings = { POSTERN_DRAIN_PAUSE_MS: '0', POSTERN_DRAIN_MS: '1000' };
    await using one = await spawnReplica({ root, settings });
    await using two = await spawnReplica({ root, settings });
    const lease = await one.createLease({ ttlMs: 120_000 });
    await one.hold('rolling', lease);
    const run = withLock(['-w', '100', 'rolling', 'sh', '-c', 'echo "token $FENCING_TOKEN"'], {
      url: `${one.url} ${two.url}`,
    });
    await two.untilWaiting('rolling', 1);
    const behind = await one.createLease({ ttlMs: 120_000 });
    const body = { waitMs: 0, keepPlace: true };
    await one.expect(202, 'POST', '/v1/locks/rolling/acquire', { ...behind, body });
    for (const replica of [one, two, one]) {
      await replica.kill('SIGTERM');
      await replica.restart();
      await eventually('it waits on', async () => (await replica.showLock('rolling')).waiterCount === 2);
    }
    await two.endLease(lease);
    expect(await run.code()).toBe(0);
    const next = (await two.expect(200, 'POST', '/v1/locks/rolling/acquire', {
      ...behind,
      body: { waitMs: 10_000, keepPlace: true },
    })) as { fencingToken: number };
    expect(Number(/token (\d+)/.exec(run.stdout)?.[1])).toBeLessThan(next.fencingToken);
  });

  it.each(['killed', 'stopped'])('kills the command before the lease can end when its gateway is %s', async (how) => {
    const name = `away-${how}`;
    await using replica = await spawnReplica({ root: pair.root });
    const run = withLock([...SHORTEST_TTL, name, ...STUBBORN], { url: replica.url });
    const pid = await pidOf(run);
    if (how === 'killed') await replica.kill();
    else replica.pause();
    await eventually(
      'the lock is free',
      async () => {
        const free = (await holders(name)).length === 0;
        if (free && runs(pid)) throw new Error('the command runs without a lock');
        return free;
      },
      { withinMs: LONG_MS },
    );
    expect(runs(pid)).toBe(false);
    expect(await run.code()).toBe(76);
    expect(run.stderr).toContain('no heartbeat was answered for');
  });
});

async function commandLines(): Promise<string[]> {
  const processes = (await readdir('/proc')).filter((entry) => /^\d+$/.test(entry));
  const read = processes.map((id) => readFile(`/proc/${id}/cmdline`, 'utf8').catch(() => ''));
  return Promise.all(read);
}
