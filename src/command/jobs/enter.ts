/** `postern barrier enter`: jobs that begin together and end together. */
import type { GivenFor } from '../arguments/command.js';
import { checkName } from '../arguments/name.js';
import type { enter as description } from '../commands/barrier.js';
import { EXIT, UsageError } from '../exit.js';
import { runUnderHold } from './hold-job.js';

export function enter(given: GivenFor<typeof description>): Promise<number> {
  const [name = ''] = given.arguments;
  checkName('NAME', name);
  const { members: size, wait: waitMs = Infinity } = given.values;
  if (size === undefined) throw new UsageError('--members is missing: how many begin together');
  return runUnderHold({
    given,
    what: `the double barrier "${name}"`,
    acquire: (postern, { signal }) => postern.doubleBarrier(name).enter({ size, waitMs, signal }),
    busyCode: EXIT.notAcquired,
    endsTogether: true,
  });
}
