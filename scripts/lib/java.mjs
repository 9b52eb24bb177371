/** Finds the Java that runs ZooKeeper. */
import { join } from 'node:path';
import { run } from './run.mjs';

const JAVA_ANSWERS_MS = 30_000;

/**
 * @returns {Promise<string>} the command to start Java with
 * @throws {Error} one sentence for the operator when there is none
 */
export async function checkJava() {
  const home = process.env['JAVA_HOME'];
  const candidates = home ? [join(home, 'bin', 'java'), 'java'] : ['java'];
  for (const java of candidates) {
    const { code } = await run(java, ['-version'], { timeoutMs: JAVA_ANSWERS_MS });
    if (code === 0) return java;
  }
  throw new Error(
    'Java is missing: ZooKeeper needs a Java runtime, version 11 or newer, on the PATH or in JAVA_HOME ' +
      '(Debian and Ubuntu: `apt-get install -y default-jre-headless`).',
  );
}
