/** The other subcommands of `postern`, with a gateway that is well. */
import { execPath } from 'node:process';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { eventually, throughout } from '../support/eventually.js';
import { startPair, type Pair } from '../support/start-gateway.js';
import { LONG_MS, MAIN, runCommand, runs, type Options, type Run } from './run-command.js';

let pair: Pair;
beforeAll(async () => {
  pair = await startPair();
});
afterAll(() => pair[Symbol.asyncDispose]());

const postern = (words: readonly string[], options: Options = {}): Run =>
  runCommand(words, { url: pair.a.url, ...options });

/** Its standard output, when it has ended well. */
async function output(words: readonly string[], options: Options = {}): Promise<string> {
  const run = postern(words, options);
  expect(await run.code(), run.stderr).toBe(0);
  return run.stdout;
}

const json = async (words: readonly string[]): Promise<unknown> => JSON.parse(await output([...words, '--json']));

describe('postern lock, of other kinds', { timeout: LONG_MS }, () => {
  it('shares a read-write lock with readers, and excludes them as its writer', async () => {
    const job = ['--', 'sh', '-c', 'echo "pid $$"; exec sleep 600'];
    const reader = postern(['lock', 'shared', '--shared', ...job]);
    await reader.job();
    expect(await output(['lock', 'shared', '--shared', '--busy', 'fail', '--', 'echo', 'two'])).toBe('two\n');
    const writer = postern(['lock', 'shared', '--exclusive', '--busy', 'fail', '--', 'true']);
    expect(await writer.code()).toBe(75);
    reader.child.kill('SIGTERM');
    await reader.ended;
    expect(await output(['lock', 'shared', '--exclusive', '--busy', 'fail', '--', 'echo', 'one'])).toBe('one\n');
  });

  it('takes permits of a semaphore, and no more than there are', async () => {
    const job = ['--', 'sh', '-c', 'echo "pid $$"; exec sleep 600'];
    const first = postern(['lock', 'permits', '--permits', '2/3', ...job]);
    await first.job();
    expect(await postern(['lock', 'permits', '--permits', '2/3', '--busy', 'fail', '--', 'true']).code()).toBe(75);
    expect(await postern(['lock', 'permits', '--permits', '1/3', '--busy', 'fail', '--', 'true']).code()).toBe(0);
    expect(await postern(['lock', 'permits', '--permits', 'x', '--', 'true']).code()).toBe(64);
    expect(await postern(['lock', 'permits', '--permits', '1', '--shared', '--', 'true']).code()).toBe(64);
    first.child.kill('SIGTERM');
    await first.ended;
  });
});

describe('postern elect', { timeout: LONG_MS }, () => {
  it('runs the job while it leads, shows its value, and leaves the lead to the next', async () => {
    const job = ['--', 'sh', '-c', 'echo "pid $$"; exec sleep 600'];
    const first = postern(['elect', 'writer', '--value', 'ten', ...job]);
    await first.job();
    expect(await json(['show', 'election', 'writer'])).toMatchObject({ leader: { value: 'ten' } });
    const second = postern(['elect', 'writer', '--value', 'eleven', '--preference', '7', ...job]);
    const preferences = async (): Promise<unknown[]> => {
      const { candidates } = (await json(['show', 'election', 'writer'])) as { candidates: { preference: number }[] };
      return candidates.map(({ preference }) => preference);
    };
    await eventually('the second stands', async () => String(await preferences()) === '0,7', { withinMs: LONG_MS });
    await throughout('the second waits', () => second.stdout === '');
    first.child.kill('SIGTERM');
    await second.job();
    second.child.kill('SIGTERM');
    await Promise.all([first.ended, second.ended]);
  });

  it('stands again with --again when the lead was taken away, and not when it is told to end', async () => {
    const job = ['--', 'sh', '-c', 'echo "pid $$"; exec sleep 600'];
    const run = postern(['elect', 'again', '--again', '--ttl', '3s', ...job]);
    const before = await run.job();
    await pair.b.expect(200, 'POST', '/v1/elections/again/revoke', { body: { graceMs: 0 } });
    await eventually('it leads again', () => (run.stdout.match(/pid/g) ?? []).length === 2, { withinMs: LONG_MS });
    expect(runs(before)).toBe(false);
    run.child.kill('SIGTERM');
    expect(await run.ended).toEqual({ code: null, signal: 'SIGTERM' });
  });
});

