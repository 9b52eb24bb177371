/**
 * What users of schedules rely on, looked for in the history of one schedule, whose queue nobody takes from, so that in
 * the end it shows all that was ever pushed:
 *
 * - An occurrence is pushed once, those of one schedule in their order, and none before its time.
 * - Each is of the times that the schedule names. What is pushed is what the schedule was set to: not what somebody had
 *   set it to before a later write, or a removal, that was answered.
 * - None is passed over in silence: as long as nobody changes when it is due, each occurrence is pushed, or counted as
 *   missed; and none is missed before its grace is over.
 * - With `misfire: once` the one after the last that was missed is pushed.
 * - In the end it is fired on.
 *
 * Times of ZooKeeper's leader are compared with those of clients: they share the clock of a machine.
 */
import { AFTERWARDS } from './holds.js';
import type { Operation } from './linearizable.js';

/** Of one schedule always the same. */
export type Misfire = 'skip' | 'once';

export interface Pushed {
  readonly occurrence: number;
  readonly at: number;
  readonly value: string;
}

export interface Shown {
  /** Missing while it is paused. */
  readonly dueAt?: number;
  /** The last occurrence that was pushed. */
  readonly fired?: number;
  readonly missed?: { readonly count: number; readonly occurrence: number };
}

export type ScheduleInput =
  | { readonly do: 'put'; readonly value: string; readonly paused: boolean; readonly misfire: Misfire }
  | { readonly do: 'remove' }
  | { readonly do: 'show' }
  /** At all that was pushed. */
  | { readonly do: 'look' };

/** `wall`: the wall clock when it was answered, epoch ms, as all these times. */
export type ScheduleOutput =
  | { readonly wall: number; readonly schedule: Shown | null }
  | { readonly wall: number; readonly removed: true }
  | { readonly wall: number; readonly pushed: readonly Pushed[] };

export type ScheduleOperation = Operation<ScheduleInput, ScheduleOutput>;

export interface ScheduleRules {
  /** Between two occurrences, which are multiples of it. */
  readonly everyMs: number;
  readonly graceMs: number;
}

/** The clock of the machine may be set by this much while somebody looks. */
const CLOCK_MS = 100;

/** Of one look that shows the schedule, or of a write. */
interface Sight {
  readonly begin: number;
  readonly end: number;
  readonly wall: number;
  readonly schedule: Shown;
}

export function scheduleComplaints(operations: readonly ScheduleOperation[], rules: ScheduleRules): string[] {
  const looks = operations.flatMap(({ output }) => (output !== undefined && 'pushed' in output ? [output] : []));
  const sights = operations.flatMap(({ begin, end, output }): Sight[] =>
    output !== undefined && 'schedule' in output && output.schedule !== null
      ? [{ begin, end, wall: output.wall, schedule: output.schedule }]
      : [],
  );
  sights.sort((a, b) => a.end - b.end);
  // Nothing is taken away: whoever sees most saw what everybody saw.
  const all = looks.reduce<readonly Pushed[]>((most, { pushed }) => (pushed.length > most.length ? pushed : most), []);
  return [
    ...looks.flatMap(({ wall, pushed }) => [...early(wall, pushed), ...notKept(pushed, all)]),
    ...outOfOrder(all, rules),
    ...outdated(operations, all),
    ...sights.flatMap((sight) => missedEarly(sight, rules)),
    ...(operations.some(({ input }) => input.do === 'put' && input.misfire === 'once')
      ? sights.flatMap((sight) => latestNotPushed(sight, all, rules))
      : []),
    ...(looks.length === 0 ? [] : passedOver(operations, sights, all, rules)),
    ...stuckInTheEnd(operations, all),
  ];
}

function early(wall: number, pushed: readonly Pushed[]): string[] {
  return pushed
    .filter(({ occurrence, at }) => at < occurrence || occurrence > wall + CLOCK_MS)
    .map(({ occurrence, at }) => `${spelled(occurrence)} was pushed before its time, at ${spelled(at)}`);
}

