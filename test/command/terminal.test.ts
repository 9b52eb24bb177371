/** What others have chosen does nothing to the terminal in which it is printed, and keeps its place in a line. */
import { spawn } from 'node:child_process';
import { env, execPath } from 'node:process';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startReplica, type Replica } from '../support/start-gateway.js';
import { LONG_MS, MAIN, Run, runCommand } from './run-command.js';

/** The title of a window, colours, backwards, one letter less, a line of its own. */
const EVIL = 'a\u001b]0;title\u0007\u009b31mred\u202egnp.exe\u007f\u2028b\u{e0041}\nc';
const AS_JSON = String.raw`a\u001b]0;title\u0007\u009b31mred\u202egnp.exe\u007f\u2028b\udb40\udc41\nc`;
const IN_LINE = String.raw`a\u{1b}]0;title\u{7}\u{9b}31mred\u{202e}gnp.exe\u{7f}\u{2028}b\u{e0041}\u{a}c`;
const IN_LINES = IN_LINE.replace(String.raw`\u{a}`, '\n');
const OBEYED = /(?!\n)[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u;

let replica: Replica;
beforeAll(async () => {
  replica = await startReplica();
  const lease = await replica.createLease({ ttlMs: 300_000, label: EVIL });
  await replica.hold('evil', lease);
  await replica.expect([200, 201], 'PUT', '/v1/groups/evil/members/m', { ...lease, body: { value: EVIL } });
  await replica.expect(201, 'POST', '/v1/queues/evil/messages', { body: { messages: [{ body: EVIL }] } });
  const headers = { 'content-type': 'text/plain; charset=utf-8' };
  await replica.expect(201, 'PUT', '/v1/config/evil', { body: EVIL, headers });
});
afterAll(() => replica[Symbol.asyncDispose]());

const postern = (...words: string[]): Run => runCommand(words, { url: replica.url });

async function output(...words: string[]): Promise<string> {
  const run = postern(...words);
  expect(await run.code(), run.stderr).toBe(0);
  return run.stdout;
}

/** What a command prints that does not end by itself, once it has printed a line. */
async function firstLines(...words: string[]): Promise<string> {
  const run = postern(...words);
  await run.untilSays(/\n/);
  run.child.kill('SIGTERM');
  await run.ended;
  return run.stdout;
}

describe('letters that a terminal would obey', { timeout: LONG_MS }, () => {
  it.each([
    'ls leases',
    'show lock evil',
    'show group evil',
    'queue peek evil',
    'ls leases --json',
    'show lock evil --json',
    'queue peek evil --json',
    'config get evil --json',
    'top --once',
  ])('are written out: postern %s', async (words) => {
    const printed = await output(...words.split(' '));
    expect(printed).not.toMatch(OBEYED);
    if (words.endsWith('--json')) expect(JSON.stringify(JSON.parse(printed))).toContain(JSON.stringify(EVIL));
  });

  it('are written out in JSON as JSON has them', async () => {
    expect(await output('show', 'group', 'evil')).toContain(`"value": "${AS_JSON}"`);
    expect(await firstLines('queue', 'tail', 'evil', '--all')).toMatch(/^\S+ {2}"[^\n]+"\n$/);
    expect(await firstLines('queue', 'tail', 'evil', '--all')).toContain(`"${AS_JSON}"`);
    expect(await firstLines('group', 'join', 'evil', '--watch')).toContain(`"${AS_JSON}"`);
  });

  it('leave a value that is watched its line', async () => {
    expect(await firstLines('config', 'watch', 'evil')).toBe(`${IN_LINE}\n`);
  });

  it('are given as they are to a program that asks for the value, and not to a terminal', async () => {
    expect(await output('config', 'get', 'evil')).toBe(EVIL);
    const child = spawn('script', ['-qec', `stty -onlcr; '${execPath}' '${MAIN}' config get evil`, '/dev/null'], {
      env: { PATH: env['PATH'], POSTERN_URL: replica.url, TERM: 'xterm', SHELL: '/bin/sh' },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const run = new Run(child);
    expect(await run.code()).toBe(0);
    expect(run.stdout).toBe(IN_LINES);
  });
});