describe('postern queue', { timeout: LONG_MS }, () => {
  it('pushes what it is given, and runs a job for each message', async () => {
    await output(['queue', 'push', 'mails', 'to: ada']);
    await output(['queue', 'push', 'mails', '--as', 'json'], { stdin: '{"to": "bob"}' });
    await output(['queue', 'push', 'mails', '--lines'], { stdin: 'one\ntwo\n' });
    expect(await json(['queue', 'peek', 'mails'])).toMatchObject([
      { body: 'to: ada' },
      { body: { to: 'bob' } },
      { body: 'one' },
      { body: 'two' },
    ]);
    const job = ['sh', '-c', 'echo "$(cat) $POSTERN_DELIVERIES"'];
    const worked = await output(['queue', 'work', 'mails', '--max', '4', '--', ...job]);
    expect(worked).toBe('to: ada 1\n{"to":"bob"} 1\none 1\ntwo 1\n');
    expect(await json(['show', 'queue', 'mails'])).toMatchObject({ depth: 0 });
  });

  it.each([
    ['queue push', ['queue', 'push', 'slowly'], 'one\ntwo\n'],
    ['queue push --lines', ['queue', 'push', 'slowly', '--lines'], 'two'],
    ['config put', ['config', 'put', 'slowly'], 'one\ntwo\n'],
  ])('reads all of standard input, however slowly it comes: %s', async (_, words, expected) => {
    const through = ['sh', '-c', '(echo one; sleep 1; echo two) | "$@"', 'sh'];
    await output(words, { through });
    if (words[0] === 'config') return expect(await output(['config', 'get', 'slowly'])).toBe(expected);
    const messages = (await json(['queue', 'peek', 'slowly'])) as { body: string }[];
    expect(messages.at(-1)?.body).toBe(expected);
  });

  it('says that a body is too large, when it has read it', async () => {
    const run = postern(['queue', 'push', 'large'], { stdin: 'x'.repeat(2_000_000) });
    expect(await run.code(), run.stderr).toBe(64);
    expect(run.stderr).toMatch(/large|bytes/);
  });

  it('adds nothing for a repeated messageId', async () => {
    const words = ['queue', 'push', 'once', 'x', '--message-id', 'the-only-one'];
    expect(await json(words)).toMatchObject({ duplicate: false });
    expect(await json(words)).toMatchObject({ duplicate: true });
  });

  it('gives a message back whose job fails, and delivers it again', async () => {
    await output(['queue', 'push', 'again', 'x']);
    const job = ['sh', '-c', 'echo "delivery $POSTERN_DELIVERIES"; [ "$POSTERN_DELIVERIES" -ge 2 ]'];
    const run = postern(['queue', 'work', 'again', '--max', '2', '--', ...job]);
    expect(await run.code()).toBe(0);
    expect(run.stdout).toBe('delivery 1\ndelivery 2\n');
    expect(run.stderr).toContain('is given back: exit code 1');
    expect(await json(['show', 'queue', 'again'])).toMatchObject({ depth: 0 });
  });

  it('prints what is pushed, each message once, and takes nothing', async () => {
    const pushed = (...bodies: string[]): Promise<string> =>
      output(['queue', 'push', 'tailed', '--lines'], { stdin: bodies.map((body) => `${body}\n`).join('') });
    await pushed(...Array.from({ length: 150 }, (_, index) => `before ${index}`)); // more than one page
    const run = postern(['queue', 'tail', 'tailed', '--interval', '100ms', '--all']);
    await run.untilSays(/before 149/);
    await output(['queue', 'push', 'tailed', 'due later', '--delay', '1h']);
    await run.untilSays(/due later/);
    await pushed('escaped \u001b]0;x\u0007\u202e', ...Array.from({ length: 150 }, (_, index) => `after ${index}`));
    await run.untilSays(/after 149/);
    // Delivered and given back, which is no push.
    const job = ['sh', '-c', 'exit 1'];
    await output(['queue', 'work', 'tailed', '--max', '1', '--retry-delay', '1h', '--', ...job]);
    await pushed('the last');
    await run.untilSays(/the last/);
    run.child.kill('SIGTERM');
    await run.ended;
    const lines = run.stdout.trim().split('\n');
    expect(lines).toHaveLength(150 + 1 + 151 + 1);
    expect(new Set(lines.map((line) => line.split('  ')[0])).size).toBe(lines.length);
    expect(run.stdout).toContain(String.raw`"escaped \u001b]0;x\u0007\u202e"`);
    expect(await json(['show', 'queue', 'tailed'])).toMatchObject({ depth: 301, delayed: 2 });
    expect(await postern(['queue', 'tail', 'never-there']).code()).toBe(1);
  });

  it('ends with its jobs when it is told to, and the message is delivered to another', async () => {
    await output(['queue', 'push', 'told', 'x']);
    const run = postern(['queue', 'work', 'told', '--', 'sh', '-c', 'echo "pid $$"; exec sleep 600']);
    const pid = await run.job();
    run.child.kill('SIGTERM');
    expect(await run.ended).toEqual({ code: null, signal: 'SIGTERM' });
    expect(runs(pid)).toBe(false);
    expect(await output(['queue', 'work', 'told', '--max', '1', '--', 'cat'])).toBe('x');
  });

  it('runs as many jobs at once as it is told, and moves messages to another queue', async () => {
    await output(['queue', 'push', 'many', '--lines'], { stdin: 'a\nb\nc\n' });
    const run = postern([
      'queue',
      'work',
      'many',
      '--concurrency',
      '2',
      '--retry-delay',
      '0',
      '--',
      'sh',
      '-c',
      'echo "pid $$"; exec sleep 600',
    ]);
    await eventually('two of them run', () => run.stdout.match(/pid/g)?.length === 2, { withinMs: LONG_MS });
    expect(await json(['queue', 'peek', 'many'])).toMatchObject([
      { state: 'claimed' },
      { state: 'claimed' },
      { state: 'available' },
    ]);
    run.child.kill('SIGTERM');
    await run.ended;
    await output(['queue', 'push', 'target', 'first']);
    expect(await json(['queue', 'redrive', 'many', 'target'])).toEqual({ redriven: 3 });
  });
});

