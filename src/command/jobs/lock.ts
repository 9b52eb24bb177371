/** `postern lock`: a job under a lock. */
import type { GivenFor } from '../arguments/command.js';
import type { lock as description } from '../commands/lock.js';
import { checkName } from '../arguments/name.js';
import { EXIT } from '../exit.js';
import { runUnderHold } from './hold-job.js';

export function lock(given: GivenFor<typeof description>): Promise<number> {
  const [name = ''] = given.arguments;
  checkName('NAME', name);
  const { busy, wait } = given.values;
  const waitMs = wait ?? (busy === 'wait' ? WAIT_MS : 0);
  return runUnderHold({
    given,
    what: `the lock "${name}"`,
    acquire: (postern, asking) => postern.lock(name).acquire({ waitMs, ...asking }),
    busyCode: busy === 'skip' ? EXIT.ok : EXIT.notAcquired,
  });
}

const WAIT_MS = 60_000;
