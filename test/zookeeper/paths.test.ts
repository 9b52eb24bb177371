import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  baseName,
  formatSequence,
  join,
  LAST_SEQUENCE,
  nextSequence,
  parentOf,
  parseSequence,
} from '../../src/zookeeper/paths.js';

const anySequence = fc.integer({ min: 0, max: LAST_SEQUENCE });
/** What the recipes and other clients put in front of a sequence number. */
const prefix = fc.constantFrom('lock-', 'qn-', '_c_8d6e-lock-', 'x-123-', '__lock__', '');

describe('a sequence number', () => {
  it('is read as it was written', () => {
    fc.assert(
      fc.property(prefix, anySequence, (name, sequence) => {
        expect(parseSequence(name + formatSequence(sequence))).toBe(sequence);
      }),
    );
  });

  it.each([
    [0, '0000000000'],
    [12, '0000000012'],
    [2 ** 31 - 1, '2147483647'],
  ])('%i is written %s, as the server does', (sequence, text) => {
    expect(formatSequence(sequence)).toBe(text);
  });

  it.each([
    '',
    'lock',
    'lock-',
    'lock-123',
    'lock-000000001',
    'lock-0000000001x',
    'lock-00000-0001',
    'lock-2147483648',
  ])('is not found in %j', (name) => {
    expect(parseSequence(name)).toBeUndefined();
  });

  it('that comes next is told by the Stat of the directory, also where twice of it has no room in 32 bits', () => {
    fc.assert(
      fc.property(anySequence, fc.nat(10_000), (made, children) => {
        const numChildren = Math.min(made, children);
        expect(nextSequence({ cversion: (2 * made - numChildren) | 0, numChildren })).toBe(made);
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
