/** What becomes of a schedule when it is written, when it is due, and when its queue refuses the message; pure. */
import type { Cadence } from './cadence.js';
import type { ScheduleConfig, ScheduleRecord } from './schedule.js';

/** Missed occurrences are counted one by one, which takes time: of more, so many are counted. */
const COUNTED_MAX = 60;

export interface Missed {
  readonly count: number;
  /** The last of them. */
  readonly occurrence: number;
}

/** An occurrence that is pushed, and the schedule after that; or without one, those that are passed over. */
export interface Step {
  readonly occurrence: number | undefined;
  /** Those that are missed with it. */
  readonly missed: Missed | undefined;
  readonly next: ScheduleRecord;
}

type Timing = Pick<Cadence, 'nextAfter' | 'lastBefore'>;

/**
 * A schedule that is written: what is due goes on where it was, unless something is said about when it is due. Then it
 * begins anew, after whatever was settled before.
 * @param now epoch ms, not before any occurrence that was pushed
 */
export function configured(
  before: ScheduleRecord | undefined,
  config: ScheduleConfig & Pick<ScheduleRecord, 'principal'>,
  cadence: Timing,
  now: number,
): ScheduleRecord {
  const { fired, missed } = before ?? {};
  const history = { ...(fired !== undefined && { fired }), ...(missed !== undefined && { missed }) };
  if (before !== undefined && isTimedAlike(before, config)) return { ...config, ...history, ...due(before.dueAt) };
  if (config.paused) return { ...config, ...history };
  const settled = Math.max(now, fired?.occurrence ?? 0, missed?.occurrence ?? 0);
  return { ...config, ...history, ...due(cadence.nextAfter(settled)) };
}

function isTimedAlike(a: ScheduleConfig, b: ScheduleConfig): boolean {
  return a.cron === b.cron && a.timeZone === b.timeZone && a.paused === b.paused;
}

/**
 * The next step of a schedule.
 * @param now epoch ms, not later than the ensemble's clock
 * @param graceMs how late an occurrence may be pushed before it is missed
 * @returns undefined: nothing is due
 */
export function nextStep(record: ScheduleRecord, cadence: Timing, now: number, graceMs: number): Step | undefined {
  const { dueAt, misfire } = record;
  if (dueAt === undefined || dueAt > now) return undefined;
  const onTime = now - graceMs;
  if (dueAt >= onTime) return pushed(record, cadence, now, { occurrence: dueAt, missed: undefined });
  // Not before the one that is due, even if the zone's rules have changed since that was computed.
  const latest = Math.max(dueAt, cadence.lastBefore(onTime) ?? dueAt);
  const count = countUpTo(cadence, dueAt, latest);
  if (misfire === 'skip') {
    const missed = { count, occurrence: latest };
    return { occurrence: undefined, missed, next: settledUpTo(record, cadence, latest, missed) };
  }
  const missed = count === 1 ? undefined : { count: count - 1, occurrence: cadence.lastBefore(latest) ?? dueAt };
  return pushed(record, cadence, now, { occurrence: latest, missed });
}

/** The schedule once its queue has refused the occurrence: that stays due, and what is older is missed. */
export function refusedAt(
  record: ScheduleRecord,
  { occurrence, missed }: Pick<Step, 'occurrence' | 'missed'>,
  refusal: Omit<NonNullable<ScheduleRecord['refused']>, 'occurrence'>,
): ScheduleRecord {
  if (occurrence === undefined) return record;
  return { ...record, ...withMissed(record.missed, missed), dueAt: occurrence, refused: { occurrence, ...refusal } };
}

function pushed(
  record: ScheduleRecord,
  cadence: Timing,
  at: number,
  { occurrence, missed }: { occurrence: number; missed: Missed | undefined },
): Step {
  const next = settledUpTo(record, cadence, occurrence, missed);
  return { occurrence, missed, next: { ...next, fired: { occurrence, at } } };
}

function settledUpTo(
  record: ScheduleRecord,
  cadence: Timing,
  occurrence: number,
  missed: Missed | undefined,
): ScheduleRecord {
  const { dueAt: _dueAt, refused: _refused, ...rest } = record;
  return { ...rest, ...withMissed(rest.missed, missed), ...due(cadence.nextAfter(occurrence)) };
}

function withMissed(before: Missed | undefined, missed: Missed | undefined): Pick<ScheduleRecord, 'missed'> {
  if (missed === undefined) return before === undefined ? {} : { missed: before };
  return { missed: { ...missed, count: (before?.count ?? 0) + missed.count } };
}

function due(dueAt: number | undefined): Pick<ScheduleRecord, 'dueAt'> {
  return dueAt === undefined ? {} : { dueAt };
}

/** How many there are from `first` to `last`, up to {@link COUNTED_MAX}. */
function countUpTo(cadence: Timing, first: number, last: number): number {
  let count = 1;
  for (let at = cadence.nextAfter(first); at !== undefined && at <= last && count < COUNTED_MAX; count += 1)
    at = cadence.nextAfter(at);
  return count;
}
