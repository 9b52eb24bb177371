/** What operators do to queues with `postern queue`. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { throughout } from '../support/eventually.js';
import { startPair, type Pair } from '../support/start-gateway.js';
import { LONG_MS, runCommand, type Run } from './run-command.js';

let pair: Pair;
beforeAll(async () => {
  pair = await startPair();
});
afterAll(() => pair[Symbol.asyncDispose]());

const postern = (...words: readonly string[]): Run => runCommand(words, { url: pair.a.url });

/** Its standard output, when it has ended well. */
async function output(...words: readonly string[]): Promise<string> {
  const run = postern(...words);
  expect(await run.code(), run.stderr).toBe(0);
  return run.stdout;
}

describe('postern queue push', { timeout: LONG_MS }, () => {
  it('limits for how long a message can be delivered', async () => {
    await output('queue', 'push', 'limited', 'x', '--expires-in', '1h');
    const [message] = JSON.parse(await output('queue', 'peek', 'limited', '--json')) as { expiresAt: string }[];
    expect(Date.parse(message?.expiresAt ?? '')).toBeGreaterThan(Date.now() + 1_800_000);
  });
});

describe('postern queue rm', { timeout: LONG_MS }, () => {
  it('removes the message of that id, and says when there is none', async () => {
    const id = (await output('queue', 'push', 'mistaken', 'x')).trim();
    await output('queue', 'push', 'mistaken', 'y');
    expect(await output('queue', 'rm', 'mistaken', '--', id)).toBe(`${id} was removed\n`);
    expect(JSON.parse(await output('queue', 'peek', 'mistaken', '--json'))).toMatchObject([{ body: 'y' }]);
    const again = postern('queue', 'rm', 'mistaken', '--', id);
    expect(await again.code()).toBe(1);
    expect(again.stderr).toContain(`There is no message "${id}"`);
  });
});

describe('postern queue pause', { timeout: LONG_MS }, () => {
  it('lets consumers wait until the queue is resumed', async () => {
    await output('queue', 'push', 'paused', 'x');
    expect(await output('queue', 'pause', 'paused')).toBe('paused\n');
    const run = postern('queue', 'work', 'paused', '--max', '1', '--', 'cat');
    await throughout('it gets nothing', () => run.stdout === '');
    expect(JSON.parse(await output('show', 'queue', 'paused', '--json'))).toMatchObject({ depth: 1, paused: true });
    expect(await output('queue', 'resume', 'paused')).toBe('resumed\n');
    expect(await run.code(), run.stderr).toBe(0);
    expect(run.stdout).toBe('x');
  });

  it('says that there is no such queue', async () => {
    const run = postern('queue', 'pause', 'none');
    expect(await run.code()).toBe(1);
    expect(run.stderr).toContain('There is no queue "none"');
  });
});
