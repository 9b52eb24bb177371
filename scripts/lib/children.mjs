/**
 * No child process outlives the process that started it.
 *
 * Two nets: on a normal exit, an `exit` listener kills what is left. When the parent itself is killed (SIGKILL, a
 * crashed test worker), no listener runs; then a watchdog of one `sh` sees its standard input end and kills the child.
 */
import { spawn } from 'node:child_process';

/** @type {Set<import('node:child_process').ChildProcess>} */
const living = new Set();

process.on('exit', () => {
  for (const child of living) child.kill('SIGKILL');
});

// Shell builtins where it matters: a missing program must not look like a dead parent. `kill -0` ends the loop early.
const WATCHDOG = `while read -r _; do :; done; kill -s "$2" "$1" 2>/dev/null; n=0
while [ $n -lt "$3" ] && kill -0 "$1" 2>/dev/null; do n=$((n+1)); sleep 1; done; kill -KILL "$1" 2>/dev/null`;

/**
 * @param {import('node:child_process').ChildProcess} child
 * @param {{ watchParent?: boolean, signal?: 'TERM' | 'KILL', graceSeconds?: number }} [options]
 *   `signal` is what the watchdog sends first; after `graceSeconds` it sends KILL
 */
export function endWithParent(child, { watchParent = true, signal = 'KILL', graceSeconds = 0 } = {}) {
  living.add(child);
  child.once('exit', () => living.delete(child));
  if (!watchParent || child.pid === undefined) return;
  const watchdog = spawn('/bin/sh', ['-c', WATCHDOG, 'watchdog', String(child.pid), signal, String(graceSeconds)], {
    stdio: ['pipe', 'ignore', 'ignore'],
    detached: true, // out of the terminal's process group: Ctrl-C must not end the watchdog before its ward
  });
  watchdog.on('error', () => {}); // no /bin/sh: the exit listener alone has to do
  watchdog.stdin?.on('error', () => {});
  watchdog.unref();
  /** @type {import('node:net').Socket} */ (watchdog.stdin).unref();
  // Killed at once when its ward has ended, so that it can never hit another process that got the same number.
  child.once('exit', () => watchdog.kill('SIGKILL'));
}
