/** From a hold to the end of the job that runs under it: the same for everything that can be held. */
import { hostname } from 'node:os';
import {
  HoldLostError,
  Postern,
  PosternError,
  type Hold,
  type PosternOptions,
  type Revocation,
} from '../../client/index.js';
import type { Given } from '../arguments/command.js';
import type { JOB_OPTIONS } from '../commands/lock.js';
import { environment } from '../environment.js';
import { EXIT, Failure, UsageError } from '../exit.js';
import { clientOptions } from '../gateway.js';
import type { Output } from '../output.js';
import { persist, type Trying } from '../persist.js';
import { Guardian, type Ending } from '../process/guarded.js';
import { diesOf, Interrupted, Interrupts } from '../process/interrupts.js';
import { endAs, runJob, type Kept } from '../process/job.js';

type GivenJob = Given<typeof JOB_OPTIONS>;

export interface Asking {
  readonly signal: AbortSignal;
  readonly onRevoke: (revocation: Revocation) => void;
}

/** What a subcommand that runs a job says of itself. */
export interface HoldJob {
  readonly given: GivenJob;
  /** The thing in words, such as `the lock "x"`. */
  readonly what: string;
  readonly acquire: (postern: Postern, asking: Asking) => Promise<Hold | Hold[]>;
  /** What else the job finds in its environment. */
  readonly envOf?: (held: Hold | Hold[]) => Record<string, string>;
  /** The exit code when it is not granted in time. */
  readonly busyCode: number;
  /** Whether it is acquired again after it was lost. */
  readonly again?: boolean;
  /** Whether giving it back waits for others. */
  readonly endsTogether?: boolean;
  /** What follows a job that has ended well. */
  readonly next?: NextJob;
}

/** A second job, under what the hold of the first is turned into: nobody whom both exclude comes in between. */
export interface NextJob {
  readonly argv: readonly string[];
  readonly what: string;
  /** @throws HoldLostError, or PosternError `conflict`: there is no hold for it */
  readonly turn: (held: Hold | Hold[]) => Promise<Hold>;
}

/** The client of a subcommand that runs jobs. */
export function jobClientOptions(given: GivenJob): PosternOptions {
  if (given.job.length === 0) throw new UsageError('no command given: put it after --');
  return holdOptions(given);
}

/** The client of a subcommand that holds something. */
export function holdOptions({ values }: GivenJob): PosternOptions {
  return { ...clientOptions(values, environment), ttlMs: values.ttl, label: values.label ?? hostname() };
}

/** @returns the exit code of the command */
export async function runUnderHold(job: HoldJob): Promise<number> {
  const options = jobClientOptions(job.given);
  const guardian = job.given.ahead ?? new Guardian();
  using interrupts = new Interrupts();
  const { output } = job.given;
  const postern = new Postern(options);
  try {
    for (let wasHeld = false; ; wasHeld = true) {
      const ending = await heldJob(job, { postern, guardian, interrupts, wasHeld });
      const again = job.again === true && ending.kind === 'stopped' && !interrupts.signal.aborted;
      if (!again) {
        await postern.close();
        return endAs(ending, output);
      }
    }
  } catch (error) {
    if (error instanceof Busy) {
      output.tell('busy', error.message, { exitCode: job.busyCode });
      return job.busyCode;
    }
    if (!(error instanceof Interrupted)) throw error;
    await postern.close();
    return diesOf(error.signal);
  } finally {
    guardian.dismiss();
    await postern.close();
  }
}

/** Not granted in time. */
class Busy extends Error {}

interface Parts {
  postern: Postern;
  guardian: Guardian;
  interrupts: Interrupts;
  wasHeld: boolean;
}

