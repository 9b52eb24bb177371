/** How the console says durations, numbers, values and names. */
import { describe, expect, it } from 'vitest';
import { age, duration, until } from '../../src/console/words/age.js';
import { fullNameOf, nameOf } from '../../src/console/words/holder.js';
import { bytes, quantity } from '../../src/console/words/quantity.js';
import { bounded, textOf, textOfBytes } from '../../src/console/words/value.js';

describe('durations', () => {
  it.each([
    [0, '0 s'],
    [-5_000, '0 s'],
    [250, '250 ms'],
    [1_000, '1 s'],
    [61_000, '1 m 1 s'],
    [3_600_000, '1 h'],
    [3_660_000, '1 h 1 m'],
    [90_061_000, '1 d 1 h'],
  ])('%i ms are %s', (ms, text) => {
    expect(duration(ms)).toBe(text);
  });

  it('count in whole seconds from an instant, and not backwards', () => {
    const now = Date.parse('2026-01-01T00:01:00.900Z');
    expect(age('2026-01-01T00:00:00.000Z', now)).toBe('1 m');
    expect(age('2026-01-01T00:02:00.000Z', now)).toBe('0 s');
    expect(age(null, now)).toBe('–');
  });
});

describe('what is to come', () => {
  it.each([
    ['2026-01-01T00:00:00.001Z', 'in 1 s'],
    ['2026-01-01T01:01:00.000Z', 'in 1 h 1 m'],
    ['2026-01-01T00:00:00.000Z', 'now'],
    ['2025-12-31T23:00:00.000Z', 'now'],
  ])('at %s is %s', (instant, text) => {
    expect(until(instant, Date.parse('2026-01-01T00:00:00.000Z'))).toBe(text);
  });
});

describe('quantities', () => {
  it('agree with their nouns', () => {
    expect([0, 1, 2_000].map((count) => quantity(count, 'waiter'))).toEqual(['0 waiters', '1 waiter', '2,000 waiters']);
    expect([quantity(1, 'delivery', 'deliveries'), quantity(2, 'delivery', 'deliveries')]).toEqual([
      '1 delivery',
      '2 deliveries',
    ]);
  });

  it('of bytes have a unit', () => {
    expect([0, 1_023, 1_536, 3 * 1_048_576].map(bytes)).toEqual(['0 B', '1023 B', '1.5 KiB', '3.0 MiB']);
  });
});

describe('values', () => {
  it('are shown as they are, up to a bound', () => {
    expect(textOf('<b>')).toBe('<b>');
    expect(textOf({ a: 1 })).toBe('{\n  "a": 1\n}');
    expect(textOf(undefined)).toBe('');
    expect(bounded('abcdef', 4)).toBe('abcd… (2 more characters)');
  });

  it('are bytes if they are no text', () => {
    expect(textOfBytes(new TextEncoder().encode('ä'))).toBe('ä');
    expect(textOfBytes(Uint8Array.of(0xff, 0))).toBe('ff 00');
  });
});

describe('names', () => {
  it('are the label, or else what is known', () => {
    const one = { label: 'backup', principal: 'ops', leaseId: '0123456789abcdef' };
    expect([nameOf(one), fullNameOf(one)]).toEqual(['backup', 'backup (ops, lease 01234567…)']);
    expect(nameOf({ ...one, label: '' })).toBe('lease 01234567');
    expect(nameOf({ label: null, leaseId: null, principal: null, external: true })).toContain('not Postern’s');
  });

  it('cannot turn around what stands beside them', () => {
    const one = { label: '\u202Eevil\u0007\u2066', principal: 'ops' };
    expect(fullNameOf(one)).toBe('\\u202eevil\\u0007\\u2066 (ops)');
    expect(textOf('a\n\tb\u200F👩‍💻 שלום')).toBe('a\n\tb\\u200f👩‍💻 שלום');
  });
});
