/** What becomes of a schedule that is due, late, refused or written anew. */
import { describe, expect, test } from 'vitest';
import { Cadence } from '../../../src/recipes/schedule/cadence.js';
import { configured, nextStep, refusedAt } from '../../../src/recipes/schedule/decide.js';
import type { Misfire, ScheduleRecord } from '../../../src/recipes/schedule/schedule.js';
import { HOUR, MINUTE, SECOND } from '../../../src/time.js';

const GRACE_MS = MINUTE;
const NOON = Date.parse('2026-06-01T12:00Z');
const hourly = new Cadence({ cron: '0 * * * *', timeZone: 'UTC' }, { seconds: false });
const minutely = new Cadence({ cron: '* * * * *', timeZone: 'UTC' }, { seconds: false });

function record(misfire: Misfire, more: Partial<ScheduleRecord> = {}): ScheduleRecord {
  const to = { queue: 'jobs', body: {} };
  return { cron: '0 * * * *', timeZone: 'UTC', to, misfire, paused: false, principal: 'me', dueAt: NOON, ...more };
}

describe('an occurrence', () => {
  test('is not pushed before its time', () => {
    expect(nextStep(record('skip'), hourly, NOON - 1, GRACE_MS)).toBeUndefined();
    const { dueAt: _dueAt, ...paused } = record('skip', { paused: true });
    expect(nextStep(paused, hourly, NOON + HOUR, GRACE_MS)).toBeUndefined();
  });

  test.each(['skip', 'once'] as const)(
    'is pushed up to the grace after its time, one after the other (%s)',
    (misfire) => {
      const late = record(misfire, { dueAt: NOON });
      const now = NOON + 100 * SECOND;
      const first = nextStep(late, minutely, now, 2 * MINUTE)!;
      expect(first).toMatchObject({ occurrence: NOON, missed: undefined });
      expect(first.next).toMatchObject({ dueAt: NOON + MINUTE, fired: { occurrence: NOON, at: now } });
      const second = nextStep(first.next, minutely, now, 2 * MINUTE)!;
      expect(second).toMatchObject({ occurrence: NOON + MINUTE, next: { dueAt: NOON + 2 * MINUTE } });
      expect(nextStep(second.next, minutely, now, 2 * MINUTE)).toBeUndefined();
    },
  );

  test('that is missed is passed over with "skip", and those before it; what is in time then is pushed', () => {
    const step = nextStep(record('skip'), hourly, NOON + 3 * HOUR + SECOND, GRACE_MS)!;
    expect(step).toMatchObject({ occurrence: undefined, missed: { count: 3, occurrence: NOON + 2 * HOUR } });
    expect(step.next).toMatchObject({ dueAt: NOON + 3 * HOUR, missed: { count: 3, occurrence: NOON + 2 * HOUR } });
    expect(step.next.fired).toBeUndefined();
    expect(nextStep(step.next, hourly, NOON + 3 * HOUR + SECOND, GRACE_MS)).toMatchObject({
      occurrence: NOON + 3 * HOUR,
    });
  });

  test('that is missed is pushed with "once" if it is the latest, and those before it are counted', () => {
    const step = nextStep(
      record('once', { missed: { count: 4, occurrence: 1 } }),
      hourly,
      NOON + 3.5 * HOUR,
      GRACE_MS,
    )!;
    expect(step).toMatchObject({ occurrence: NOON + 3 * HOUR, missed: { count: 3, occurrence: NOON + 2 * HOUR } });
    expect(step.next).toMatchObject({
      dueAt: NOON + 4 * HOUR,
      fired: { occurrence: NOON + 3 * HOUR, at: NOON + 3.5 * HOUR },
      missed: { count: 7, occurrence: NOON + 2 * HOUR },
    });
    const single = nextStep(record('once'), hourly, NOON + 0.5 * HOUR, GRACE_MS)!;
    expect(single).toMatchObject({ occurrence: NOON, missed: undefined, next: { dueAt: NOON + HOUR } });
  });

  test('of which there were very many is found without counting them all', () => {
    const year = 365 * 24 * HOUR;
    const step = nextStep(record('once'), minutely, NOON + year + 90 * SECOND, GRACE_MS)!;
    expect(step.occurrence).toBe(NOON + year);
    expect(step.missed?.count).toBeLessThanOrEqual(60);
    expect(step.next.dueAt).toBe(NOON + year + MINUTE);
  });

  test('that the queue refuses stays due, and those before it are missed', () => {
    const before = record('once');
    const step = nextStep(before, hourly, NOON + 1.5 * HOUR, GRACE_MS)!;
    const refusal = { at: NOON + 1.5 * HOUR, code: 'queue-full', detail: 'The queue is full.' };
    const refused = refusedAt(before, step, refusal);
    expect(refused).toMatchObject({
      dueAt: NOON + HOUR,
      missed: { count: 1, occurrence: NOON },
      refused: { occurrence: NOON + HOUR, ...refusal },
    });
    const later = nextStep(refused, hourly, NOON + 1.6 * HOUR, GRACE_MS)!;
    expect(later).toMatchObject({ occurrence: NOON + HOUR, missed: undefined });
    expect(later.next.refused).toBeUndefined();
  });
});

describe('a schedule that is written', () => {
  const { dueAt: _dueAt, ...config } = record('skip');

  test('begins after now', () => {
    expect(configured(undefined, config, hourly, NOON).dueAt).toBe(NOON + HOUR);
    expect(configured(undefined, config, hourly, NOON - 1).dueAt).toBe(NOON);
  });

  test('goes on with what is due, unless the times are others', () => {
    const before = record('skip', { fired: { occurrence: NOON - HOUR, at: NOON } });
    const now = NOON + 10 * SECOND;
    const other = { ...config, to: { queue: 'other', body: 1 } };
    expect(configured(before, other, hourly, now)).toMatchObject({ dueAt: NOON, to: other.to, fired: before.fired });
    const moved = configured(before, { ...config, timeZone: 'Europe/Berlin' }, hourly, now);
    expect(moved).toMatchObject({ dueAt: NOON + HOUR, fired: before.fired });
  });

  test('and paused is not due; when it goes on, what lay between is not missed', () => {
    const paused = configured(record('once'), { ...config, paused: true }, hourly, NOON);
    expect(paused.dueAt).toBeUndefined();
    const again = configured(paused, { ...config, paused: false }, hourly, NOON + 5.5 * HOUR);
    expect(again.dueAt).toBe(NOON + 6 * HOUR);
    expect(again.missed).toBeUndefined();
  });

  test('after the clock went back, is not due again for what was settled', () => {
    const ahead = record('skip', { fired: { occurrence: NOON + 2 * HOUR, at: NOON + 2 * HOUR } });
    expect(configured(ahead, { ...config, cron: '*/30 * * * *' }, hourly, NOON).dueAt).toBe(NOON + 3 * HOUR);
  });
});
