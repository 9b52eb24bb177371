/** `postern slot`: a job that has members of a pool, and knows which. */
import { PosternError, type HeldMembers } from '../../client/index.js';
import type { GivenFor } from '../arguments/command.js';
import { checkName } from '../arguments/name.js';
import type { slot as description } from '../commands/slot.js';
import { EXIT, Failure, UsageError } from '../exit.js';
import { runUnderHold } from './hold-job.js';

const WAIT_MS = 60_000;
/** As the contract has it. */
const COUNT = /^([1-9]\d?|100)$/;

export function slot(given: GivenFor<typeof description>): Promise<number> {
  const [name = ''] = given.arguments;
  checkName('NAME', name);
  const { count = '1', labels, same, owner, wait = WAIT_MS } = given.values;
  if (!COUNT.test(count)) throw new UsageError(`--count is "${count}"; it must be 1 to 100`);
  if (owner !== undefined && !same) throw new UsageError('--owner is for --same');
  const wanted = {
    count: Number(count),
    ...(labels.length > 0 && { labels: [...labels] }),
    ...(same && { prefer: 'same' as const }),
    ...(owner !== undefined && { owner }),
  };
  return runUnderHold({
    given,
    what: `${count === '1' ? 'a member' : `${count} members`} of the pool "${name}"`,
    acquire: async (postern, { signal }) => {
      try {
        return await postern.pool(name).acquire({ waitMs: wait, signal, ...wanted });
      } catch (error) {
        if (error instanceof PosternError && error.problem?.code === 'not-found')
          throw new Failure(EXIT.refused, error.message);
        throw error;
      }
    },
    envOf: (held) => envOf(held as HeldMembers),
    busyCode: EXIT.notAcquired,
  });
}

function envOf({ members }: HeldMembers): Record<string, string> {
  return {
    POSTERN_SLOT: members.map(({ id }) => id).join(' '),
    POSTERN_SLOT_DATA: JSON.stringify(Object.fromEntries(members.map(({ id, data }) => [id, data ?? null]))),
  };
}
