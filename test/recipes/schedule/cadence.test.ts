/** When schedules are due, above all where the clocks change. */
import { describe, expect, test } from 'vitest';
import { InvalidError } from '../../../src/errors.js';
import { Cadence, checkCadence, timeZoneOf } from '../../../src/recipes/schedule/cadence.js';
import { HOUR, MINUTE } from '../../../src/time.js';

const at = (text: string): number => Date.parse(text);
const cadenceOf = (cron: string, timeZone = 'UTC'): Cadence => new Cadence({ cron, timeZone }, { seconds: false });

function dues(cron: string, timeZone: string, from: string, until: string): string[] {
  const cadence = cadenceOf(cron, timeZone);
  const found: string[] = [];
  for (let due = cadence.nextAfter(at(from)); due !== undefined && due < at(until); due = cadence.nextAfter(due))
    found.push(new Date(due).toISOString().slice(0, 16));
  return found;
}

describe('where the clocks change', () => {
  test.each([
    // Europe/Berlin, 29 March 2026: 02:00 CET is 03:00 CEST, which is 01:00 UTC.
    ['30 2 * * *', 'Europe/Berlin', '2026-03-28T12:00Z', ['2026-03-29T01:00', '2026-03-30T00:30']],
    ['0 2 * * *', 'Europe/Berlin', '2026-03-28T12:00Z', ['2026-03-29T01:00', '2026-03-30T00:00']],
    ['0 3 * * *', 'Europe/Berlin', '2026-03-28T12:00Z', ['2026-03-29T01:00', '2026-03-30T01:00']],
    ['0,30 2 * * *', 'Europe/Berlin', '2026-03-28T12:00Z', ['2026-03-30T00:00', '2026-03-30T00:30']],
    ['0 1-4 * * *', 'Europe/Berlin', '2026-03-28T12:00Z', ['2026-03-29T00:00', '2026-03-29T01:00', '2026-03-29T02:00']],
    // 25 October 2026: 03:00 CEST is 02:00 CET, which is 01:00 UTC.
    ['30 2 * * *', 'Europe/Berlin', '2026-10-24T12:00Z', ['2026-10-25T00:30', '2026-10-26T01:30']],
    ['0 3 * * *', 'Europe/Berlin', '2026-10-24T12:00Z', ['2026-10-25T02:00', '2026-10-26T02:00']],
    [
      '*/30 2 * * *',
      'Europe/Berlin',
      '2026-10-24T12:00Z',
      ['2026-10-25T00:00', '2026-10-25T00:30', '2026-10-25T01:00', '2026-10-25T01:30', '2026-10-26T01:00'],
    ],
    ['0 * * * *', 'Europe/Berlin', '2026-10-24T22:30Z', ['2026-10-24T23:00', '2026-10-25T00:00', '2026-10-25T01:00']],
    // America/New_York, 8 March 2026: 02:00 EST is 03:00 EDT, which is 07:00 UTC.
    ['30 2 * * *', 'America/New_York', '2026-03-07T12:00Z', ['2026-03-08T07:00', '2026-03-09T06:30']],
    ['*/30 * * * *', 'America/New_York', '2026-03-08T06:20Z', ['2026-03-08T06:30', '2026-03-08T07:00']],
    // 1 November 2026: 02:00 EDT is 01:00 EST, which is 06:00 UTC.
    ['30 1 * * *', 'America/New_York', '2026-10-31T12:00Z', ['2026-11-01T05:30', '2026-11-02T06:30']],
    [
      '30 0-2 * * *',
      'America/New_York',
      '2026-11-01T04:00Z',
      ['2026-11-01T04:30', '2026-11-01T05:30', '2026-11-01T06:30'],
    ],
    // America/Nuuk, 28 March 2026: 23:00 is 00:00 of the next day, which is 01:00 UTC.
    ['45 23 * * *', 'America/Nuuk', '2026-03-28T12:00Z', ['2026-03-29T01:00', '2026-03-30T00:45']],
    ['0 0 * * *', 'America/Nuuk', '2026-03-28T12:00Z', ['2026-03-29T01:00', '2026-03-30T01:00']],
    // 24 October 2026: 00:00 of the next day is 23:00, which is 01:00 UTC of that day.
    ['45 23 * * *', 'America/Nuuk', '2026-10-24T12:00Z', ['2026-10-25T00:45', '2026-10-26T01:45']],
  ])('%s in %s after %s', (cron, timeZone, from, expected) => {
    const until = new Date(at(`${expected.at(-1)}:00Z`) + 1).toISOString();
    expect(dues(cron, timeZone, from, until)).toEqual(expected);
  });

  test.each([
    '30 2 * * *',
    '45 23 * * *',
    '*/30 * * * *',
    '15,45 1-3 * * *',
    '30 1 * * *',
    '0 2 * * 0',
    '7-59/13 2 * * *',
  ])('what is due for %s does not depend on since when one looks, forwards or backwards', (cron) => {
    for (const [timeZone, ...changes] of [
      ['Europe/Berlin', '2026-03-29T00:00Z', '2026-10-25T00:00Z'],
      ['America/New_York', '2026-03-08T00:00Z', '2026-11-01T00:00Z'],
      ['Australia/Lord_Howe', '2026-04-04T00:00Z', '2026-10-03T00:00Z'],
    ] as const) {
      const cadence = cadenceOf(cron, timeZone);
      for (const change of changes) {
        const [from, until] = [at(change) - 36 * HOUR, at(change) + 60 * HOUR];
        const set: number[] = [];
        for (let due = cadence.nextAfter(from)!; due < until; due = cadence.nextAfter(due)!) set.push(due);
        for (let i = 1; i < set.length; i += 1) {
          const [before, next] = [set[i - 1]!, set[i]!];
          expect(next).toBeGreaterThan(before);
          for (let look = before; look < next; look += Math.max(20 * MINUTE, (next - before) / 5))
            expect(cadence.nextAfter(look)).toBe(next);
          expect(cadence.lastBefore(next)).toBe(before);
        }
      }
    }
  });
});

