/** `postern` with more than one thing or caller at a time: many locks, groups, barriers. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { eventually, throughout } from '../support/eventually.js';
import { startPair, type Pair } from '../support/start-gateway.js';
import { LONG_MS, runCommand, runs, type Options, type Run } from './run-command.js';

const SLEEPS = ['--', 'sh', '-c', 'echo "pid $$"; exec sleep 600'];

let pair: Pair;
beforeAll(async () => {
  pair = await startPair();
});
afterAll(() => pair[Symbol.asyncDispose]());

const postern = (words: readonly string[], options: Options = {}): Run =>
  runCommand(words, { url: pair.a.url, ...options });

const holderCount = async (name: string): Promise<unknown> => (await pair.b.showLock(name)).holderCount;

interface Group {
  members: { member: string; value: unknown }[];
}
const members = async (name: string): Promise<Group['members']> =>
  ((await pair.b.expect(200, 'GET', `/v1/groups/${name}`)) as Group).members;

describe('postern lock --names', { timeout: LONG_MS }, () => {
  it('holds all of them while the job runs, and tells it the token of each', async () => {
    const job = ['sh', '-c', 'echo "$POSTERN_FENCING_TOKENS $POSTERN_HOLD_IDS"; echo "pid $$"; exec sleep 600'];
    const run = postern(['lock', '--names', 'many-b,many-a', '--', ...job]);
    await run.job();
    const [tokens, ids] = (run.stdout.split('\n')[0] as string).split(' ').map((text) => JSON.parse(text));
    for (const name of ['many-a', 'many-b'])
      expect((await pair.b.showLock(name)).holders).toMatchObject([{ fencingToken: tokens[name], holdId: ids[name] }]);
    const other = postern(['lock', 'many-b', '--busy', 'fail', '--', 'true']);
    expect(await other.code()).toBe(75);
    run.child.kill('SIGTERM');
    await run.ended;
    expect(await Promise.all(['many-a', 'many-b'].map(holderCount))).toEqual([0, 0]);
  });

  it('takes none of them when one is not to be had', async () => {
    const lease = await pair.a.createLease({ ttlMs: 60_000 });
    await pair.a.hold('busy-b', lease);
    for (const wait of [[], ['--wait', '500ms']]) {
      const run = postern(['lock', '--names', 'busy-a,busy-b', '--busy', 'fail', ...wait, '--', 'echo', 'ran']);
      expect(await run.code()).toBe(75);
      expect(run.stdout).toBe('');
      expect(run.stderr).toContain('somebody else has the locks "busy-a", "busy-b"');
      expect(await holderCount('busy-a')).toBe(0);
    }
    await pair.a.endLease(lease);
  });

  it('waits for longer than one request may, and never in a circle', async () => {
    const lease = await pair.a.createLease({ ttlMs: 60_000 });
    await pair.a.hold('circle-a', lease);
    const job = ['--ttl', '2s', '--wait', '5m', '--', 'sh', '-c', 'echo ran'];
    const waiting = ['circle-a,circle-b', 'circle-b,circle-a'].map((names) =>
      postern(['lock', '--names', names, ...job]),
    );
    await throughout('they wait', () => waiting.every(({ stdout }) => stdout === ''), { forMs: 5_000 });
    await pair.a.endLease(lease);
    for (const run of waiting) {
      expect(await run.code(), run.stderr).toBe(0);
      expect(run.stdout).toBe('ran\n');
    }
  });

  it('stops the job when one of them is taken away', async () => {
    const run = postern(['lock', '--names', 'taken-a,taken-b', '--ttl', '3s', ...SLEEPS]);
    const pid = await run.job();
    await pair.b.expect(200, 'POST', '/v1/locks/taken-b/revoke', { body: { graceMs: 0 } });
    expect(await run.code()).toBe(76);
    expect(runs(pid)).toBe(false);
    expect(await holderCount('taken-a')).toBe(0);
  });
});

describe('postern group join', { timeout: LONG_MS }, () => {
  it('is a member while its job runs', async () => {
    const run = postern(['group', 'join', 'served', '--value', 'ten', '--member', 'me', ...SLEEPS]);
    await run.job();
    expect(await members('served')).toMatchObject([{ member: 'me', value: 'ten' }]);
    const same = postern(['group', 'join', 'served', '--member', 'me', '--timeout', '0', '--', 'echo', 'ran']);
    expect(await same.code()).toBe(1);
    expect(same.stdout).toBe('');
    run.child.kill('SIGTERM');
    await run.ended;
    expect(await members('served')).toEqual([]);
  });

  it('stays without a job until it is told to end, and prints who comes and goes', async () => {
    const run = postern(['group', 'join', 'watched', '--member', 'a', '--value', 'one\u001b[2J', '--watch']);
    await run.untilSays(/^\+ a /m);
    const lease = await pair.b.createLease({ ttlMs: 60_000 });
    for (const value of ['first', 'second']) {
      await pair.b.expect([200, 201], 'PUT', '/v1/groups/watched/members/b', { ...lease, body: { value } });
      await run.untilSays(new RegExp(`^[+=] b "${value}"`, 'm'));
    }
    await pair.b.endLease(lease);
    await run.untilSays(/^- b/m);
    run.child.kill('SIGTERM');
    expect(await run.ended).toEqual({ code: null, signal: 'SIGTERM' });
    expect(run.stdout).toBe('+ a "one\\u001b[2J"\n+ b "first"\n= b "second"\n- b\n');
    expect(await members('watched')).toEqual([]);
  });

  it('says with --json who comes and goes, and exits with 76 when its lease is gone', async () => {
    const run = postern(['group', 'join', 'gone', '--ttl', '3s', '--watch', '--json']);
    await run.untilSays(/"joined","message"/);
    await run.untilSays(/"event":"joined","member"/);
    const { items } = (await pair.b.expect(200, 'GET', '/v1/leases')) as { items: { leaseId: string }[] };
    for (const { leaseId } of items) await pair.b.expect(204, 'DELETE', `/v1/leases/${leaseId}`);
    expect(await run.code()).toBe(76);
    const lines = run.stdout.trim().split('\n');
    expect(JSON.parse(lines[0] as string)).toMatchObject({ event: 'joined', value: null, memberCount: 1 });
  });

  it('exits with 76 when it stood still for longer than its TTL', async () => {
    const run = postern(['group', 'join', 'stopped', '--ttl', '2s', '--json']);
    await run.untilSays(/"joined"/);
    run.child.kill('SIGSTOP');
    await eventually('it is gone', async () => (await members('stopped')).length === 0, { withinMs: LONG_MS });
    run.child.kill('SIGCONT');
    expect(await run.code()).toBe(76);
  });
});

describe('postern group post and messages', { timeout: LONG_MS }, () => {
  it('posts once under one request id, and prints what comes, from now on or from the oldest', async () => {
    expect(await postern(['group', 'post', 'told', 'early']).code()).toBe(0);
    const listening = postern(['group', 'messages', 'told', '--max', '2', '--json']);
    const all = postern(['group', 'messages', 'told', '--after', '0', '--max', '3']);
    await all.untilSays(/early/);
    await eventually('both wait', async () => (await pair.a.metric('postern_http_requests_in_flight')) === 2);
    const numbers: string[] = [];
    for (let i = 0; i < 2; i += 1) {
      const run = postern(['group', 'post', 'told', '--as', 'json', '--request-id', 'r1'], {
        stdin: '{"say":"a\\u001b[2J"}',
      });
      expect(await run.code()).toBe(0);
      numbers.push(run.stdout.trim());
    }
    expect(numbers[0]).toBe(numbers[1]);
    expect(await postern(['group', 'post', 'told', 'last']).code()).toBe(0);
    expect(await listening.code()).toBe(0);
    expect(
      listening.stdout
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line) as unknown),
    ).toMatchObject([
      { number: Number(numbers[0]), body: { say: 'a\u001b[2J' }, missed: false },
      { body: 'last', missed: false },
    ]);
    expect(await all.code()).toBe(0);
    expect(all.stdout.split('\n').map((line) => line.replace(/^\d+ {2}/, ''))).toEqual([
      '"early"',
      '{"say":"a\\u001b[2J"}',
      '"last"',
      '',
    ]);
  });

  it('says what is wrong with the body, and posts nothing', async () => {
    const run = postern(['group', 'post', 'wrong', '--as', 'json', '{']);
    expect(await run.code()).toBe(64);
    expect(run.stderr).toMatch(/the body is no JSON/);
    expect(await pair.a.expect(200, 'GET', '/v1/groups/wrong/messages?after=0')).toMatchObject({ messages: [] });
  });
});

describe('postern barrier', { timeout: LONG_MS }, () => {
  it('waits until the barrier is lifted, or exits with 75', async () => {
    expect(await postern(['barrier', 'wait', 'migration']).code()).toBe(0);
    expect(await postern(['barrier', 'raise', 'migration']).code()).toBe(0);
    const late = postern(['barrier', 'wait', 'migration', '--wait', '300ms']);
    expect(await late.code()).toBe(75);
    expect(late.stderr).toContain('"migration" was not lifted within 300ms');
    const waiting = postern(['barrier', 'wait', 'migration', '--json']);
    await eventually('it waits', async () => {
      const { items } = (await pair.a.expect(200, 'GET', '/v1/contention')) as { items: { name: string }[] };
      return items.some((item) => item.name === 'migration' && (item as unknown as { waiting: number }).waiting === 1);
    });
    expect(await postern(['barrier', 'lift', 'migration']).code()).toBe(0);
    expect(await waiting.code()).toBe(0);
    expect(JSON.parse(waiting.stdout)).toEqual({ name: 'migration', raised: false });
  });

  it('begins jobs together and ends together', async () => {
    const enter = (job: string, more: readonly string[] = []): Run =>
      postern(['barrier', 'enter', 'round', '--members', '2', ...more, '--', 'sh', '-c', job]);
    const alone = enter('echo ran', ['--wait', '300ms']);
    expect(await alone.code()).toBe(75);
    expect(alone.stdout).toBe('');
    const quick = enter('echo "began"; exit 3');
    await throughout('it waits for the other', () => quick.stdout === '', { forMs: 1_000 });
    const slow = enter('echo "pid $$"; exec sleep 600');
    await slow.job();
    await quick.untilSays(/began/);
    await throughout('it waits for the other to leave', () => quick.child.exitCode === null, { forMs: 1_000 });
    slow.child.kill('SIGTERM');
    expect(await quick.code()).toBe(3);
    expect(await slow.ended).toEqual({ code: null, signal: 'SIGTERM' });
  });
});
