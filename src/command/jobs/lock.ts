/** `postern lock`: a job under a lock, one side of a read-write lock, or permits of a semaphore. */
import type { Postern } from '../../client/index.js';
import type { GivenFor } from '../arguments/command.js';
import { checkName } from '../arguments/name.js';
import type { lock as description } from '../commands/lock.js';
import { EXIT, UsageError } from '../exit.js';
import { runUnderHold, type HoldJob } from './hold-job.js';

type GivenLock = GivenFor<typeof description>;

const WAIT_MS = 60_000;
const PERMITS = /^([1-9]\d{0,5})(?:\/([1-9]\d{0,5}))?$/;

export function lock(given: GivenLock): Promise<number> {
  const [name = ''] = given.arguments;
  checkName('NAME', name);
  const { busy, wait } = given.values;
  const waitMs = wait ?? (busy === 'wait' ? WAIT_MS : 0);
  const { what, of } = thing(name, given.values);
  return runUnderHold({
    given,
    what,
    acquire: (postern, asking) => of(postern).acquire({ waitMs, ...asking }),
    busyCode: busy === 'skip' ? EXIT.ok : EXIT.notAcquired,
  });
}

interface Thing {
  what: HoldJob['what'];
  of: (postern: Postern) => Pick<ReturnType<Postern['lock']>, 'acquire'>;
}

function thing(name: string, { shared, exclusive, permits }: GivenLock['values']): Thing {
  if ([shared, exclusive, permits !== undefined].filter(Boolean).length > 1)
    throw new UsageError('--shared, --exclusive and --permits exclude each other');
  if (shared) return { what: `the read-write lock "${name}" as a reader`, of: (postern) => postern.rwlock(name).read };
  if (exclusive)
    return { what: `the read-write lock "${name}" as its writer`, of: (postern) => postern.rwlock(name).write };
  if (permits === undefined) return { what: `the lock "${name}"`, of: (postern) => postern.lock(name) };
  const [, count, limit] = PERMITS.exec(permits) ?? [];
  if (count === undefined) throw new UsageError(`--permits is "${permits}"; it must be such as 2/5, or 2`);
  const options = { permits: Number(count), ...(limit !== undefined && { limit: Number(limit) }) };
  return { what: `${count} of the semaphore "${name}"`, of: (postern) => postern.semaphore(name, options) };
}
