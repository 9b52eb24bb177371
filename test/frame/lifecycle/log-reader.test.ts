/** A gateway whose log is read no longer, or cannot be written, serves and stops all the same. */
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync } from 'node:fs';
import { resolve } from 'node:path';
import { env } from 'node:process';
import { expect, onTestFinished, test } from 'vitest';
import { eventually } from '../../support/eventually.js';
import { freePort } from '../../support/free-port.js';
import { freshRoot, sharedZooKeeper } from '../../support/start-zookeeper.js';
import { scaled } from '../../support/timing.js';

const TIMEOUT = { timeout: scaled(60_000) };
const STOPPED_MS = scaled(10_000);

interface Started {
  readonly child: ChildProcess;
  readonly url: string;
}

async function start(stdout: 'pipe' | number, settings: Record<string, string> = {}): Promise<Started> {
  const port = await freePort();
  const child = spawn(process.execPath, [resolve('dist/main.js')], {
    env: {
      ...{
        PATH: env['PATH'],
        POSTERN_ZOOKEEPER: sharedZooKeeper(),
        POSTERN_ROOT: freshRoot(),
        POSTERN_HOST: '127.0.0.1',
        POSTERN_PORT: String(port),
      },
      ...settings,
    },
    stdio: ['ignore', stdout, 'inherit'],
  });
  onTestFinished(() => void child.kill('SIGKILL'));
  const url = `http://127.0.0.1:${port}`;
  await eventually('it serves', async () => (await fetch(`${url}/readyz`, { headers: { connection: 'close' } })).ok);
  return { child, url };
}

async function stopped({ child }: Started): Promise<unknown[]> {
  const exited = once(child, 'exit', { signal: AbortSignal.timeout(STOPPED_MS) });
  child.kill('SIGTERM');
  return exited;
}

test.each(['1', '2'])('a reader that has gone, of %s workers', TIMEOUT, async (workers) => {
  const gateway = await start('pipe', { POSTERN_WORKERS: workers });
  // Nothing is left to be written, which would tell that the reader has gone, before the last lines.
  let read = '';
  gateway.child.stdout?.on('data', (chunk: Buffer) => void (read += chunk.toString()));
  const counted = 'fencing tokens are counted from this floor';
  await eventually('all has been read', () => read.split(counted).length === Number(workers) + 1);
  gateway.child.stdout?.destroy();
  expect(await stopped(gateway)).toEqual([0, null]);
});

test('a reader that stands still: the signal ends what waits for it', TIMEOUT, async () => {
  const gateway = await start('pipe', { POSTERN_LOG_LEVEL: 'debug' });
  for (let sent = 0; sent < 5_000; sent += 50)
    await Promise.all(Array.from({ length: 50 }, () => fetch(`${gateway.url}/healthz`)));
  expect(await stopped(gateway)).toEqual([null, 'SIGTERM']);
});

test('a disk that is full', TIMEOUT, async () => {
  const full = openSync('/dev/full', 'w');
  onTestFinished(() => closeSync(full));
  const gateway = await start(full);
  const answers = await Promise.all(Array.from({ length: 50 }, () => fetch(`${gateway.url}/readyz`)));
  expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]));
  expect(await stopped(gateway)).toEqual([0, null]);
});

test('the last lines are written, also behind a write that is under way', TIMEOUT, async () => {
  const script = `
    const { createLog } = await import(${JSON.stringify(resolve('dist/log.js'))});
    const { logger, flush } = createLog({ logLevel: 'info' });
    for (let i = 0; i < 15; i += 1) logger.info({ text: 'x'.repeat(250) }, 'served');
    for (let i = 0; i < 5; i += 1) logger.info('stopping');
    process.exit((await flush()) ? 0 : 1);`;
  const child = spawn(process.execPath, ['--input-type=module', '--eval', script], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let read = '';
  child.stdout.on('data', (chunk: Buffer) => void (read += chunk.toString()));
  expect(await once(child, 'close')).toEqual([0, null]);
  expect(read.split('\n').filter((line) => line !== '')).toHaveLength(20);
});
