/** What `postern sidecar` says of wrong usage, of a key that may not, and of places that it cannot have. */
import { createServer, type AddressInfo } from 'node:net';
import { once } from 'node:events';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { makeApiKeys } from '../../support/http/api-keys.js';
import { startReplica, type Replica } from '../../support/start-gateway.js';
import { LONG_MS, runCommand } from '../run-command.js';

let replica: Replica;
beforeAll(async () => {
  replica = await startReplica();
});
afterAll(() => replica[Symbol.asyncDispose]());

const WELL = ['--health', 'none', '--listen', '127.0.0.1:0'];

describe('postern sidecar, wrongly used', { timeout: LONG_MS }, () => {
  it.each([
    ['no health', [], '--health is missing'],
    ['health that is no address', ['--health', '8080'], '--health is "8080"'],
    ['an interval that is none', ['--health', 'none', '--health-interval', '0'], '--health-interval is 0ms'],
    ['an election that no gateway takes', [...WELL, '--elect', 'a/b'], '--elect is "a/b"'],
    ['a group that no gateway takes', [...WELL, '--group', 'a,b/c'], '--group is "b/c"'],
    ['a group twice', [...WELL, '--group', 'a,a'], '--group names "a" twice'],
    ['a hook of another kind', [...WELL, '--elect', 'a', '--on-lost', 'GET=http://x'], '--on-lost is "GET=http://x"'],
    ['a hook that has nothing to follow', [...WELL, '--on-elected', 'exec=x'], '--on-elected needs --elect'],
    ['a preference for nothing', [...WELL, '--preference', '1'], '--preference needs --elect'],
    ['a value that nobody sees', [...WELL, '--value', 'x'], '--value needs --elect or --group'],
    ['a rendering without file', [...WELL, '--render', 'key'], '--render is "key"'],
    ['two keys in one file', [...WELL, '--render', 'a=/x,b=/x'], '--render names "/x" twice'],
    ['a mode that is none', [...WELL, '--render', 'a=/x', '--render-mode', '9'], '--render-mode is "9"'],
    ['a mode of nothing', [...WELL, '--render-mode', '640'], '--render-mode needs --render'],
    ['a file that cannot be written', [...WELL, '--elect', 'a', '--file', '/none/x'], '--file is "/none/x"'],
    ['an address that is open to others', ['--health', 'none', '--listen', '0.0.0.0:7071'], 'a loopback address'],
    ['an address without a port', ['--health', 'none', '--listen', '127.0.0.1'], '--listen is "127.0.0.1"'],
    ['a TTL that the gateway does not take', [...WELL, '--elect', 'a', '--ttl', '9h'], 'ttlMs'],
  ])('exits with 64 and names the flag: %s', async (_what, words, says) => {
    const run = runCommand(['sidecar', ...words], { url: replica.url });
    expect(await run.code(), run.stderr).toBe(64);
    expect(run.stderr).toContain(says);
  });

  it('exits with 64 when something else listens where it is told to', async () => {
    await using taken = createServer().listen(0, '127.0.0.1');
    await once(taken, 'listening');
    const listen = `127.0.0.1:${(taken.address() as AddressInfo).port}`;
    const run = runCommand(['sidecar', '--health', 'none', '--listen', listen], { url: replica.url });
    expect(await run.code()).toBe(64);
    expect(run.stderr).toContain(`--listen is "${listen}", where it cannot listen (EADDRINUSE)`);
  });

  it('exits with 77 when its key may not stand for election, and names the scope', async () => {
    await using keys = await makeApiKeys({ reader: { default: ['read'] } });
    await using guarded = await startReplica({ settings: { POSTERN_AUTH_FILE: keys.file } });
    const settings = { POSTERN_API_KEY: keys.as('reader', guarded.url).key };
    const run = runCommand(['sidecar', ...WELL, '--elect', 'a'], { url: guarded.url, settings });
    expect(await run.code()).toBe(77);
    expect(run.stderr).toContain('the scope "use"');
  });
});
