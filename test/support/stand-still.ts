/**
 * Stops a process, and returns when it stands still: the signal alone leaves its threads a moment in which they still
 * answer.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { scaled } from './timing.js';

const WITHIN_MS = scaled(2_000);

/** @throws Error when it goes on running */
export function standStill(pid: number): void {
  process.kill(pid, 'SIGSTOP');
  const startedAt = performance.now();
  while (!readdirSync(`/proc/${pid}/task`).every((thread) => stateOf(pid, thread) === 'T')) {
    if (performance.now() - startedAt > WITHIN_MS) throw new Error(`process ${pid} was stopped and goes on running`);
  }
}

/** The third field, behind a name that may hold anything. */
function stateOf(pid: number, thread: string): string | undefined {
  try {
    return readFileSync(`/proc/${pid}/task/${thread}/stat`, 'utf8').split(') ').at(-1)?.[0];
  } catch {
    return 'T'; // it has ended since it was listed
  }
}
