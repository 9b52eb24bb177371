/** `postern lock`: a job under a lock or several, one side of a read-write lock, or permits of a semaphore. */
import type { AcquireOptions, Hold, Postern, WriteHold } from '../../client/index.js';
import type { GivenFor } from '../arguments/command.js';
import { checkName } from '../arguments/name.js';
import type { lock as description } from '../commands/lock.js';
import { EXIT, UsageError } from '../exit.js';
import { runUnderHold, type HoldJob, type NextJob } from './hold-job.js';

type GivenLock = GivenFor<typeof description>;

const WAIT_MS = 60_000;
/** As the contract has it. */
const NAMES_MAX = 100;
const PERMITS = /^([1-9]\d{0,5})(?:\/([1-9]\d{0,5}))?$/;

export function lock(given: GivenLock): Promise<number> {
  const { busy, wait } = given.values;
  const waitMs = wait ?? (busy === 'wait' ? WAIT_MS : 0);
  const { what, of } = thing(given);
  return runUnderHold({
    ...jobs(given),
    what,
    acquire: (postern, asking) => of(postern).acquire({ waitMs, ...asking }),
    busyCode: busy === 'skip' ? EXIT.ok : EXIT.notAcquired,
  });
}

/** The two jobs of a downgrade; without one, what stands there is the job's own. */
function jobs(given: GivenLock): Pick<HoldJob, 'given' | 'next'> {
  const { downgrade, exclusive } = given.values;
  if (!downgrade) return { given };
  if (!exclusive) throw new UsageError('--downgrade is for --exclusive');
  const at = given.job.indexOf('--');
  const [job, argv] = [given.job.slice(0, at), given.job.slice(at + 1)];
  if (at < 1 || argv.length === 0)
    throw new UsageError('--downgrade takes two commands: -- the one that writes -- the one that reads');
  const turn: NextJob['turn'] = (held) => (held as WriteHold).downgrade();
  return { given: { ...given, job }, next: { argv, what: asReader(given.arguments[0] ?? ''), turn } };
}

function asReader(name: string): string {
  return `the read-write lock "${name}" as a reader`;
}

interface Thing {
  what: HoldJob['what'];
  of: (postern: Postern) => { acquire: (options: AcquireOptions) => Promise<Hold | Hold[]> };
}

function thing({ arguments: [name], values }: GivenLock): Thing {
  const { names, shared, exclusive, downgrade, permits, priority } = values;
  if ([names.length > 0, shared, exclusive, permits !== undefined].filter(Boolean).length > 1)
    throw new UsageError('--names, --shared, --exclusive and --permits exclude each other');
  if (priority !== undefined && (names.length > 0 || shared || exclusive || permits !== undefined))
    throw new UsageError('--priority is for the lock NAME alone, without --names, --shared, --exclusive and --permits');
  if (names.length > 0) return manyLocks(name, names);
  if (name === undefined) throw new UsageError('NAME is missing: the lock; or --names, for several');
  checkName('NAME', name);
  if (shared) return { what: asReader(name), of: (postern) => postern.rwlock(name).read };
  if (exclusive) return writer(name, downgrade);
  if (permits === undefined) return { what: `the lock "${name}"`, of: (postern) => plainLock(postern, name, priority) };
  const [, count, limit] = PERMITS.exec(permits) ?? [];
  if (count === undefined) throw new UsageError(`--permits is "${permits}"; it must look like 2/5, or 2`);
  const options = { permits: Number(count), ...(limit !== undefined && { limit: Number(limit) }) };
  return { what: `${count} of the semaphore "${name}"`, of: (postern) => postern.semaphore(name, options) };
}

function writer(name: string, downgradable: boolean): Thing {
  const of = (postern: Postern): ReturnType<Thing['of']> => ({
    // A gateway of an older release knows of none.
    acquire: (options) => postern.rwlock(name).write.acquire({ ...options, ...(downgradable && { downgradable }) }),
  });
  return { what: `the read-write lock "${name}" as its writer`, of };
}

function plainLock(postern: Postern, name: string, priority: number | undefined): ReturnType<Thing['of']> {
  const lock = postern.lock(name);
  if (priority === undefined) return lock;
  return { acquire: (options) => lock.acquire({ ...options, priority }) };
}

function manyLocks(name: string | undefined, names: readonly string[]): Thing {
  if (name !== undefined) throw new UsageError(`unexpected argument "${name}": --names has the names`);
  for (const each of names) checkName('--names', each);
  const twice = names.find((each, index) => names.indexOf(each) !== index);
  if (twice !== undefined) throw new UsageError(`--names has "${twice}" twice`);
  if (names.length > NAMES_MAX) throw new UsageError(`--names has ${names.length} names; ${NAMES_MAX} are the most`);
  return { what: `the locks ${names.map((each) => `"${each}"`).join(', ')}`, of: (postern) => postern.locks(names) };
}
