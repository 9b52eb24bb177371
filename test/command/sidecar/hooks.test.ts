/** Hooks and files under conditions that nobody wishes for: what they promise stands. */
import { once } from 'node:events';
import { mkdir, mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeAll, afterAll, beforeEach, describe, expect, it } from 'vitest';
import { eventually } from '../../support/eventually.js';
import { startPair, type Pair } from '../../support/start-gateway.js';
import { LONG_MS, runCommand } from '../run-command.js';
import { startPod } from './pod.js';

let pair: Pair;
beforeAll(async () => {
  pair = await startPair();
});
afterAll(() => pair[Symbol.asyncDispose]());

let dir: string;
let written: string;
let hooks: string[];
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'postern-hooks-'));
  written = join(dir, 'written');
  const script = join(dir, 'hook.sh');
  const line = '$POSTERN_EVENT|$POSTERN_REASON|$POSTERN_API_KEY|$POSTERN_NAMESPACE';
  await writeFile(script, `#!/bin/sh\nprintf '%s\\n' "${line}" >> ${written}\n`, { mode: 0o755 });
  hooks = ['--on-elected', `exec=${script}`, '--on-lost', `exec=${script}`];
});
afterEach(() => rm(dir, { recursive: true, force: true }));

const lines = async (): Promise<string[]> => (await readFile(written, 'utf8').catch(() => '')).split('\n').slice(0, -1);

describe('a hook', { timeout: LONG_MS }, () => {
  it('runs whatever reason the lead was taken back for, without the API key', async () => {
    const settings = { POSTERN_API_KEY: 'secret', POSTERN_NAMESPACE: 'default' };
    await using pod = await startPod(pair.a.url, ['--elect', 'reason', ...hooks], settings);
    await eventually('it leads', () => pod.leads(), { withinMs: LONG_MS });
    const reason = 'a\0b\nc\u202e';
    await pair.b.expect(200, 'POST', '/v1/elections/reason/revoke', { body: { reason } });
    await eventually('it has run twice, and for the next lead', async () => (await lines()).length >= 3, {
      withinMs: LONG_MS,
    });
    const [elected, lost, again] = await lines();
    expect([elected, again]).toEqual(['elected|||default', 'elected|||default']);
    expect(lost).toMatch(/^lost\|.*a\\u\{0\}b\\u\{a\}c\\u\{202e\}.*\|\|default$/);
  });

  it('runs though nothing can be written to the log', async () => {
    const words = ['sidecar', '--health', 'none', '--listen', '127.0.0.1:0', '--elect', 'full-disk', ...hooks];
    const through = ['sh', '-c', 'exec "$@" 2> /dev/full', 'sh'];
    const run = runCommand(words, { url: pair.a.url, through });
    await eventually('it is elected', async () => (await lines()).length === 1, { withinMs: LONG_MS });
    run.child.kill('SIGTERM');
    expect(await run.code()).toBe(0);
    expect((await lines()).map((line) => line.split('|')[0])).toEqual(['elected', 'lost']);
  });

  it('is not waited for any more after a second signal, whichever that is', async () => {
    const script = join(dir, 'long.sh');
    await writeFile(script, `#!/bin/sh\necho $$ > ${written}\nexec sleep 600\n`, { mode: 0o755 });
    const long = ['--on-lost', `exec=${script}`, '--hook-timeout', '1h'];
    await using pod = await startPod(pair.a.url, ['--elect', 'signals', ...long]);
    await eventually('it leads', () => pod.leads(), { withinMs: LONG_MS });
    pod.sidecar.child.kill('SIGTERM');
    const pid = Number(await eventually('the hook runs', async () => (await lines())[0], { withinMs: LONG_MS }));
    try {
      const exit = once(pod.sidecar.child, 'exit'); // its output is held by the hook
      pod.sidecar.child.kill('SIGINT');
      expect(await exit).toEqual([null, 'SIGINT']);
    } finally {
      process.kill(pid, 'SIGKILL');
    }
  });
});

describe('a file that is rendered', { timeout: LONG_MS }, () => {
  it('is written once it can be, and for whom it is said to be', async () => {
    const headers = { 'content-type': 'text/plain; charset=utf-8' };
    await pair.a.expect(201, 'PUT', '/v1/config/late', { body: 'hunter2', headers });
    const [late, other] = [join(dir, 'volume', 'late'), join(dir, 'other')];
    await using pod = await startPod(pair.a.url, ['--health', 'none', '--render', `late=${late},late=${other}`]);
    await pod.sidecar.untilSays(/volume\/late cannot be written: ENOENT/);
    await mkdir(join(dir, 'volume'));
    await eventually('it is written', async () => (await readFile(late, 'utf8').catch(() => '')) === 'hunter2', {
      withinMs: LONG_MS,
    });
    expect((await stat(late)).mode & 0o777).toBe(0o600);
    await eventually('it is ready', async () => (await pod.ask('/readyz')).status === 200);
    const shared = join(dir, 'shared');
    const words = ['--health', 'none', '--render', `late=${shared}`, '--render-mode', '0640'];
    await using sharing = await startPod(pair.a.url, words);
    await eventually('it is ready', async () => (await sharing.ask('/readyz')).status === 200, { withinMs: LONG_MS });
    expect((await stat(shared)).mode & 0o777).toBe(0o640);
  });
});