describe('postern config', { timeout: LONG_MS }, () => {
  it('writes and prints values, under conditions', async () => {
    const { etag } = (await json(['config', 'put', 'app/db/host', 'db1'])) as { etag: string };
    expect(await output(['config', 'get', 'app/db/host'])).toBe('db1');
    await output(['config', 'put', 'app/db/host', 'db2', '--if-match', etag.replaceAll('"', '')]);
    for (const condition of [['--if-match', etag], ['--if-absent']]) {
      const refused = postern(['config', 'put', 'app/db/host', 'db3', ...condition]);
      expect(await refused.code()).toBe(1);
      expect(refused.stderr).toContain('version-mismatch');
    }
    expect(await json(['config', 'get', 'app/db/host'])).toMatchObject({ value: 'db2', exists: true });
    await output(['config', 'put', 'app/bytes'], { stdin: 'as they are\n' });
    expect(await output(['config', 'get', 'app/bytes'])).toBe('as they are\n');
  });

  it('writes only while the hold of the job stands that asks for it', async () => {
    const write = `exec ${execPath} ${MAIN} config put guarded "$0" --guard "lock=guard;token=$POSTERN_FENCING_TOKEN"`;
    await output(['lock', 'guard', '--', 'sh', '-c', write, 'held']);
    const late = postern(['lock', 'another', '--', 'sh', '-c', write, 'late']);
    expect(await late.code()).toBe(1);
    expect(late.stderr).toContain('fencing-token-stale');
    expect(await output(['config', 'get', 'guarded'])).toBe('held');
    for (const guard of ['lock=guard', 'lock=a/b;token=1', 'queue=guard;token=1', 'lock=guard;token=']) {
      const wrong = postern(['config', 'put', 'guarded', 'no', '--guard', guard]);
      expect(await wrong.code()).toBe(64);
      expect(wrong.stderr).toContain(`--guard is "${guard}"; it must be lock=NAME;token=FENCING_TOKEN`);
    }
  });

  it('says with exit code 1 that there is no such key, or waits for it', async () => {
    expect(await postern(['config', 'get', 'none']).code()).toBe(1);
    expect(await postern(['config', 'get', 'none', '--wait', '300ms']).code()).toBe(1);
    const waiting = postern(['config', 'get', 'later', '--wait', 'forever']);
    await output(['config', 'put', 'later', 'here']);
    expect(await waiting.code()).toBe(0);
    expect(waiting.stdout).toBe('here');
  });

  it('prints several keys at one moment, a line each', async () => {
    await output(['config', 'put', 'several/a', 'one']);
    await output(['config', 'put', 'several/b', '{"two": 2}', '--type', 'application/json']);
    const lines = (await output(['config', 'get', 'several/b', 'several/a'])).split('\n');
    expect(lines.slice(0, 2).map((line) => JSON.parse(line) as unknown)).toMatchObject([
      { key: 'several/b', value: { two: 2 }, exists: true },
      { key: 'several/a', value: 'one', exists: true },
    ]);
    const missing = postern(['config', 'get', 'several/a', 'several/none']);
    expect(await missing.code()).toBe(1);
    expect(missing.stdout).toContain('{"key":"several/none","exists":false}\n');
    expect(await postern(['config', 'get', 'several/a', 'several/b', '--wait', '1s']).code()).toBe(64);
  });

  it('exports keys, and imports what is not so already', async () => {
    const keys = Array.from({ length: 150 }, (_, i) => `moved/${String(i).padStart(3, '0')}`);
    const text = (value: number): object => ({
      contentType: 'text/plain',
      valueBase64: Buffer.from(`${value}`).toString('base64'),
    });
    const made = keys.map((key, i) => ({ put: key, ...(i % 2 === 0 ? { value: { i } } : text(i)) }));
    for (const operations of [made.slice(0, 100), made.slice(100)])
      await pair.a.expect(200, 'POST', '/v1/config', { body: { operations } });
    const large = Buffer.alloc(900_000, 7);
    for (const key of ['moved/large', 'moved/larger'])
      expect(
        (await pair.a.call('PUT', `/v1/config/${key}`, { body: large, headers: { 'content-type': 'x/y' } })).status,
      ).toBe(201);
    const exported = await output(['config', 'export', 'moved/']);
    expect(exported.split('\n')).toHaveLength(keys.length + 3);
    const there = ['config', 'import', '--namespace', 'copied'];
    expect(await output([...there, '--dry-run'], { stdin: exported })).toContain('would create moved/000\n');
    expect(await output(['config', 'export', 'moved/', '--namespace', 'copied'])).toBe('');
    const run = postern(there, { stdin: exported });
    expect(await run.code(), run.stderr).toBe(0);
    expect(run.stderr).toContain('152 keys were written, 0 were so already');
    const withoutEtags = (lines: string): string => lines.replace(/"etag":"[^"]*",/g, '');
    expect(withoutEtags(await output(['config', 'export', 'moved/', '--namespace', 'copied']))).toBe(
      withoutEtags(exported),
    );
    await output(['config', 'put', 'moved/001', 'other', '--namespace', 'copied']);
    await output(['config', 'put', 'moved/kept', 'stays', '--namespace', 'copied']);
    expect(await output(there, { stdin: exported })).toBe('replace moved/001\n');
    expect(await output(['config', 'get', 'moved/001', '--namespace', 'copied'])).toBe('1');
    expect(await output(['config', 'get', 'moved/kept', '--namespace', 'copied'])).toBe('stays');
    const held = postern([...there, '--guard', 'lock=none;token=5'], { stdin: '{"key":"moved/new","value":1}' });
    expect(await held.code()).toBe(1);
    expect(held.stderr).toContain('0 of 1 keys were written');
  });

  it('imports nothing of a file with a line that is wrong, and names the line', async () => {
    for (const [line, wrong] of [
      ['{', 'is not JSON'],
      ['[]', 'is not a JSON object'],
      ['{"value":1}', 'has no "key"'],
      ['{"key":"wrong/b"}', 'must have one of "value" and "valueBase64"'],
      ['{"key":"wrong/b","value":1,"valueBase64":""}', 'must have one of'],
      ['{"key":"wrong/b","valueBase64":"?"}', 'is not base64'],
      ['{"key":"wrong/b","value":1,"contentType":5}', 'a "contentType" that is not a text'],
      ['{"key":"wrong/b","value":12345678901234567890}', 'has an integer that would not be kept'],
      ['{"key":"wrong/a","value":2}', 'has the key "wrong/a" of line 1 again'],
    ] as const) {
      const run = postern(['config', 'import'], { stdin: `{"key":"wrong/a","value":1}\n\n${line}\n` });
      expect(await run.code(), line).toBe(64);
      expect(run.stderr, line).toContain('line 3 ');
      expect(run.stderr, line).toContain(wrong);
    }
    expect(await postern(['config', 'import', '/none/such']).code()).toBe(64);
    expect(await output(['config', 'export', 'wrong/'])).toBe('');
  });

  it('prints a value again after each change', async () => {
    await output(['config', 'put', 'watched', 'one']);
    const run = postern(['config', 'watch', 'watched']);
    await run.untilSays(/^one\n/);
    await output(['config', 'put', 'watched', 'two']);
    await run.untilSays(/^one\ntwo\n/);
    run.child.kill('SIGTERM');
    await run.ended;
  });
});

