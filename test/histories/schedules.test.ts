/** What is looked for in histories of schedules: a right history, and one that is wrong for each thing that can be. */
import { describe, expect, it } from 'vitest';
import { AFTERWARDS } from './holds.js';
import { scheduleComplaints, type Misfire, type ScheduleOperation, type Shown } from './schedules.js';

const RULES = { everyMs: 1_000, graceMs: 3_000 };

/** Who looks does so at one moment, on one clock. */
class Told {
  readonly operations: ScheduleOperation[] = [];
  readonly #misfire: Misfire;

  constructor(misfire: Misfire = 'skip') {
    this.#misfire = misfire;
  }

  put(at: number, value: string, schedule?: Shown, { paused = false, client = 'a' } = {}): this {
    const input = { do: 'put', value, paused, misfire: this.#misfire } as const;
    const end = schedule === undefined ? Infinity : at;
    this.operations.push({ client, begin: at, end, input, output: schedule && { wall: at, schedule } });
    return this;
  }

  remove(at: number): this {
    const output = { wall: at, removed: true } as const;
    this.operations.push({ client: 'a', begin: at, end: at, input: { do: 'remove' }, output });
    return this;
  }

  show(at: number, schedule: Shown): this {
    const output = { wall: at, schedule };
    this.operations.push({ client: 'a', begin: at, end: at, input: { do: 'show' }, output });
    return this;
  }

  look(wall: number, ...pushed: [occurrence: number, value: string, at?: number][]): this {
    const all = pushed.map(([occurrence, value, at = occurrence + 5]) => ({ occurrence, value, at }));
    const output = { wall, pushed: all };
    this.operations.push({ client: 'a', begin: wall, end: wall, input: { do: 'look' }, output });
    return this;
  }

  complaints(): string[] {
    return scheduleComplaints(this.operations, RULES).map((one) => one.replaceAll(/1970-01-01T00:00:0|Z/g, ''));
  }
}

const begun = (misfire?: Misfire): Told => new Told(misfire).put(100, 'x', { dueAt: 1_000 });

describe('an occurrence', () => {
  it('is pushed once, in order, at its time or later', () => {
    const right = begun().look(1_100, [1_000, 'x']).show(2_500, { dueAt: 3_000, fired: 2_000 });
    expect(right.look(9_000, [1_000, 'x'], [2_000, 'x', 2_900]).complaints()).toEqual([]);
  });

  it('is not pushed twice, nor behind a later one, nor early, nor at another time', () => {
    expect(begun().look(9_000, [1_000, 'x'], [1_000, 'x']).complaints()).toEqual(['1.000 was pushed twice']);
    expect(begun().look(9_000, [2_000, 'x'], [1_000, 'x']).complaints()).toEqual(['1.000 was pushed after 2.000']);
    expect(begun().look(9_000, [1_000, 'x', 990]).complaints()).toEqual(['1.000 was pushed before its time, at 0.990']);
    expect(begun().look(1_500, [2_000, 'x']).look(9_000, [2_000, 'x']).complaints()).toEqual([
      '2.000 was pushed before its time, at 2.005',
    ]);
    expect(begun().look(9_000, [1_500, 'x']).complaints()).toEqual(['1.500 is no time of the schedule']);
  });

  it('stays in the queue', () => {
    const history = begun().look(1_500, [1_000, 'x']).look(9_000, [2_000, 'x'], [3_000, 'x']);
    expect(history.complaints()).toEqual(['1.000 was pushed, and is not there any more']);
  });

  it('is of what the schedule was set to then', () => {
    const changed = (): Told => begun().put(2_500, 'y', { dueAt: 3_000, fired: 2_000 });
    const before = [1_000, 'x'] as [number, string];
    expect(changed().look(9_000, before, [2_000, 'x'], [3_000, 'y']).complaints()).toEqual([]);
    expect(changed().look(9_000, before, [2_000, 'x'], [3_000, 'x']).complaints()).toEqual([
      '3.000 was pushed at 3.005 as x, which was not so any more',
    ]);
    expect(changed().put(2_600, 'z').look(9_000, before, [2_000, 'x'], [3_000, 'z']).complaints()).toEqual([]);
    expect(begun().remove(1_500).look(9_000, before, [2_000, 'x']).complaints()).toHaveLength(1);
    expect(begun().look(9_000, [1_000, 'w']).complaints()).toEqual(['1.000 has a body that nobody has set: w']);
  });

  it('is pushed or missed, as long as nobody changes when it is due', () => {
    const four = (count?: number): Told =>
      begun().show(7_500, { dueAt: 5_000, ...(count !== undefined && { missed: { count, occurrence: 3_000 } }) });
    const two = [
      [1_000, 'x'],
      [4_000, 'x'],
    ] as [number, string][];
    expect(
      four(2)
        .look(9_000, ...two)
        .complaints(),
    ).toEqual([]);
    const silent = ['of 4 occurrences from 1.000 to before 5.000 2 were pushed and 1 missed'];
    expect(
      four(1)
        .look(9_000, ...two)
        .complaints(),
    ).toEqual(silent);
    expect(
      four()
        .put(2_000, 'y', undefined, { paused: true })
        .look(9_000, ...two)
        .complaints(),
    ).toEqual([]);
  });

  it('is not missed within its grace', () => {
    const missed = { count: 1, occurrence: 1_000 };
    const history = (at: number): Told => begun().show(at, { dueAt: 2_000, missed }).look(9_000);
    expect(history(4_000).complaints()).toEqual([]);
    expect(history(3_800).complaints()).toEqual(['1.000 was missed at 3.800, within its grace']);
  });

  it('is pushed where it is the latest that was missed, and one of them has to be', () => {
    const history = (latest: number): Told =>
      begun('once')
        .show(6_500, { dueAt: 7_000, missed: { count: 5, occurrence: 2_000 } })
        .look(9_000, [latest, 'x', 6_300], [7_000, 'x']);
    expect(history(3_000).complaints()).toEqual([]);
    expect(history(4_000).complaints()).toEqual([
      '2.000 was missed, and of those that were missed with it none was pushed',
    ]);
  });
});

it('in the end the schedule is fired', () => {
  const last = (): Told => begun().put(5_000, 'z', { dueAt: 6_000 }, { client: AFTERWARDS });
  expect(last().look(9_000, [6_000, 'z']).complaints()).toHaveLength(1); // of 1.000 to 5.000 nothing was said
  expect(last().look(9_000).complaints()).toContain('nothing is pushed any more, although all is well');
});
