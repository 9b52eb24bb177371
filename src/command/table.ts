/** All subcommands, in the order of the help. */
import { entry, type Entry } from './arguments/command.js';
import { lock } from './commands/lock.js';

export const ENTRIES: readonly Entry[] = [entry(lock, async () => (await import('./jobs/lock.js')).lock)];
