/** A process group: the job and what it has started. */
import { readdirSync, readFileSync } from 'node:fs';

/** @returns whether there was anybody to send it to, and we may */
export function signalGroup(id: number, signal: NodeJS.Signals): boolean {
  try {
    return id > 1 && process.kill(-id, signal); // what 0 and -1 stand for is not ours
  } catch {
    return false;
  }
}

/** Whether a process of the group still runs. */
export function groupLives(id: number): boolean {
  try {
    process.kill(-id, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'; // there, but another user's
  }
  return someoneRuns(id) ?? true;
}

/**
 * Whether somebody in the group is more than a zombie. In a container whose first process collects no orphans, those
 * stay for good, and can be sent signals.
 * @returns undefined where there is no /proc
 */
function someoneRuns(id: number): boolean | undefined {
  let entries: string[];
  try {
    entries = readdirSync('/proc').filter((entry) => /^\d+$/.test(entry));
  } catch {
    return undefined;
  }
  if (entries.length === 0) return undefined;
  return entries.some((entry) => {
    try {
      const stat = readFileSync(`/proc/${entry}/stat`, 'latin1');
      // The name before it is in parentheses, and may have any character.
      const [state, , group] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
      return group === String(id) && state !== 'Z' && state !== 'X';
    } catch {
      return false; // gone meanwhile
    }
  });
}
