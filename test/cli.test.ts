/** The command line of the process. */
import { spawnSync } from 'node:child_process';
import { expect, it } from 'vitest';
import { MAIN } from './support/start-gateway.js';

it('refuses a command that there is not, and names those that there are', () => {
  const { status, stdout, stderr } = spawnSync(process.execPath, [MAIN, 'nonsense'], { encoding: 'utf8' });
  expect([status, stdout]).toEqual([64, '']);
  expect(stderr).toMatch(/^There is no command "nonsense"\./);
  expect(stderr).toContain('make-key --id ID');
  expect(stderr).not.toContain('POSTERN_ZOOKEEPER');
});
