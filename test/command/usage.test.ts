/** What `postern` says of wrong usage, of a gateway that is not there, and of a key that may not; and its help. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { createServer as createHttpServer } from 'node:http';
import { createServer, type AddressInfo } from 'node:net';
import { execPath } from 'node:process';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ENTRIES } from '../../src/command/table.js';
import { LEASE_TOKEN_PREFIX } from '../../src/leases/lease-token.js';
import { makeApiKeys } from '../support/http/api-keys.js';
import { freePort } from '../support/free-port.js';
import { startReplica, type Replica } from '../support/start-gateway.js';
import { childrenOf, commandLineOf, LONG_MS, MAIN, runCommand } from './run-command.js';

let replica: Replica;
let dir: string;
beforeAll(async () => {
  replica = await startReplica();
  dir = await mkdtemp(join(tmpdir(), 'postern-command-'));
});
afterAll(async () => {
  await replica[Symbol.asyncDispose]();
  await rm(dir, { recursive: true, force: true });
});

describe('wrong usage', { timeout: LONG_MS }, () => {
  it.each([
    ['no subcommand', [], 'usage: postern SUBCOMMAND'],
    ['a subcommand that there is not', ['lokc', 'a'], '"lock" is near'],
    ['no name', ['lock', '--', 'true'], 'NAME is missing'],
    ['names and a name', ['lock', 'a', '--names', 'b,c', '--', 'true'], '--names has the names'],
    ['a name twice', ['lock', '--names', 'b,c,b', '--', 'true'], '--names has "b" twice'],
    ['a name in a list that no gateway takes', ['lock', '--names', 'b,c/d', '--', 'true'], '--names is "c/d"'],
    ['names of readers', ['lock', '--names', 'b,c', '--shared', '--', 'true'], '--names, --shared'],
    ['changes where the job prints', ['group', 'join', 'a', '--watch', '--', 'true'], '--watch prints'],
    ['a member that no gateway takes', ['group', 'join', 'a', '--member', 'x/y'], '--member is "x/y"'],
    ['too short an interval', ['queue', 'tail', 'a', '--interval', '5ms'], '--interval is 5ms; 100ms is the least'],
    ['frames too quick', ['top', '--interval', '5ms'], '--interval is 5ms; 500ms is the least'],
    ['no members', ['barrier', 'enter', 'a', '--', 'true'], '--members is missing'],
    ['a downgrade of no writer', ['lock', 'a', '--downgrade', '--', 'x', '--', 'y'], '--downgrade is for --exclusive'],
    ['one job to downgrade', ['lock', 'a', '--exclusive', '--downgrade', '--', 'x'], '--downgrade takes two commands'],
    ['no job to read', ['lock', 'a', '--exclusive', '--downgrade', '--', 'x', '--'], '--downgrade takes two commands'],
    ['no job', ['lock', 'a'], 'put it after --'],
    ['nothing behind --', ['lock', 'a', '--'], 'put it after --'],
    ['a job without --', ['lock', 'a', 'true'], 'the command to run stands behind --'],
    ['an option that there is not', ['lock', 'a', '--wiat', '5m', '--', 'true'], 'no option --wiat; --wait is near'],
    ['an option without its value', ['lock', 'a', '--wait', '--', 'true'], '--wait'],
    ['a switch with a value', ['lock', 'a', '--json=yes', '--', 'true'], '--json takes no value'],
    ['an option twice', ['lock', 'a', '--wait', '1s', '--wait', '2s', '--', 'true'], '--wait is given twice'],
    ['a duration without its unit', ['lock', 'a', '--wait', '5', '--', 'true'], '--wait is "5"; it must be a duration'],
    ['a duration that no timer takes', ['lock', 'a', '--max-hold', '30d', '--', 'true'], 'from 0ms to 24d'],
    ['a wait that no timer takes', ['config', 'get', 'a', '--wait', '30d'], '--wait is "30d"'],
    ['no TTL', ['lock', 'a', '--ttl', '0', '--', 'true'], '--ttl is "0"; it must be a duration'],
    ['less than a TTL', ['lock', 'a', '--ttl', '0.1ms', '--', 'true'], 'from 1ms to 24d'],
    ['a choice that there is not', ['lock', 'a', '--busy', 'no', '--', 'true'], '--busy is "no"; it must be one of'],
    ['a name that no gateway takes', ['lock', 'a/b', '--', 'true'], 'NAME is "a/b"'],
    ['a TTL that the gateway does not take', ['lock', 'a', '--ttl', '9h', '--', 'true'], 'ttlMs'],
    ['an address that is none', ['lock', 'a', '--url', 'nowhere', '--', 'true'], '--url is "nowhere"'],
    ['a namespace that is none', ['lock', 'a', '--namespace', 'x/y', '--', 'true'], '--namespace is "x/y"'],
    ['half a certificate', ['lock', 'a', '--cert-file', MAIN, '--', 'true'], '--key-file'],
  ])('exits with 64, says so and runs nothing: %s', async (_what, words, says) => {
    const run = runCommand(words, { url: replica.url });
    expect(await run.code()).toBe(64);
    expect(`${run.stderr}${words.length === 0 ? run.stdout : ''}`).toContain(says);
    if (words.length > 0) expect(run.stdout).toBe('');
  });

  it('names the variable that is wrong', async () => {
    const run = runCommand(['lock', 'a', '--', 'true'], { settings: { POSTERN_URL: 'ftp://x' } });
    expect(await run.code()).toBe(64);
    expect(run.stderr).toContain('POSTERN_URL is "ftp://x"');
  });

  it('says with --json in one line what is wrong', async () => {
    const run = runCommand(['lock', 'a', '--wait', 'long', '--json', '--', 'true']);
    expect(await run.code()).toBe(64);
    expect(JSON.parse(run.stderr)).toMatchObject({ event: 'failed', exitCode: 64 });
  });
});

describe('no gateway', { timeout: LONG_MS }, () => {
  it('exits with 69, and says which address was tried and why it failed', async () => {
    const url = `http://127.0.0.1:${await freePort()}`;
    const run = runCommand(['lock', 'nobody', '--timeout', '300ms', '--', 'echo', 'ran'], { url });
    expect(await run.code()).toBe(69);
    expect(run.stderr).toContain(url);
    expect(run.stderr).toContain('ECONNREFUSED');
    expect(run.stdout).toBe('');
  });

  it('exits with 69, and not as if there were no such key, when nobody answered while it waited', async () => {
    const url = `http://127.0.0.1:${await freePort()}`;
    const run = runCommand(['config', 'get', 'a', '--wait', '500ms', '--timeout', '1s'], { url });
    expect(await run.code(), run.stderr).toBe(69);
  });

  it('exits with 69 when something takes the request and never answers', async () => {
    await using silent = createServer((socket) => socket.resume()).listen(0, '127.0.0.1');
    await once(silent, 'listening');
    const url = `http://127.0.0.1:${(silent.address() as AddressInfo).port}`;
    const run = runCommand(['lock', 'nobody', '--timeout', '300ms', '--', 'echo', 'ran'], { url });
    expect(await run.code()).toBe(69);
    expect(run.stderr).toContain(`${url} did not answer: nothing within`);
    expect(run.stdout).toBe('');
  });

  it.each([
    ['lock', 'a', '--wait', '0', '--', 'echo', 'ran'],
    ['doctor', '--json'],
  ])('exits with 70 when a page of something else is answered with 200: %s', async (...words) => {
    await using portal = createHttpServer((request, response) => {
      request.resume();
      response.writeHead(200, { 'Content-Type': 'text/html' }).end('<html>Welcome to the hotel</html>');
    }).listen(0, '127.0.0.1');
    await once(portal, 'listening');
    const url = `http://127.0.0.1:${(portal.address() as AddressInfo).port}`;
    const run = runCommand(words, { url });
    expect(await run.code()).toBe(70);
    expect(`${run.stdout}${run.stderr}`).toContain('answered 200 with what no gateway answers');
    expect(run.stdout).not.toContain('ran\n');
  });

  it('exits with 69 when what answers there has no locks, and not as if somebody else had it', async () => {
    const run = runCommand(['lock', 'wrong', '--busy', 'skip', '--', 'echo', 'ran'], { url: `${replica.url}/gateway` });
    expect(await run.code()).toBe(69);
    expect(run.stdout).toBe('');
  });
});

it(
  'exits with 1 where there is no such pool: to try it again is no help',
  async () => {
    const run = runCommand(['slot', 'none', '--', 'echo', 'ran'], { url: replica.url });
    expect(await run.code()).toBe(1);
    expect(run.stderr).toContain('There is no pool "none"');
    expect(run.stdout).toBe('');
  },
  LONG_MS,
);

describe('credentials', { timeout: LONG_MS }, () => {
  it('exits with 77 when the file of the key cannot be read, and names the variable', async () => {
    const settings = { POSTERN_API_KEY_FILE: join(dir, 'none') };
    const run = runCommand(['lock', 'a', '--', 'true'], { url: replica.url, settings });
    expect(await run.code()).toBe(77);
    expect(run.stderr).toContain('POSTERN_API_KEY_FILE is');
    expect(run.stderr).toContain('cannot be read (ENOENT)');
  });

  it('exits with 77, also to skip, when the key is wrong or lacks the scope, which is named', async () => {
    await using keys = await makeApiKeys({ reader: { default: ['read'] }, cron: { default: ['use', 'read'] } });
    await using guarded = await startReplica({ settings: { POSTERN_AUTH_FILE: keys.file } });
    const secrets = { reader: keys.as('reader', guarded.url).key, cron: keys.as('cron', guarded.url).key };
    for (const [key, says] of [
      ['', 'credential'],
      ['wrong', 'credential'],
      [secrets.reader, 'the scope "use"'],
    ] as const) {
      const settings = { POSTERN_API_KEY: key };
      const run = runCommand(['lock', 'mine', '--busy', 'skip', '--', 'echo', 'ran'], { url: guarded.url, settings });
      expect(await run.code()).toBe(77);
      expect(run.stderr).toContain(says);
      expect(run.stdout).toBe('');
    }
    const file = join(dir, 'api-key');
    await writeFile(file, `${secrets.cron}\n`, { mode: 0o600 });
    for (const [words, settings] of [
      [['--api-key-file', file], undefined],
      [[], { POSTERN_API_KEY_FILE: file }],
      [[], { POSTERN_API_KEY: secrets.cron }],
    ] as const) {
      const run = runCommand(['lock', 'mine', ...words, '--', 'echo', 'ran'], {
        url: guarded.url,
        ...(settings && { settings }),
      });
      expect(await run.code()).toBe(0);
      expect(run.stdout).toBe('ran\n');
    }
  });
});

describe('secrets', { timeout: LONG_MS }, () => {
  it('shows its key and its lease token to nobody who lists processes, while it waits and while the job runs', async () => {
    await using keys = await makeApiKeys({ cron: { default: ['use', 'read'] } });
    await using guarded = await startReplica({ settings: { POSTERN_AUTH_FILE: keys.file } });
    const client = keys.as('cron', guarded.url);
    const lease = await client.createLease({ ttlMs: 60_000 });
    await client.hold('secret', lease);
    const run = runCommand(['lock', 'secret', '--json', '--', 'sh', '-c', 'echo "pid $$"; exec sleep 600'], {
      url: guarded.url,
      settings: { POSTERN_API_KEY: client.key },
    });
    const commandLines = (): string[] =>
      [run.pid, ...childrenOf(run.pid)].flatMap((pid) => [pid, ...childrenOf(pid)]).map(commandLineOf);
    await client.untilWaiting('secret', 1);
    const waiting = commandLines();
    await client.endLease(lease);
    await run.job();
    const running = commandLines();
    expect(waiting.join()).toContain('lock secret');
    expect(running.join()).toContain('sleep 600');
    for (const line of [...waiting, ...running]) {
      expect(line).not.toContain(client.key);
      expect(line).not.toContain(LEASE_TOKEN_PREFIX);
    }
    run.child.kill('SIGTERM');
    await run.ended;
  });
});

describe('help', { timeout: LONG_MS }, () => {
  it('lists every subcommand, and explains each', () => {
    const ask = (...words: string[]): string =>
      spawnSync(execPath, [MAIN, ...words], { encoding: 'utf8', env: {} }).stdout;
    const all = ask('--help');
    for (const { command } of ENTRIES) {
      expect(all).toContain(`  ${command.name} `);
      const own = ask(...command.name.split(' '), '--help');
      expect(own).toContain(`usage: postern ${command.name}`);
      for (const name of Object.keys(command.options)) expect(own).toContain(`--${name}`);
      expect(own).toContain('64');
    }
    expect(ask('--version')).toMatch(/^\d+\.\d+\.\d+\n$/);
  });
});
