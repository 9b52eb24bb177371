/**
 * `npm test`: everything that the tests need, then the tests. Arguments go to vitest: `npm test -- test/recipes`.
 */
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { build, checkNode, installPackages, ROOT } from './lib/install.mjs';
import { checkJava, provideZooKeeper } from './lib/zookeeper.mjs';

const log = (/** @type {string} */ line) => console.log(line);

try {
  checkNode();
  await checkJava();
  await installPackages(log);
  await provideZooKeeper({
    version: process.env['POSTERN_ZOOKEEPER_VERSION'],
    cacheDir: join(ROOT, '.cache'),
    archive: process.env['POSTERN_ZOOKEEPER_ARCHIVE'],
    log,
  });
  // Some tests start dist/main.js as a process of its own, to kill it.
  await build(log);
} catch (error) {
  console.error(/** @type {Error} */ (error).message);
  process.exit(1);
}

const vitest = join(ROOT, 'node_modules', 'vitest', 'vitest.mjs');
const child = spawn(process.execPath, [vitest, 'run', ...process.argv.slice(2)], { cwd: ROOT, stdio: 'inherit' });
// Ctrl-C reaches vitest through the terminal; it stops its servers and ends, and then so does this.
process.on('SIGINT', () => {});
process.on('SIGTERM', () => child.kill('SIGTERM'));
child.on('exit', (code, signal) => process.exit(code ?? (signal === 'SIGINT' ? 130 : 1)));
