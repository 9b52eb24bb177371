/**
 * Signals that come while a replica starts. As the first process of a container it gets none that it does not listen
 * to; a preloaded listener that does nothing has the same effect here.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { expect, test } from 'vitest';
import { sharedZooKeeper } from '../support/start-zookeeper.js';
import { timing } from '../support/timing.js';

const MAIN = new URL('../../dist/main.js', import.meta.url).pathname;
const DEAF = "process.on('SIGTERM', () => {}); process.stderr.write('deaf');";

test.each(['1', '2'])(
  'a replica with POSTERN_WORKERS=%s that is told to stop while it starts does not start',
  async (workers) => {
    const child = spawn(process.execPath, [MAIN], {
      env: {
        POSTERN_ZOOKEEPER: sharedZooKeeper(),
        POSTERN_PORT: '0',
        POSTERN_WORKERS: workers,
        NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(DEAF)}`,
      },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let said = '';
    child.stdout.on('data', (chunk: Buffer) => (said += chunk.toString()));
    const exit = once(child, 'exit');
    await once(child.stderr, 'data');
    const telling = setInterval(() => child.kill('SIGTERM'), timing.pollMs);
    const [code] = (await exit) as [number | null];
    clearInterval(telling);
    expect(code).toBe(0);
    expect(said).toBe('');
  },
);
