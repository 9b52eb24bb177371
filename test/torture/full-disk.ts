/**
 * A disk that is full, for one process: the size of files that it may write is limited to a byte, so every write to the
 * log of transactions fails. That takes no privileges, and touches nobody else.
 */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';

const run = promisify(execFile);

/** Whether this machine has what it takes. */
export async function canFillDisk(): Promise<boolean> {
  return run('prlimit', ['--version']).then(
    () => true,
    () => false,
  );
}

/** @returns makes room again, if the process still is there to need it */
export async function fillDisk(pid: number): Promise<() => Promise<void>> {
  // The soft limit alone, which the same user may raise again.
  await run('prlimit', [`--pid=${pid}`, '--fsize=1:']);
  return () =>
    run('prlimit', [`--pid=${pid}`, '--fsize=unlimited:']).then(
      () => undefined,
      () => undefined, // it has ended, as ZooKeeper does when it cannot log
    );
}