describe('postern ls, show and revoke', { timeout: LONG_MS }, () => {
  it('lists and shows what there is, and asks for it back', async () => {
    const lease = await pair.b.createLease({ ttlMs: 60_000, label: 'somebody' });
    await pair.b.hold('listed-lock', lease);
    const text = await output(['ls', 'locks', '--prefix', 'listed']);
    expect(text).toMatch(/^NAME +HOLDERS +WAITING\nlisted-lock +1 +0\n$/);
    expect(await json(['ls', 'locks', '--prefix', 'listed'])).toMatchObject([{ name: 'listed-lock', holderCount: 1 }]);
    expect(await json(['show', 'lock', 'listed-lock'])).toMatchObject({ holders: [{ label: 'somebody' }] });
    expect(await json(['show', 'lease', lease.leaseId])).toMatchObject({ label: 'somebody' });
    expect(await json(['revoke', 'lock', 'listed-lock', '--reason', 'noon'])).toMatchObject({ holds: [{}] });
    expect((await pair.b.heartbeat(lease)).body).toMatchObject({ revocations: [{ reason: 'noon' }] });
    await pair.b.endLease(lease);
    expect(await postern(['revoke', 'lock', 'listed-lock']).code()).toBe(1);
    expect(await postern(['ls', 'lokcs']).code()).toBe(64);
    expect(await postern(['show', 'queue', 'never-there']).code()).toBe(1);
  });

  it.each([
    'rwlocks',
    'semaphores',
    'elections',
    'queues',
    'groups',
    'barriers',
    'double-barriers',
    'config',
    'counters',
    'schedules',
  ])('lists %s', async (kind) => {
    expect(Array.isArray(await json(['ls', kind]))).toBe(true);
  });
});

