/** `postern elect`: a job that runs while this candidate leads. */
import type { GivenFor } from '../arguments/command.js';
import { checkName } from '../arguments/name.js';
import type { elect as description } from '../commands/lock.js';
import { EXIT } from '../exit.js';
import { runUnderHold } from './hold-job.js';

export function elect(given: GivenFor<typeof description>): Promise<number> {
  const [name = ''] = given.arguments;
  checkName('NAME', name);
  const { value, preference, wait, again } = given.values;
  return runUnderHold({
    given,
    what: `the election "${name}"`,
    acquire: (postern, asking) =>
      postern.election(name).campaign({
        waitMs: wait ?? Infinity,
        ...(value !== undefined && { value }),
        // A gateway of an older release knows of none.
        ...(preference > 0 && { preference }),
        ...asking,
      }),
    busyCode: EXIT.notAcquired,
    again,
  });
}
