/** `postern top`: what it counts, and what it does to a terminal (a real one, made by `script`). */
import { spawn } from 'node:child_process';
import { env, execPath } from 'node:process';
import { describe, expect, it } from 'vitest';
import { makeApiKeys } from '../support/http/api-keys.js';
import { startReplica, type Replica } from '../support/start-gateway.js';
import { scaled } from '../support/timing.js';
import { LONG_MS, MAIN, Run, runCommand } from './run-command.js';

interface Frame {
  totals: Record<string, { count: number; complete: boolean }>;
  waiting: number;
  herdFactor: { sinceStart: number | null };
  items: { kind: string; name: string; waiting: number; holders?: number; depth?: number }[];
}

async function once(replica: Replica, ...words: string[]): Promise<Frame> {
  const run = runCommand(['top', '--once', '--json', ...words], { url: replica.url });
  expect(await run.code(), run.stderr).toBe(0);
  return JSON.parse(run.stdout) as Frame;
}

/** In a terminal of so many columns. */
function inTerminal(url: string, columns: number, words = ''): Run {
  const line = `stty rows 12 cols ${columns}; '${execPath}' '${MAIN}' top --interval 500ms ${words}; echo "ended $?"; stty -a`;
  const child = spawn('script', ['-qec', line, '/dev/null'], {
    env: { PATH: env['PATH'], POSTERN_URL: url, TERM: 'xterm', SHELL: '/bin/sh' },
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  return new Run(child);
}

describe('postern top', { timeout: LONG_MS }, () => {
  it('shows first what most wait for, how deep queues are, and the herd factor', async () => {
    await using replica = await startReplica();
    const [holder, waiter] = [
      await replica.createLease({ ttlMs: 60_000 }),
      await replica.createLease({ ttlMs: 60_000 }),
    ];
    for (const name of ['a-free', 'b-busy']) await replica.hold(name, holder);
    const body = { waitMs: 0, keepPlace: true };
    await replica.expect(202, 'POST', '/v1/locks/b-busy/acquire', { ...waiter, body });
    const messages = { messages: [{ body: 1 }, { body: 2 }] };
    await replica.expect(201, 'POST', '/v1/queues/mails/messages', { body: messages });
    const frame = await once(replica);
    expect(frame.totals).toMatchObject({
      locks: { count: 2, complete: true },
      queues: { count: 1, complete: true },
      elections: { count: 0, complete: true },
    });
    expect(frame.waiting).toBe(1);
    expect(frame.items).toMatchObject([
      { kind: 'lock', name: 'b-busy', waiting: 1, holders: 1 },
      { kind: 'lock', name: 'a-free', waiting: 0, holders: 1 },
      { kind: 'queue', name: 'mails', depth: 2 },
    ]);
    expect((await once(replica, '--sort', 'depth', '--limit', '1')).items).toMatchObject([{ name: 'mails' }]);
    await Promise.all([holder, waiter].map((lease) => replica.endLease(lease)));
  });

  it('says what is wrong before it changes the screen', async () => {
    await using keys = await makeApiKeys({ user: { default: ['use'] } });
    await using replica = await startReplica({ settings: { POSTERN_AUTH_FILE: keys.file } });
    const settings = { POSTERN_API_KEY: keys.as('user', replica.url).key };
    const run = runCommand(['top'], { url: replica.url, settings });
    expect(await run.code()).toBe(77);
    expect(run.stderr).toContain('the scope "read"');
    const nobody = runCommand(['top', '--timeout', '300ms'], { url: 'http://127.0.0.1:1' });
    expect(await nobody.code()).toBe(69);
    expect(nobody.stderr).toContain('http://127.0.0.1:1');
  });

  it('prints frame after frame where there is no terminal', async () => {
    await using replica = await startReplica();
    const run = runCommand(['top', '--interval', '500ms'], { url: replica.url });
    await run.untilSays(/(postern top [^]*herd factor[^]*){2}/);
    run.child.kill('SIGTERM');
    expect(await run.ended).toEqual({ code: null, signal: 'SIGTERM' });
    expect(run.stdout).not.toContain('\u001b');
  });

  it.each(['q', '\u0003'])('gives a narrow terminal back as it was: %j', async (key) => {
    await using replica = await startReplica();
    const run = inTerminal(replica.url, 20);
    await run.untilSays(/\u001b\[\?1049h[^]*KIND/);
    run.child.stdin?.write(key);
    await run.untilSays(/\u001b\[\?1049l[^]*ended \d+[^]*[^-]echo/);
    expect(run.stdout).toContain('ended 0');
    const [, shown = ''] = run.stdout.split('\u001b[?1049h');
    const lines = (shown.split('\u001b[?7h')[0] as string).replace(/\u001b\[[?\d]*[A-Za-z]/g, '\n').split(/[\r\n]+/);
    expect(Math.max(...lines.map((line) => line.length))).toBeLessThanOrEqual(20);
    run.child.stdin?.end();
    run.child.kill();
    await run.ended;
  });

  it('counts ten thousand locks, and shows few of them', { timeout: scaled(240_000) }, async () => {
    await using replica = await startReplica();
    const leases = await Promise.all(Array.from({ length: 10 }, () => replica.createLease({ ttlMs: 40_000 })));
    const beating = setInterval(() => void Promise.all(leases.map((lease) => replica.heartbeat(lease))), 5_000);
    try {
      for (const [index, lease] of leases.entries())
        for (let hundred = 0; hundred < 10; hundred += 1) {
          const names = Array.from({ length: 100 }, (_, each) => `many-${index}-${hundred}-${each}`);
          await replica.expect(200, 'POST', '/v1/locks/acquire', { ...lease, body: { names } });
        }
      const start = performance.now();
      const frame = await once(replica);
      console.log(`top --once with 10 000 locks: ${Math.round(performance.now() - start)} ms`);
      expect(frame.totals['locks']).toEqual({ count: 10_000, complete: true });
      expect(frame.items).toHaveLength(20);
    } finally {
      clearInterval(beating);
    }
    await Promise.all(leases.map((lease) => replica.endLease(lease)));
  });
});
