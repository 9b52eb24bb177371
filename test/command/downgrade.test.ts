/** `postern lock --exclusive --downgrade`: a job that writes, and one that reads what it has written. */
import { randomUUID } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { eventually } from '../support/eventually.js';
import { startPair, type Pair } from '../support/start-gateway.js';
import { scaled } from '../support/timing.js';
import { LONG_MS, runCommand, type Run } from './run-command.js';

let pair: Pair;
let dir: string;
beforeAll(async () => {
  pair = await startPair();
  dir = await mkdtemp(join(tmpdir(), 'postern-downgrade-'));
});
afterAll(async () => {
  await pair[Symbol.asyncDispose]();
  await rm(dir, { recursive: true, force: true });
});

const lock = (name: string, words: readonly string[]): Run => runCommand(['lock', name, ...words], { url: pair.a.url });
const downgraded = (name: string, words: readonly string[]): Run =>
  lock(name, ['--exclusive', '--downgrade', ...words]);

/** A job that says its process id and what it was given, and goes on. */
const says = (word: string): string[] => [
  'sh',
  '-c',
  `echo "${word} $POSTERN_FENCING_TOKEN $POSTERN_HOLD_ID pid $$"; exec sleep 600`,
];

interface Shown {
  holders: { mode: string }[];
  waiterCount: number;
}
const show = async (name: string): Promise<Shown> => (await pair.b.expect(200, 'GET', `/v1/rwlocks/${name}`)) as Shown;

describe('postern lock --downgrade', { timeout: LONG_MS * 2 }, () => {
  it('runs the second job as a reader, with the same token; readers come in, and no writer', async () => {
    const write = ['sh', '-c', 'echo "writes $POSTERN_FENCING_TOKEN $POSTERN_HOLD_ID"'];
    const run = downgraded('book', ['--json', '--', ...write, '--', ...says('reads')]);
    await run.job();
    expect((await show('book')).holders).toMatchObject([{ mode: 'read' }]);
    const [, token, written, again, read] =
      /^writes (\d+) (\S+)\nreads (\d+) (\S+) pid/.exec(run.stdout) ?? expect.fail(run.stdout);
    expect(again).toBe(token);
    expect(read).not.toBe(written);
    expect(run.stderr).toMatch(/"acquired".*\n.*"downgraded"/);
    const reader = lock('book', ['--shared', '--busy', 'fail', '--', 'echo', 'beside it']);
    expect([await reader.code(), reader.stdout]).toEqual([0, 'beside it\n']);
    expect(await lock('book', ['--exclusive', '--busy', 'fail', '--', 'true']).code()).toBe(75);
    run.child.kill('SIGTERM');
    expect(await run.ended).toMatchObject({ signal: 'SIGTERM' });
    expect(await show('book')).toMatchObject({ holders: [], waiterCount: 0 });
  });

  it('ends as the second job does, and without it where the first one fails', async () => {
    expect(await downgraded('ends', ['--', 'true', '--', 'sh', '-c', 'exit 7']).code()).toBe(7);
    const failed = downgraded('ends', ['--', 'sh', '-c', 'exit 3', '--', 'echo', 'ran']);
    expect([await failed.code(), failed.stdout]).toEqual([3, '']);
    expect(await show('ends')).toMatchObject({ holders: [], waiterCount: 0 });
  });

  it('stops the second job when its hold is revoked', async () => {
    const run = downgraded('revoked', ['--', 'true', '--', ...says('reads')]);
    await run.job();
    await pair.b.expect(200, 'POST', '/v1/rwlocks/revoked/revoke', { body: { graceMs: 0, reason: 'noon' } });
    expect(await run.code()).toBe(76);
    expect(run.stderr).toContain('stopping the job');
  });

  it('counts the longest hold from the first job on', async () => {
    const longestMs = scaled(4_000);
    const first = ['sleep', String(longestMs / 2_000)];
    const run = downgraded('long', ['--max-hold', `${longestMs}ms`, '--', ...first, '--', ...says('reads')]);
    await run.job();
    const since = performance.now();
    expect(await run.code()).toBe(76);
    expect(performance.now() - since).toBeLessThan(0.8 * longestMs);
    expect(run.stderr).toContain('the longest hold');
  });

  it.each([
    ['is asked for', LONG_MS, 'it cannot be downgraded'],
    ['was broken', 0, 'was gone before it was downgraded'],
  ])('runs no second job when the hold %s before the command has heard of it', async (_, graceMs, why) => {
    const name = randomUUID();
    const done = join(dir, name);
    const job = ['sh', '-c', `echo "pid $$"; until test -e ${done}; do sleep 0.05; done`];
    // The first heartbeat comes long after the job has ended.
    const run = downgraded(name, ['--ttl', '3m', '--', ...job, '--', 'echo', 'ran']);
    await run.job();
    await pair.b.expect(200, 'POST', `/v1/rwlocks/${name}/revoke`, { body: { graceMs } });
    await writeFile(done, '');
    expect(await run.code()).toBe(76);
    expect(run.stderr).toContain(why);
    expect(run.stdout).not.toContain('ran');
    await eventually('nobody has it', async () => (await show(name)).holders.length === 0);
    expect((await show(name)).waiterCount).toBe(0);
  });
});
