/** From a hold to the end of the job that runs under it: the same for everything that can be held. */
import { hostname } from 'node:os';
import { Postern, PosternError, type Hold, type Revocation } from '../../client/index.js';
import type { Given } from '../arguments/command.js';
import type { JOB_OPTIONS } from '../commands/lock.js';
import { environment } from '../environment.js';
import { EXIT, Failure, UsageError } from '../exit.js';
import { clientOptions } from '../gateway.js';
import { takeGuardian, type Guardian } from '../process/guarded.js';
import { diesOf, Interrupted, Interrupts } from '../process/interrupts.js';
import { endAs, runJob } from '../process/job.js';

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
  readonly acquire: (postern: Postern, asking: Asking) => Promise<Hold>;
  /** The exit code when it is not granted in time. */
  readonly busyCode: number;
}

/** @returns the exit code of the command */
export async function runUnderHold(job: HoldJob): Promise<number> {
  const { values, job: argv } = job.given;
  if (argv.length === 0) throw new UsageError('there is no command: it stands behind --');
  const options = { ...clientOptions(values, environment), ttlMs: values.ttl, label: values.label ?? hostname() };
  const guardian = takeGuardian();
  const interrupts = new Interrupts();
  const postern = new Postern(options);
  try {
    return await heldJob(job, { postern, guardian, interrupts });
  } catch (error) {
    if (error instanceof Interrupted) {
      await postern.close();
      return diesOf(error.signal);
    }
    throw error;
  } finally {
    guardian.dismiss();
    await postern.close();
  }
}

interface Parts {
  postern: Postern;
  guardian: Guardian;
  interrupts: Interrupts;
}

async function heldJob(job: HoldJob, { postern, guardian, interrupts }: Parts): Promise<number> {
  const { given, what } = job;
  const { values, output } = given;
  let asked = (_why: string, _breakInMs: number | undefined): void => undefined;
  const onRevoke = ({ reason, breakAt }: Revocation): void => {
    const why = `${what} is asked back${reason === undefined ? '' : ` (${reason})`}`;
    asked(why, breakAt === undefined ? undefined : Date.parse(breakAt) - Date.now());
  };
  let hold: Hold;
  try {
    hold = await untilInterrupted(job.acquire(postern, { signal: interrupts.signal, onRevoke }), interrupts.signal);
  } catch (error) {
    if (!(error instanceof PosternError)) throw error;
    if (error.code === 'not-found')
      throw new Failure(EXIT.noGateway, `what answers there is no gateway at that path: ${error.message}`);
    if (error.code !== 'lock-held') throw error;
    output.tell('busy', `somebody else has ${what}: ${error.message}`, { exitCode: job.busyCode });
    return job.busyCode;
  }
  const { holdId, fencingToken, name, kind } = hold;
  if (output.json) output.tell('acquired', `${what} is held`, { kind, name, holdId, fencingToken });
  const ending = await runJob({
    guardian,
    kept: { signal: hold.signal, leftMs: () => hold.leftMs, ttlMs: values.ttl },
    argv: given.job,
    env: { POSTERN_FENCING_TOKEN: String(fencingToken), POSTERN_HOLD_ID: holdId },
    interrupts,
    output,
    killAfterMs: values['kill-after'],
    maxHoldMs: values['max-hold'],
    onAsked: (tell) => (asked = tell),
  });
  // What ended by itself after its hold was gone must not look as if it had held it to the end.
  const lost = ending.kind === 'ended' && hold.signal.aborted;
  const result = lost ? ({ kind: 'stopped', why: (hold.signal.reason as Error).message } as const) : ending;
  await postern.close();
  return endAs(result, output);
}

/** Requests that come before the wait in line do not know the signal. */
function untilInterrupted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true });
    work.then(resolve, (error: unknown) => reject(signal.aborted ? (signal.reason as Error) : (error as Error)));
  });
}