function notKept(pushed: readonly Pushed[], all: readonly Pushed[]): string[] {
  const kept = new Set(all.map(({ occurrence }) => occurrence));
  return pushed
    .filter(({ occurrence }) => !kept.has(occurrence))
    .map(({ occurrence }) => `${spelled(occurrence)} was pushed, and is not there any more`);
}

function outOfOrder(all: readonly Pushed[], { everyMs }: ScheduleRules): string[] {
  return all.flatMap(({ occurrence }, i) => {
    const before = all[i - 1]?.occurrence ?? -Infinity;
    if (occurrence % everyMs !== 0) return [`${spelled(occurrence)} is no time of the schedule`];
    if (occurrence > before) return [];
    return [`${spelled(occurrence)} was pushed ${occurrence === before ? 'twice' : `after ${spelled(before)}`}`];
  });
}

function outdated(operations: readonly ScheduleOperation[], all: readonly Pushed[]): string[] {
  const puts = new Map(operations.flatMap((one) => (one.input.do === 'put' ? [[one.input.value, one] as const] : [])));
  const changes = operations.filter(
    ({ input, output }) => (input.do === 'put' || input.do === 'remove') && output !== undefined,
  );
  return all.flatMap(({ occurrence, at, value }) => {
    const put = puts.get(value);
    if (put === undefined) return [`${spelled(occurrence)} has a body that nobody has set: ${value}`];
    const since = changes.find(
      ({ begin, output }) => begin > put.end && at > (output as { wall: number }).wall + CLOCK_MS,
    );
    if (since === undefined) return [];
    return [`${spelled(occurrence)} was pushed at ${spelled(at)} as ${value}, which was not so any more`];
  });
}

function missedEarly({ wall, schedule: { missed } }: Sight, { graceMs }: ScheduleRules): string[] {
  if (missed === undefined || wall >= missed.occurrence + graceMs - CLOCK_MS) return [];
  return [`${spelled(missed.occurrence)} was missed at ${spelled(wall)}, within its grace`];
}

function latestNotPushed(
  { schedule: { missed } }: Sight,
  all: readonly Pushed[],
  { everyMs }: ScheduleRules,
): string[] {
  if (missed === undefined) return [];
  const { occurrence } = missed;
  const next = occurrence + everyMs;
  const isOver = all.some((one) => one.occurrence > next);
  if (!isOver || all.some((one) => one.occurrence === next)) return [];
  return [`${spelled(occurrence)} was missed, and of those that were missed with it none was pushed`];
}

/** From one sight to the next, if nobody can have changed when it is due in between. */
function passedOver(
  operations: readonly ScheduleOperation[],
  sights: readonly Sight[],
  all: readonly Pushed[],
  { everyMs }: ScheduleRules,
): string[] {
  const changes = operations.filter(({ input }) => input.do === 'remove' || (input.do === 'put' && input.paused));
  return sights.flatMap((to, i) => {
    const from = sights.slice(0, i).findLast(({ end }) => end < to.begin);
    if (from === undefined || changes.some(({ begin, end }) => begin < to.end && end > from.begin)) return [];
    const [first, last] = [from.schedule.dueAt, to.schedule.dueAt];
    if (first === undefined || last === undefined) return [];
    const due = (last - first) / everyMs;
    const pushed = all.filter(({ occurrence }) => occurrence >= first && occurrence < last).length;
    const missed = (to.schedule.missed?.count ?? 0) - (from.schedule.missed?.count ?? 0);
    if (pushed + missed === due) return [];
    return [
      `of ${due} occurrences from ${spelled(first)} to before ${spelled(last)} ${pushed} were pushed and ${missed} missed`,
    ];
  });
}

function stuckInTheEnd(operations: readonly ScheduleOperation[], all: readonly Pushed[]): string[] {
  const last = operations.filter(({ client, input }) => client === AFTERWARDS && input.do === 'put');
  const values = new Set(last.flatMap(({ input }) => ('value' in input ? [input.value] : [])));
  if (values.size === 0 || all.some(({ value }) => values.has(value))) return [];
  return ['nothing is pushed any more, although all is well'];
}

function spelled(time: number): string {
  return new Date(time).toISOString();
}
