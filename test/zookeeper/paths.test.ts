import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  baseName,
  compareSequences,
  formatSequence,
  join,
  parentOf,
  parseSequence,
} from '../../src/zookeeper/paths.js';

const int32 = fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 });
/** What the recipes and other clients put in front of a sequence number. */
const prefix = fc.constantFrom('lock-', 'qn-', '_c_8d6e-lock-', 'x-123-', '__lock__', '');

describe('a sequence number', () => {
  it('is read as it was written, also when the counter has wrapped to negative', () => {
    fc.assert(
      fc.property(prefix, int32, (name, sequence) => {
        fc.pre(name !== '' || sequence >= 0); // without a separator a '-' could be one
        expect(parseSequence(name + formatSequence(sequence))).toBe(sequence);
      }),
    );
  });

  it.each([
    [0, '0000000000'],
    [12, '0000000012'],
    [2 ** 31 - 1, '2147483647'],
    [-1, '-000000001'],
    [-(2 ** 31), '-2147483648'],
  ])('%i is written %s, as the server does', (sequence, text) => {
    expect(formatSequence(sequence)).toBe(text);
  });

  it.each(['', 'lock', 'lock-', 'lock-123', 'lock-000000001', 'lock-0000000001x', 'lock-00000-0001'])(
    'is not found in %j',
    (name) => {
      expect(parseSequence(name)).toBeUndefined();
    },
  );

  it('is compared by age, across the wrap', () => {
    const line = [2 ** 31 - 2, 2 ** 31 - 1, -(2 ** 31), -(2 ** 31) + 1];
    expect([...line].reverse().sort(compareSequences)).toEqual(line);
    expect([7, 0, -3].sort(compareSequences)).toEqual([-3, 0, 7]);
    fc.assert(
      fc.property(int32, fc.integer({ min: 1, max: 2 ** 31 - 1 }), (earlier, steps) => {
        const later = (earlier + steps) | 0;
        expect(compareSequences(earlier, later)).toBeLessThan(0);
        expect(compareSequences(later, earlier)).toBeGreaterThan(0);
        expect(compareSequences(earlier, earlier)).toBe(0);
      }),
    );
  });
});

describe('a path', () => {
  it('is taken apart and put together again', () => {
    const part = fc.stringMatching(/^[^/\0]{1,12}$/);
    fc.assert(
      fc.property(fc.array(part, { minLength: 1, maxLength: 5 }), (parts) => {
        const path = join('', ...parts);
        expect(baseName(path)).toBe(parts.at(-1));
        expect(parentOf(path)).toBe(parts.length === 1 ? '/' : join('', ...parts.slice(0, -1)));
      }),
    );
    expect(parentOf('/')).toBe('/');
  });
});