test('the day of the month or the day of the week is enough, and weekdays have names', () => {
  expect(dues('0 0 13 * FRI', 'UTC', '2026-11-10T00:00Z', '2026-11-21T00:00Z')).toEqual([
    '2026-11-13T00:00',
    '2026-11-20T00:00',
  ]);
  expect(dues('0 0 L * *', 'UTC', '2026-02-01T00:00Z', '2026-04-01T00:00Z')).toEqual([
    '2026-02-28T00:00',
    '2026-03-31T00:00',
  ]);
});

test('seconds are understood where they are allowed, and only there', () => {
  const everySecond = { cron: '* * * * * *', timeZone: 'UTC' };
  expect(new Cadence(everySecond, { seconds: true }).nextAfter(1_000)).toBe(2_000);
  expect(() => new Cadence(everySecond, { seconds: false })).toThrow(/^cron is "\* \* \* \* \* \*"; it must be .*five/);
});

test.each([
  ['61 * * * *', 'UTC', /^cron is "61 \* \* \* \*"; .*minute: 61/],
  ['0 3 * *', 'UTC', /^cron is "0 3 \* \*"; it must be .*five/],
  ['*/0 * * * *', 'UTC', /^cron is .*stepping/],
  ['0 5-1 * * *', 'UTC', /^cron is .*5-1/],
  ['0 3 * * NOPE', 'UTC', /^cron is "0 3 \* \* NOPE"/],
  ['0 0 31 2 *', 'UTC', /^cron is "0 0 31 2 \*"; it must be due at some time/],
  ['0 3 * * *', 'Mars/Base', /^timeZone is "Mars\/Base"; it must be a time zone/],
])('%s in %s is refused, naming field and value', (cron, timeZone, sentence) => {
  expect(() => checkCadence({ cron, timeZone }, false, at('2026-01-01T00:00Z'))).toThrow(InvalidError);
  expect(() => checkCadence({ cron, timeZone }, false, at('2026-01-01T00:00Z'))).toThrow(sentence);
});

test('a schedule of leap years is found', () => {
  expect(cadenceOf('0 0 29 2 *').nextAfter(at('2026-01-01T00:00Z'))).toBe(at('2028-02-29T00:00Z'));
});

test('a time zone has one spelling, however it is written', () => {
  for (const written of ['America/Argentina/Ushuaia', 'america/argentina/ushuaia', 'AMERICA/ARGENTINA/USHUAIA'])
    expect(timeZoneOf(written)).toBe('America/Argentina/Ushuaia');
});