async function heldJob(job: HoldJob, { postern, guardian, interrupts, wasHeld }: Parts): Promise<Ending> {
  const { given, next } = job;
  const { values, output } = given;
  let { what } = job;
  let asked = (_why: string, _breakInMs: number | undefined): void => undefined;
  const onRevoke = ({ reason, breakAt }: Revocation): void => {
    const why = `${what} is revoked${reason === undefined ? '' : ` (${reason})`}`;
    asked(why, breakAt === undefined ? undefined : Date.parse(breakAt) - Date.now());
  };
  const { signal } = interrupts;
  let held = await acquired({ what, wasHeld, over: signal, output }, () => granted(job, postern, { signal, onRevoke }));
  const since = performance.now();
  const run = (argv: readonly string[]): Promise<Ending> =>
    runJob({
      guardian,
      kept: { ...keptBy(held), ttlMs: values.ttl },
      argv,
      env: { ...(Array.isArray(held) ? envOfMany(held) : envOf(held)), ...job.envOf?.(held) },
      interrupts,
      output,
      killAfterMs: values['kill-after'],
      maxHoldMs: values['max-hold'],
      heldMs: performance.now() - since,
      onAsked: (tell) => (asked = tell),
    });
  tellHolds(output, 'acquired', what, held);
  let ending = await run(given.job);
  if (next !== undefined && ending.kind === 'ended' && ending.code === 0 && !interrupts.signal.aborted) {
    const turned = await untilInterrupted(turnedInto(next, held), interrupts.signal);
    if (turned instanceof Error) return { kind: 'stopped', why: turned.message };
    [held, what] = [turned, next.what];
    tellHolds(output, 'downgraded', what, held);
    ending = await run(next.argv);
  }
  // Otherwise the end of the lease, which comes next, does the same.
  const gives = (job.again === true || job.endsTogether === true) && !interrupts.signal.aborted;
  const holds = [held].flat();
  if (gives && !holds.some(({ signal }) => signal.aborted))
    await untilInterrupted(Promise.all(holds.map((hold) => hold.release())), interrupts.signal);
  return ending;
}

function keptBy(held: Hold | Hold[]): Pick<Kept, 'signals' | 'leftMs'> {
  const holds = [held].flat();
  return {
    signals: holds.map(({ signal }) => signal),
    leftMs: () => Math.min(...holds.map(({ leftMs }) => leftMs)),
  };
}

function tellHolds(output: Output, event: 'acquired' | 'downgraded', what: string, held: Hold | Hold[]): void {
  if (!output.json) return;
  for (const { kind, name, holdId, fencingToken } of [held].flat())
    output.tell(event, `${what} is held`, { kind, name, holdId, fencingToken });
}

/** @returns the error where there is no hold for the second job */
async function turnedInto({ turn }: NextJob, held: Hold | Hold[]): Promise<Hold | Error> {
  try {
    return await turn(held);
  } catch (error) {
    const gone = error instanceof HoldLostError || (error instanceof PosternError && error.code === 'conflict');
    if (gone) return error;
    throw error;
  }
}

function envOf({ fencingToken, holdId }: Hold): Record<string, string> {
  return { POSTERN_FENCING_TOKEN: String(fencingToken), POSTERN_HOLD_ID: holdId };
}

function envOfMany(holds: readonly Hold[]): Record<string, string> {
  const byName = (of: (hold: Hold) => unknown): string =>
    JSON.stringify(Object.fromEntries(holds.map((hold) => [hold.name, of(hold)])));
  return {
    POSTERN_FENCING_TOKENS: byName(({ fencingToken }) => fencingToken),
    POSTERN_HOLD_IDS: byName(({ holdId }) => holdId),
  };
}

async function granted({ acquire, what }: HoldJob, postern: Postern, asking: Asking): Promise<Hold | Hold[]> {
  try {
    return await acquire(postern, asking);
  } catch (error) {
    if (!(error instanceof PosternError)) throw error;
    if (error.code === 'timeout') throw new Busy(`could not get ${what} in time: ${error.message}`, { cause: error });
    if (error.code === 'lock-held') throw new Busy(`somebody else has ${what}: ${error.message}`, { cause: error });
    if (error.code === 'not-found')
      throw new Failure(EXIT.noGateway, `what answers there is no gateway at that path: ${error.message}`);
    throw error;
  }
}

interface Acquiring extends Trying {
  /** It was held, and lost: what has cost it the hold may not be over, so it is asked for until a gateway serves it. */
  readonly wasHeld: boolean;
}

/** @throws Interrupted; what it is refused for */
export async function acquired<T>({ wasHeld, ...trying }: Acquiring, acquire: () => Promise<T>): Promise<T> {
  const acquiring = wasHeld ? persist({ ...trying, what: `asking for ${trying.what} again` }, acquire) : acquire();
  // There is nothing in the end only if it was interrupted.
  return (await untilInterrupted(acquiring, trying.over)) as T;
}

/** Requests that come before the wait in line do not know the signal. */
export function untilInterrupted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) reject(signal.reason as Error);
    signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true });
    work.then(resolve, (error: unknown) => reject(signal.aborted ? (signal.reason as Error) : (error as Error)));
  });
}
