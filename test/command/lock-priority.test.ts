/** `postern lock --priority`: before those who can wait. */
import { expect, it } from 'vitest';
import { eventually } from '../support/eventually.js';
import { startReplica } from '../support/start-gateway.js';
import { LONG_MS, runCommand, type Run } from './run-command.js';

const JOB = ['--', 'sh', '-c', 'echo "pid $$"; exec sleep 600'];

it('takes the lock by priority', { timeout: LONG_MS }, async () => {
  await using replica = await startReplica();
  const lock = (words: readonly string[]): Run => runCommand(['lock', 'ranked', ...words], { url: replica.url });
  const untilWaiting = (priorities: readonly number[]): Promise<unknown> =>
    eventually(`${priorities.length} wait`, async () => {
      const { waiters } = (await replica.showLock('ranked')) as { waiters: { priority: number }[] };
      return waiters.map(({ priority }) => priority).join() === priorities.join();
    });
  const first = lock(['--priority', '0', ...JOB]);
  await first.job();
  const low = lock(['--priority', '1', '--', 'true']);
  await untilWaiting([1]);
  const high = lock(['--priority', '9', ...JOB]);
  await untilWaiting([9, 1]);
  first.child.kill('SIGTERM');
  await high.job();
  await untilWaiting([1]);
  high.child.kill('SIGTERM');
  expect(await low.code()).toBe(0);
  await Promise.all([first.ended, high.ended]);
});

it('refuses a priority of what has none, and one that is none', { timeout: LONG_MS }, async () => {
  const others = [['--permits', '1'], ['--shared'], ['--exclusive'], ['--names', 'a,b']];
  const commands = [...others.map((words) => ['--priority', '1', ...words]), ['--priority', '11']];
  for (const words of commands) expect(await runCommand(['lock', 'ranked', ...words, '--', 'true']).code()).toBe(64);
});