describe('postern reserve', { timeout: LONG_MS }, () => {
  it('prints a token that extends and releases the reservation, and says who has it', async () => {
    const settings = {
      POSTERN_RESERVATION_TOKEN: (await output(['reserve', 'stage', '--for', '2h', '--owner', 'ann'])).trim(),
    };
    const waiting = postern(['reserve', 'stage', '--for', '1h', '--owner', 'bob', '--wait', '1ms']);
    expect(await waiting.code()).toBe(75);
    expect(waiting.stderr).toContain('reservation of "ann"');
    expect(await output(['ls', 'reservations'])).toMatch(/NAME +UNTIL[^]*stage +\S+ +ann/);
    expect(await output(['reservation', 'extend', 'stage', '--for', '3h'], { settings })).toMatch(/^reserved until /);
    expect(await output(['reservation', 'release', 'stage'], { settings })).toBe('');
    expect(await postern(['reservation', 'release', 'stage'], { settings }).code()).toBe(1);
    expect(await postern(['reservation', 'release', 'stage']).code()).toBe(64);
    expect(await postern(['reserve', 'stage']).code()).toBe(64);
  });

  it('leaves a reservation that an administrator breaks, at the version that was seen', async () => {
    await output(['reserve', 'stuck', '--for', '2h', '--owner', 'ann']);
    const [left] = (await json(['nodes', 'lock', 'stuck'])) as { node: string; version: number }[];
    expect(await output(['nodes', 'lock', 'stuck'])).toMatch(/ann, until \S+ +yes/);
    const words = ['break', 'lock', 'stuck', left?.node ?? '', '--reason', 'forgotten'];
    expect(await postern(words).code()).toBe(64);
    expect(await postern([...words, '--version', '77']).code()).toBe(1);
    expect(await output([...words, '--version', String(left?.version)])).toBe('');
    expect(await json(['nodes', 'lock', 'stuck'])).toEqual([]);
  });
});

