/** `postern once`: of all machines that ask, one runs the job. */
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { groupLives } from '../../src/command/process/group.js';
import { eventually } from '../support/eventually.js';
import { standStill } from '../support/stand-still.js';
import { startPair, type Pair } from '../support/start-gateway.js';
import { scaled } from '../support/timing.js';
import { LONG_MS, runCommand, STUBBORN, type Options, type Run } from './run-command.js';

let pair: Pair;
beforeAll(async () => {
  pair = await startPair();
});
afterAll(() => pair[Symbol.asyncDispose]());

const once = (words: readonly string[], options: Options = {}): Run =>
  runCommand(['once', ...words], { url: pair.a.url, ...options });

/** Of who holds until it dies. */
const TTL = ['--ttl', `${scaled(3_000)}ms`];

interface Shown {
  occurrence: string;
  state: string;
  attempt: number;
  note?: string;
}

async function shown(name: string): Promise<Shown[]> {
  return ((await pair.b.expect(200, 'GET', `/v1/runs/${name}`)) as { occurrences: Shown[] }).occurrences;
}

const job = (script: string): string[] => ['--', 'sh', '-c', script];

describe('postern once', { timeout: LONG_MS * 2 }, () => {
  it('runs the job on one of five machines that ask at about the same time, and the others end with 0', async () => {
    const name = randomUUID();
    const script = 'echo "ran $POSTERN_ATTEMPT $POSTERN_OCCURRENCE $POSTERN_FENCING_TOKEN"';
    const machines = [pair.a, pair.b, pair.a, pair.b, pair.a];
    const asked = machines.map(({ url }, i) => once([name, '--label', `host-${i}`, ...job(script)], { url }));
    expect(await Promise.all(asked.map((run) => run.code()))).toEqual([0, 0, 0, 0, 0]);
    const ran = asked.filter(({ stdout }) => stdout !== '');
    expect(ran).toHaveLength(1);
    const [{ occurrence }] = (await shown(name)) as [Shown];
    expect(ran[0]?.stdout).toMatch(/^ran 1 \S+Z \d+\n$/);
    expect(ran[0]?.stdout).toContain(occurrence);
    expect(ran[0]?.stderr).toBe('');
    for (const { stderr, stdout } of asked)
      if (stdout === '') expect(stderr).toMatch(/^postern: the occurrence \S+ of .* (was|is being) done by host-\d/);
    const late = once([name, '--quiet', ...job('echo ran')]);
    expect([await late.code(), late.stdout, late.stderr]).toEqual([0, '', '']);
    expect(await shown(name)).toMatchObject([{ state: 'done', attempt: 1 }]);
  });

  it('is for another occurrence later than --within, or by another name', async () => {
    const name = randomUUID();
    const run = async (...words: string[]): Promise<string> => {
      const one = once([name, '--quiet', ...words, ...job('echo "$POSTERN_OCCURRENCE"')]);
      expect(await one.code(), one.stderr).toBe(0);
      return one.stdout;
    };
    expect(await run('--occurrence', '2026-01')).toBe('2026-01\n');
    expect(await run('--occurrence', '2026-01')).toBe('');
    expect(await run('--occurrence', '2026-02', '--note', 'two lines')).toBe('2026-02\n');
    expect(await run('--within', '1h')).toBe('');
    expect(await run('--within', '1ms')).toMatch(/Z\n$/);
    expect((await shown(name))[1]).toMatchObject({ occurrence: '2026-02', note: 'two lines' });
  });

  it('ends as the job does that fails, which is tried again until the attempts are used up: 74', async () => {
    const name = randomUUID();
    const words = [name, '--occurrence', 'monday', '--max-attempts', '2'];
    for (const code of [7, 8]) expect(await once([...words, ...job(`exit ${code}`)]).code()).toBe(code);
    expect(await shown(name)).toMatchObject([{ state: 'failed', attempt: 2, note: 'exit code 8' }]);
    const late = once([...words, '--quiet', ...job('echo ran')]);
    expect([await late.code(), late.stdout]).toEqual([74, '']);
    expect(late.stderr).toContain('all 2 attempts are used up');
    expect(late.stderr).toContain('exit code 8');
  });

  it('exits as shells do for a job that cannot be started, and with 76 for one that runs too long', async () => {
    const name = randomUUID();
    expect(await once([name, '--', 'no-such-program-anywhere']).code()).toBe(127);
    const long = once([name, '--max-hold', '500ms', ...job('sleep 600')]);
    expect(await long.code()).toBe(76);
    expect(await shown(name)).toMatchObject([{ state: 'open', attempt: 2, note: expect.stringContaining('longest') }]);
  });

  it('passes signals on, dies of them, and notes that', async () => {
    const name = randomUUID();
    const run = once([name, ...job('echo "pid $$"; exec sleep 600')]);
    await run.job();
    run.child.kill('SIGTERM');
    expect(await run.ended).toEqual({ code: null, signal: 'SIGTERM' });
    expect(await shown(name)).toMatchObject([{ state: 'open', note: 'ended by SIGTERM' }]);
  });

  it('waits while another machine runs it with --wait, and takes over where that dies', async () => {
    const name = randomUUID();
    const first = once([name, ...TTL, '--label', 'first', '--', ...STUBBORN]);
    const group = await first.job();
    const vain = once([name, '--wait', '300ms', ...job('echo ran')]);
    expect([await vain.code(), vain.stdout]).toEqual([75, '']);
    expect(vain.stderr).toContain('is being done by first');
    const heir = once([name, '--wait', 'forever', '--within', '1ms', ...job('echo "attempt $POSTERN_ATTEMPT"')], {
      url: pair.b.url,
    });
    await eventually('it waits', () => pair.b.gateway.observed() > 0, { withinMs: LONG_MS });
    first.child.kill('SIGKILL');
    await heir.untilSays(/attempt 2/);
    expect(groupLives(group), 'the job runs although another machine has the next attempt').toBe(false);
    expect(await heir.code()).toBe(0);
    expect(await shown(name)).toMatchObject([{ state: 'done', attempt: 2 }]);
  });

  it('kills the job before the next attempt when the command stands still', async () => {
    const name = randomUUID();
    const first = once([name, ...TTL, '--', ...STUBBORN]);
    const group = await first.job();
    const lease = await pair.b.createLease({ ttlMs: 60_000 });
    const body = { occurrence: (await shown(name))[0]?.occurrence, waitMs: 30_000 };
    const next = pair.b
      .expect(200, 'POST', `/v1/runs/${name}/start`, { ...lease, body })
      .then((told: { started: boolean }) => ({ told, survived: groupLives(group) }));
    await eventually('it waits', () => pair.b.gateway.observed() > 0);
    standStill(first.pid);
    expect(await next).toMatchObject({ told: { started: true, attempt: 2 }, survived: false });
    first.child.kill('SIGCONT');
    expect(await first.code()).toBe(76);
    await pair.b.endLease(lease);
  });

  it('is listed and shown', async () => {
    const name = randomUUID();
    await once([name, ...job('true')]).code();
    const output = async (...words: string[]): Promise<string> => {
      const run = runCommand(words, { url: pair.a.url });
      expect(await run.code(), run.stderr).toBe(0);
      return run.stdout;
    };
    expect(await output('ls', 'runs', '--prefix', name)).toBe(`NAME\n${name}\n`);
    expect(JSON.parse(await output('show', 'run', name))).toMatchObject({ name, occurrences: [{ state: 'done' }] });
  });

  it.each([
    [['--occurrence', 'a b'], '--occurrence is "a b"'],
    [['--occurrence', 'x'.repeat(129)], '1 to 128'],
    [['--occurrence', 'o', '--within', '1m'], 'exclude each other'],
    [['--within', '0'], '--within'],
    [['--max-attempts', '11'], '--max-attempts is "11"'],
    [['--note', 'x'.repeat(201)], '--note has 201 characters; 200'],
  ])('refuses %j as wrong usage, and says why', async (words, says) => {
    const run = once(['usage', ...words, ...job('echo ran')]);
    expect([await run.code(), run.stdout]).toEqual([64, '']);
    expect(run.stderr).toContain(says);
  });
});
