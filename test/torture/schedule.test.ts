import { expect, test } from 'vitest';
import { FAULTS } from './faults.js';
import { LANES, makeSchedule } from './schedule.js';

const MINUTES = 60_000;

test('a seed repeats the schedule, and another one makes another', () => {
  const schedule = makeSchedule(7, 10 * MINUTES, FAULTS);
  expect(makeSchedule(7, 10 * MINUTES, FAULTS)).toEqual(schedule);
  expect(makeSchedule(8, 10 * MINUTES, FAULTS)).not.toEqual(schedule);
  // A longer run begins like a shorter one: what a long one found is found again in less time.
  const early = ({ at }: { at: number }): boolean => at < 9 * MINUTES;
  expect(makeSchedule(7, 30 * MINUTES, FAULTS).filter(early)).toEqual(schedule.filter(early));
});

test('every fault strikes within ten minutes, one after the other in each lane, and all are over before the end', () => {
  for (let seed = 0; seed < 100; seed += 1) {
    const schedule = makeSchedule(seed, 10 * MINUTES, FAULTS);
    expect(new Set(schedule.map(({ fault }) => fault))).toEqual(new Set(FAULTS.map(({ name }) => name)));
    for (const lane of LANES) {
      const blows = schedule.filter((blow) => blow.lane === lane);
      for (const [i, { at, lastsMs }] of blows.entries())
        expect(at + lastsMs).toBeLessThanOrEqual(blows[i + 1]?.at ?? 10 * MINUTES);
    }
  }
});
