/** `postern once`: a job that is done once for each occurrence, by one of all machines that ask. */
import { HoldLostError, Postern, PosternError, type Attempt, type Refused } from '../../client/index.js';
import type { GivenFor } from '../arguments/command.js';
import { checkName } from '../arguments/name.js';
import type { once as description } from '../commands/once.js';
import { EXIT, UsageError } from '../exit.js';
import { Guardian, type Ending } from '../process/guarded.js';
import { diesOf, Interrupted, Interrupts } from '../process/interrupts.js';
import { endAs, runJob } from '../process/job.js';
import { jobClientOptions, untilInterrupted } from './hold-job.js';
import { reasonOf } from './reason.js';

type GivenOnce = GivenFor<typeof description>;

/** Below the shortest interval of cron, above the difference of clocks that anything sets. */
const WITHIN_MS = 30_000;
/** As the contract has it. */
const OCCURRENCE = /^[A-Za-z0-9._~:+-]{1,128}$/;
const NOTE_LENGTH_MAX = 200;

export async function once(given: GivenOnce): Promise<number> {
  const [name = ''] = given.arguments;
  checkName('NAME', name);
  const options = jobClientOptions(given);
  const which = whichOf(given);
  const { wait: waitMs = 0, 'max-attempts': maxAttempts } = given.values;
  const guardian = given.ahead ?? new Guardian();
  using interrupts = new Interrupts();
  const postern = new Postern(options);
  try {
    const { signal } = interrupts;
    const starting = postern.run(name).start({ ...which, maxAttempts, waitMs, signal });
    const attempt = await untilInterrupted(starting, signal);
    if (!attempt.started) return refused(given, attempt);
    return await runAttempt(given, attempt, { postern, guardian, interrupts });
  } catch (error) {
    if (!(error instanceof Interrupted)) throw error;
    await postern.close();
    return diesOf(error.signal);
  } finally {
    guardian.dismiss();
    await postern.close();
  }
}

function whichOf({ values: { occurrence, within, note } }: GivenOnce): { occurrence: string } | { withinMs: number } {
  if (note !== undefined && note.length > NOTE_LENGTH_MAX)
    throw new UsageError(`--note has ${note.length} characters; ${NOTE_LENGTH_MAX} are the most`);
  if (within === 0) throw new UsageError('--within is "0"; it must be 1ms or more');
  if (occurrence === undefined) return { withinMs: within ?? WITHIN_MS };
  if (within !== undefined) throw new UsageError('--occurrence and --within exclude each other');
  if (OCCURRENCE.test(occurrence)) return { occurrence };
  throw new UsageError(
    `--occurrence is "${occurrence}"; it must be 1 to 128 of the characters A-Z a-z 0-9 . _ ~ : + -`,
  );
}

interface Parts {
  postern: Postern;
  guardian: Guardian;
  interrupts: Interrupts;
}

async function runAttempt(given: GivenOnce, attempt: Attempt, { postern, ...parts }: Parts): Promise<number> {
  const { values, output } = given;
  const { name, occurrence, attempt: number, fencingToken } = attempt;
  const details = { name, occurrence, attempt: number, fencingToken };
  if (output.json) output.tell('started', `attempt ${number} at ${named(attempt)}`, details);
  const ending = await runJob({
    ...parts,
    kept: { signals: [attempt.signal], leftMs: () => attempt.leftMs, ttlMs: values.ttl },
    argv: given.job,
    env: {
      POSTERN_FENCING_TOKEN: String(fencingToken),
      POSTERN_OCCURRENCE: occurrence,
      POSTERN_ATTEMPT: String(number),
    },
    output,
    killAfterMs: values['kill-after'],
    maxHoldMs: values['max-hold'],
  });
  const isRecorded = await recorded(given, attempt, ending);
  await postern.close();
  return isRecorded ? endAs(ending, output) : EXIT.lost;
}

/** @returns false if the occurrence is done, but that may not be known to anybody else */
async function recorded({ values, output }: GivenOnce, attempt: Attempt, ending: Ending): Promise<boolean> {
  const isDone = ending.kind === 'ended' && ending.code === 0;
  try {
    if (isDone) await attempt.done(values.note);
    else if (!attempt.signal.aborted) await attempt.failed(reasonOf(ending));
    return true;
  } catch (error) {
    if (!(error instanceof PosternError || error instanceof HoldLostError)) throw error;
    const why = `the end of ${named(attempt)} could not be recorded: ${error.message}`;
    output.tell('unrecorded', isDone ? `${why}. The job has ended with 0, and may be run again` : why, {
      ...(isDone && { exitCode: EXIT.lost }),
    });
    return !isDone;
  }
}

function refused({ values, output, arguments: [name = ''] }: GivenOnce, told: Refused): number {
  const { state, by, at, attempt, maxAttempts, note } = told;
  const what = named({ ...told, name });
  const noted = note === undefined ? '' : ` (${note})`;
  const tell = (exitCode: number, sentence: string): number => {
    if (exitCode !== EXIT.ok || !values.quiet) output.tell(state, sentence, { ...told, exitCode });
    return exitCode;
  };
  switch (state) {
    case 'done':
      return tell(EXIT.ok, `${what} was done by ${by.label} at ${at}${noted}`);
    case 'running':
      return tell(
        values.wait === undefined ? EXIT.ok : EXIT.notAcquired,
        `${what} is being done by ${by.label} since ${at}, attempt ${attempt} of ${maxAttempts}`,
      );
    case 'failed':
      return tell(
        EXIT.exhausted,
        `${what} has failed: all ${maxAttempts} attempts are used up, the last one by ${by.label} at ${at}${noted}`,
      );
  }
}

function named({ name, occurrence }: { name: string; occurrence: string }): string {
  return `the occurrence ${occurrence} of "${name}"`;
}