describe('postern schedule', { timeout: LONG_MS }, () => {
  it('puts a schedule, which is listed and shown, and removes it', async () => {
    const words = ['schedule', 'put', 'nightly', '0 3 * * *', '{"job": "backup"}', '--as', 'json', '--queue', 'jobs'];
    const due = await output([...words, '--zone', 'Europe/Berlin', '--misfire', 'once']);
    expect(due).toMatch(/^20\d\d-\d\d-\d\dT0[12]:00:00\.000Z\n$/);
    const shown = { cron: '0 3 * * *', timeZone: 'Europe/Berlin', misfire: 'once', dueAt: due.trim() };
    expect(await json(['show', 'schedule', 'nightly'])).toMatchObject({ ...shown, to: { body: { job: 'backup' } } });
    expect(await json(['ls', 'schedules'])).toMatchObject([{ name: 'nightly', ...shown }]);
    expect(await output([...words, '--paused'])).toBe('paused\n');
    expect(await output(['schedule', 'rm', 'nightly'])).toBe('');
    expect(await json(['ls', 'schedules'])).toEqual([]);
  });

  it('says what is wrong', async () => {
    expect(await postern(['schedule', 'put', 'nightly', '0 3 * * *', 'backup']).code()).toBe(64);
    const wrong = postern(['schedule', 'put', 'nightly', '0 25 * * *', 'backup', '--queue', 'jobs']);
    expect(await wrong.code()).toBe(64);
    expect(wrong.stderr).toContain('cron is "0 25 * * *"');
  });
});
