/** `--again` when no gateway answers for longer than the command tries to get an answer. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { eventually } from '../support/eventually.js';
import { startPair, type Pair } from '../support/start-gateway.js';
import { startTcpProxy } from '../support/zookeeper/tcp-proxy.js';
import { LONG_MS, runCommand } from './run-command.js';

const FLAGS = ['--again', '--ttl', '3s', '--timeout', '300ms', '--json'];
const JOB = ['--', 'sh', '-c', 'echo "pid $$"; exec sleep 600'];

let pair: Pair;
beforeAll(async () => {
  pair = await startPair();
});
afterAll(() => pair[Symbol.asyncDispose]());

describe('--again', { timeout: LONG_MS * 2 }, () => {
  it.each([
    ['elect', ['elect', 'long'], JOB, /"acquired"/g],
    ['group join with a job', ['group', 'join', 'long', '--member', 'one'], JOB, /"acquired"/g],
    ['group join', ['group', 'join', 'longer', '--member', 'one'], [], /"joined"/g],
  ])('asks until a gateway serves it again: %s', async (_what, words, job, pattern) => {
    await using proxy = await startTcpProxy({ port: Number(new URL(pair.a.url).port), framed: false });
    const run = runCommand([...words, ...FLAGS, ...job], { url: `http://${proxy.connectString}` });
    await run.untilSays(pattern);
    proxy.refuse();
    proxy.cut();
    await Promise.race([run.untilSays(/asking for .* again: .*; trying again/), run.ended]);
    expect(run.child.exitCode, run.stderr).toBeNull();
    proxy.heal();
    await eventually('it is served again', () => run.stderr.match(pattern)?.length === 2, { withinMs: LONG_MS });
    run.child.kill('SIGTERM');
    expect(await run.ended).toEqual({ code: null, signal: 'SIGTERM' });
  });
});
