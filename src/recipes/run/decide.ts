/** What a start, a finish and a removal make of the occurrences of a name; pure. */
import { PosternError, StandingConflictError } from '../../errors.js';
import { instant } from '../../time.js';
import { isUnfinished, stateOf, type RunOutcome, type RunRecord, type RunState, type WhichOccurrence } from './run.js';

/** What was read of a name. */
export interface RunsRead {
  readonly runs: readonly RunRecord[];
  /** The ids of the leases of unfinished attempts that lived when it was read. */
  readonly living: ReadonlySet<string>;
}

/** Who asks for an attempt. */
export type Starter = Pick<RunRecord, 'leaseId' | 'guid' | 'principal' | 'label'>;

export interface StartAsked {
  readonly which: WhichOccurrence;
  /** Counts only where the occurrence is new. */
  readonly maxAttempts: number;
  readonly starter: Starter;
  /** Of the attempt, should there be one. */
  readonly fencingToken: number;
  /** Epoch ms. */
  readonly now: number;
  /** How many occurrences are remembered. */
  readonly remembered: number;
}

/** The attempt is the caller's, by this write or by an earlier one (`runs` undefined); or there is none to be had. */
export type StartDecision =
  | { readonly started: true; readonly record: RunRecord; readonly runs: readonly RunRecord[] | undefined }
  | { readonly started: false; readonly record: RunRecord; readonly state: Exclude<RunState, 'open'> };

/** @throws PosternError `conflict` when all that could be forgotten for a new occurrence runs */
export function decideStart(name: string, read: RunsRead, asked: StartAsked): StartDecision {
  const { runs, living } = read;
  const { starter, fencingToken, now } = asked;
  const occurrence = occurrenceOf(read, asked);
  const before = runs.find((run) => run.occurrence === occurrence);
  if (before !== undefined) {
    if (before.end === undefined && before.guid === starter.guid)
      return { started: true, record: before, runs: undefined };
    const state = stateOf(before, living.has(before.leaseId));
    if (state !== 'open') return { started: false, record: before, state };
  }
  const record: RunRecord = {
    occurrence,
    attempt: (before?.attempt ?? 0) + 1,
    maxAttempts: before?.maxAttempts ?? asked.maxAttempts,
    fencingToken,
    ...starter,
    startedAt: now,
    firstStartedAt: before?.firstStartedAt ?? now,
    failures: before === undefined ? [] : failuresOf(before),
  };
  if (before !== undefined) return { started: true, record, runs: runs.map((run) => (run === before ? record : run)) };
  return { started: true, record, runs: [...withRoom(name, read, asked.remembered - 1), record] };
}

/**
 * A new occurrence is named by the time. A clock that was set back by more than `withinMs` begins a new one too:
 * otherwise nothing would run until it has caught up.
 */
function occurrenceOf({ runs, living }: RunsRead, { which, starter, now }: StartAsked): string {
  if (typeof which === 'string') return which;
  const repeated = runs.findLast((run) => isUnfinished(run) && run.guid === starter.guid);
  if (repeated !== undefined) return repeated.occurrence;
  const last = runs.at(-1);
  const goesOn =
    last !== undefined &&
    (Math.abs(now - last.firstStartedAt) < which.withinMs || stateOf(last, living.has(last.leaseId)) === 'running');
  return goesOn ? last.occurrence : instant(now);
}

/** The occurrences without the oldest ones that do not run, so that at most `max` are left. */
function withRoom(name: string, { runs, living }: RunsRead, max: number): RunRecord[] {
  let excess = runs.length - max;
  const kept = runs.filter((run) => {
    if (excess <= 0 || stateOf(run, living.has(run.leaseId)) === 'running') return true;
    excess -= 1;
    return false;
  });
  if (excess <= 0) return kept;
  throw new PosternError(
    'conflict',
    `All ${runs.length} occurrences of "${name}" that are remembered are running; one has to end before another can start.`,
    { members: { name, maxOccurrences: max + 1 } },
  );
}

/** Of the attempts up to this one that were finished as failed. */
function failuresOf(record: RunRecord): readonly string[] {
  return record.end?.outcome === 'failed' ? [...record.failures, failureOf(record)] : record.failures;
}

function failureOf({ fencingToken, leaseId }: Pick<RunRecord, 'fencingToken' | 'leaseId'>): string {
  return `${fencingToken} ${leaseId}`;
}

export interface FinishAsked {
  readonly occurrence: string;
  readonly outcome: RunOutcome;
  readonly note: string | undefined;
  readonly leaseId: string;
  /** Of the attempt that is meant: a late request must not end a later attempt of the same lease. */
  readonly fencingToken: number;
  /** Epoch ms. */
  readonly now: number;
}

/** `runs` is undefined where an earlier try of this finish was done. */
export interface FinishDecision {
  readonly record: RunRecord;
  readonly runs: readonly RunRecord[] | undefined;
}

/** @throws PosternError `not-holder` for an attempt that is over, or is another lease's */
export function decideFinish(name: string, runs: readonly RunRecord[], asked: FinishAsked): FinishDecision {
  const { occurrence, outcome, note, leaseId, fencingToken, now } = asked;
  const record = runs.find((run) => run.occurrence === occurrence);
  if (record === undefined) throw notHolder(name, asked, undefined);
  const isMine = record.leaseId === leaseId && record.fencingToken === fencingToken;
  if (isMine && record.end === undefined) {
    const ended = { ...record, end: { outcome, at: now, ...(note !== undefined && { note }) } };
    return { record: ended, runs: runs.map((run) => (run === record ? ended : run)) };
  }
  if (isMine && record.end?.outcome === outcome) return { record, runs: undefined };
  if (outcome === 'failed' && record.failures.includes(failureOf(asked))) return { record, runs: undefined };
  throw notHolder(name, asked, record);
}

/** @returns the occurrences without this one @throws PosternError `not-found`, `conflict` while it runs */
export function decideForget(name: string, { runs, living }: RunsRead, occurrence: string): RunRecord[] {
  const record = runs.find((run) => run.occurrence === occurrence);
  if (record === undefined)
    throw new PosternError('not-found', `No occurrence "${occurrence}" of "${name}" is remembered.`, {
      members: { name, occurrence },
    });
  if (stateOf(record, living.has(record.leaseId)) === 'running')
    throw new StandingConflictError(
      `The occurrence "${occurrence}" of "${name}" is running; end its lease first, or wait.`,
      { name, occurrence, holder: { leaseId: record.leaseId, label: record.label } },
    );
  return runs.filter((run) => run !== record);
}

function notHolder(
  name: string,
  { occurrence, fencingToken }: FinishAsked,
  record: RunRecord | undefined,
): PosternError {
  const now =
    record === undefined ? 'nothing is remembered of it' : `its last one is ${ordinal(record)}${endOf(record)}`;
  return new PosternError(
    'not-holder',
    `This lease has no running attempt at the occurrence "${occurrence}" of "${name}" under the fencing token ${fencingToken}: ${now}. Nothing was done.`,
    { members: { name, occurrence, ...(record !== undefined && { attempt: record.attempt }) } },
  );
}

function ordinal({ attempt, fencingToken }: RunRecord): string {
  return `attempt number ${attempt}, with the fencing token ${fencingToken}`;
}

function endOf({ end }: RunRecord): string {
  return end === undefined ? '' : `, finished as ${end.outcome}`;
}
