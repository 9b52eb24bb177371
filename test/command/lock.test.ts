/** `postern lock` with a gateway that is well: what the job gets, how it ends, what is left behind. */
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { eventually, throughout } from '../support/eventually.js';
import { spawnReplica, startPair, startReplica, type Pair } from '../support/start-gateway.js';
import { freshRoot } from '../support/start-zookeeper.js';
import { scaled } from '../support/timing.js';
import { LONG_MS, MAIN, runCommand, runs, STUBBORN, type Options, type Run } from './run-command.js';

/** Of jobs that must not lose their lock before it is taken away. */
const TTL = ['--ttl', `${scaled(3_000)}ms`];

let pair: Pair;
let dir: string;
beforeAll(async () => {
  pair = await startPair();
  dir = await mkdtemp(join(tmpdir(), 'postern-command-'));
});
afterAll(async () => {
  await pair[Symbol.asyncDispose]();
  await rm(dir, { recursive: true, force: true });
});

const lock = (words: readonly string[], options: Options = {}): Run =>
  runCommand(['lock', ...words], { url: pair.a.url, ...options });

const holders = async (name: string): Promise<unknown[]> => (await pair.b.showLock(name)).holders as unknown[];

describe('postern lock', { timeout: LONG_MS * 2 }, () => {
  it('gives the job its input and the fencing token, and ends as it does', async () => {
    const job = ['sh', '-c', 'cat; echo "$1 $POSTERN_FENCING_TOKEN $POSTERN_HOLD_ID"; exit 7', 'sh', 'two words'];
    const run = lock(['plain', '--', ...job], { stdin: 'from standard input\n' });
    expect(await run.code()).toBe(7);
    expect(run.stdout).toMatch(/^from standard input\ntwo words \d+ \S+\n$/);
    expect(run.stderr).toBe('');
    expect(await holders('plain')).toEqual([]);
  });

  it('leaves the streams of the job as they are', async () => {
    // What a program of Node would do to a pipe that it shares: O_NONBLOCK, octal 4000.
    const run = lock([
      'streams',
      '--',
      'sh',
      '-c',
      'grep flags /proc/self/fdinfo/1 /proc/self/fdinfo/2 | sed "s/.*://"',
    ]);
    expect(await run.code()).toBe(0);
    const flags = run.stdout
      .trim()
      .split('\n')
      .map((line) => Number.parseInt(line.trim(), 8));
    expect(flags).toHaveLength(2);
    expect(flags.map((each) => each & 0o4000)).toEqual([0, 0]);
  });

  it.each([
    [127, 'no-such-program-anywhere'],
    [126, '/etc/passwd'],
  ])('exits with %i, as shells do, when the job cannot be started: %s', async (code, program) => {
    const run = lock(['unstarted', '--', program]);
    expect(await run.code()).toBe(code);
    expect(run.stderr).toContain(program);
    expect(await holders('unstarted')).toEqual([]);
  });

  it('does not make the streams non-blocking that it shares with its job', async () => {
    const O_NONBLOCK = 0o4000;
    const lease = await pair.a.createLease({ ttlMs: 60_000 });
    await pair.a.hold('shares', lease);
    const run = lock(['shares', '--', 'true']);
    await pair.a.untilWaiting('shares', 1);
    const flags = [0, 1, 2].map(async (fd) => {
      const info = await readFile(`/proc/${run.pid}/fdinfo/${fd}`, 'utf8');
      return Number.parseInt(/flags:\s+(\d+)/.exec(info)?.[1] ?? '', 8) & O_NONBLOCK;
    });
    expect(await Promise.all(flags)).toEqual([0, 0, 0]);
    await pair.a.endLease(lease);
    expect(await run.code()).toBe(0);
    // Whoever imports it has all of its streams opened.
    for (const file of ['main', 'run', 'guardian'])
      expect(await readFile(join(dirname(MAIN), `${file}.js`), 'utf8')).not.toMatch(/from "(node:)?process"/);
  });

  it('exits with 75 when somebody else has the lock, or with 0 to skip, and leaves no place in line', async () => {
    const lease = await pair.a.createLease({ ttlMs: 60_000 });
    await pair.a.hold('taken', lease);
    for (const [code, options] of [
      [75, ['--busy', 'fail']],
      [75, ['--wait', '0']],
      [0, ['--busy', 'skip']],
      [0, ['--busy', 'skip', '--wait', '300ms']],
      [75, ['--wait', '1s']],
    ] as const) {
      const run = lock(['taken', ...options, '--', 'echo', 'ran']);
      expect(await run.code()).toBe(code);
      expect(run.stdout).toBe('');
      expect(run.stderr).toContain('somebody else has the lock "taken"');
      expect(await pair.b.showLock('taken')).toMatchObject({ holderCount: 1, waiterCount: 0 });
    }
    await pair.a.endLease(lease);
  });

  it('leaves no lease when it exits, also when it has waited in vain', async () => {
    await using replica = await startReplica();
    const lease = await replica.createLease({ ttlMs: 60_000 });
    await replica.hold('taken', lease);
    for (const [code, words] of [
      [75, ['taken', '--busy', 'fail']],
      [75, ['taken', '--wait', '1s']],
      [0, ['free']],
    ] as const) {
      const run = lock([...words, '--ttl', '2m', '--', 'true'], { url: replica.url });
      expect(await run.code()).toBe(code);
      await eventually(`no lease is left after ${words.join(' ')}`, async () => {
        const { items } = (await replica.expect(200, 'GET', '/v1/leases')) as { items: { leaseId: string }[] };
        return items.every(({ leaseId }) => leaseId === lease.leaseId);
      });
    }
  });

  it('kills a job that does not end when its lock is revoked, before the next holder begins', async () => {
    const [mine, next] = [join(dir, 'mine'), join(dir, 'next')];
    const job = `trap "" TERM; while :; do date +%s%N >>${mine}; sleep 0.05; done`;
    const first = lock(['revoked', ...TTL, '--kill-after', '1s', '--', 'sh', '-c', job]);
    await eventually('the job runs', () => readFile(mine, 'utf8'), { withinMs: LONG_MS });
    const second = lock(['revoked', '--', 'sh', '-c', `date +%s%N >${next}`]);
    await pair.a.untilWaiting('revoked', 1);
    await pair.b.expect(200, 'POST', '/v1/locks/revoked/revoke', { body: { graceMs: scaled(15_000), reason: 'noon' } });
    expect(await first.code()).toBe(76);
    expect(first.stderr).toContain('the lock "revoked" is revoked (noon)');
    expect(await second.code()).toBe(0);
    const last = BigInt((await readFile(mine, 'utf8')).trim().split('\n').at(-1) as string);
    expect(last).toBeLessThan(BigInt((await readFile(next, 'utf8')).trim()));
  });

  it('stops all that the job started when the lock was taken away at once', async () => {
    const run = lock(['broken', ...TTL, '--', 'sh', '-c', 'sleep 600 & echo "pid $!"; wait']);
    const pid = await run.job();
    await pair.b.expect(200, 'POST', '/v1/locks/broken/revoke', { body: { graceMs: 0 } });
    expect(await run.code()).toBe(76);
    expect(run.stderr).toContain('the hold is gone');
    expect(runs(pid)).toBe(false);
  });

  it('ends a job whose lock is revoked, and gives it the time it needs', async () => {
    const job = 'trap "sleep 7; echo tidied; exit 0" TERM; echo "pid $$"; while :; do sleep 0.1; done';
    const run = lock(['asked', ...TTL, '--kill-after', '30s', '--', 'sh', '-c', job]);
    await run.job();
    await pair.b.expect(200, 'POST', '/v1/locks/asked/revoke', { body: {} });
    expect(await run.code()).toBe(76);
    expect(run.stdout).toContain('tidied');
    expect(await holders('asked')).toEqual([]);
  });

  it('kills a job that does not end when its lock is revoked, after as long as --kill-after says', async () => {
    const run = lock(['asked-in-vain', ...TTL, '--kill-after', '500ms', '--', ...STUBBORN]);
    const pid = await run.job();
    await pair.b.expect(200, 'POST', '/v1/locks/asked-in-vain/revoke', { body: {} });
    expect(await run.code()).toBe(76);
    expect(run.stderr).toContain('is revoked');
    expect(runs(pid)).toBe(false);
    expect(await holders('asked-in-vain')).toEqual([]);
  });

  it('kills a job that was stopped after the longest hold and does not end', async () => {
    const run = lock(['longest', '--max-hold', '1s', '--kill-after', '500ms', '--', ...STUBBORN]);
    expect(await run.code()).toBe(76);
    expect(run.stderr).toContain('it has run for 1s, the longest hold');
    expect(runs(await run.job())).toBe(false);
    expect(await holders('longest')).toEqual([]);
  });

  it.each(['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT', 'SIGUSR1'] as const)(
    'passes %s on, and ends as the job does',
    async (signal) => {
      const short = signal.slice(3);
      const name = `signal-${signal}`;
      const job = `trap "echo ${short}; exit 3" ${short}; echo "pid $$"; while :; do sleep 0.1; done`;
      const run = lock([name, '--', 'sh', '-c', job]);
      const pid = await run.job();
      run.child.kill(signal);
      expect(await run.code()).toBe(3);
      expect(run.stdout).toContain(short);
      expect(runs(pid)).toBe(false);
      expect(await holders(name)).toEqual([]);
    },
  );

  it('dies of the signal that its job has died of, as a loop of a shell expects', async () => {
    const run = lock(['interrupted', '--', 'sh', '-c', 'echo "pid $$"; exec sleep 600']);
    await run.job();
    run.child.kill('SIGINT');
    expect(await run.ended).toEqual({ code: null, signal: 'SIGINT' });
    const other = lock(['killed', '--', 'sh', '-c', 'kill -KILL $$']);
    expect(await other.code()).toBe(128 + 9);
  });

  it('holds the lock until what the job started has ended too, after a signal', async () => {
    const child = 'trap "sleep 2; echo tidied; exit" TERM; echo "pid $$"; while :; do sleep 0.1; done';
    const run = lock(['family', '--', 'sh', '-c', `sh -c '${child}' & wait`]);
    const pid = await run.job();
    run.child.kill('SIGTERM');
    await throughout('it is held as long as the child runs', async () => {
      const held = (await holders('family')).length === 1;
      return held || !runs(pid);
    });
    expect(await run.ended).toEqual({ code: null, signal: 'SIGTERM' });
    expect(run.stdout).toContain('tidied');
    expect(await holders('family')).toEqual([]);
  });

  it('is ended by `timeout`, with its job', async () => {
    const run = lock(['timed', '--', 'sh', '-c', 'echo "pid $$"; exec sleep 600'], { through: ['timeout', '2'] });
    const pid = await run.job();
    expect(await run.code()).toBe(124);
    expect(runs(pid)).toBe(false);
    expect(await holders('timed')).toEqual([]);
  });

  it('gives up its place when it is told to end while it waits', async () => {
    const lease = await pair.a.createLease({ ttlMs: 60_000 });
    await pair.a.hold('queued', lease);
    const run = lock(['queued', '--', 'echo', 'ran']);
    await pair.a.untilWaiting('queued', 1);
    run.child.kill('SIGTERM');
    expect(await run.ended).toEqual({ code: null, signal: 'SIGTERM' });
    expect(run.stdout).toBe('');
    await eventually('the place is given up', async () => (await pair.b.showLock('queued')).waiterCount === 0);
    await pair.a.endLease(lease);
  });

  it('gives the lock back when the job has ended, whatever it has left in the background', async () => {
    const run = lock(['daemon', '--', 'sh', '-c', 'sleep 60 >/dev/null 2>&1 & echo "pid $!"']);
    expect(await run.code()).toBe(0);
    expect(await holders('daemon')).toEqual([]);
    const pid = await run.job();
    expect(runs(pid)).toBe(true);
    process.kill(pid);
  });

  it('says with --json what happens, on standard error, and leaves standard output to the job', async () => {
    const run = lock(['told', '--json', '--max-hold', '500ms', '--', 'sh', '-c', 'echo out; exec sleep 600']);
    expect(await run.code()).toBe(76);
    expect(run.stdout).toBe('out\n');
    const events = run.stderr
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as Record<string, unknown>);
    expect(events).toMatchObject([
      { event: 'acquired', kind: 'lock', name: 'told', fencingToken: expect.any(Number) as number },
      { event: 'stopping' },
      { event: 'stopped', exitCode: 76 },
    ]);
  });

  it('keeps its place in line while every replica is restarted in turn', async () => {
    const root = freshRoot();
    const settings = { POSTERN_DRAIN_PAUSE_MS: '0', POSTERN_DRAIN_MS: '1000' };
    await using one = await spawnReplica({ root, settings });
    await using two = await spawnReplica({ root, settings });
    const lease = await one.createLease({ ttlMs: 120_000 });
    await one.hold('rolling', lease);
    const run = lock(['rolling', '--wait', '100s', '--', 'sh', '-c', 'echo "token $POSTERN_FENCING_TOKEN"'], {
      url: `${one.url}/ ${two.url}//`,
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
});
