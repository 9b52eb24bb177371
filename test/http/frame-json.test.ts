import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { PosternError } from '../../src/errors.js';
import { parseJson } from '../../src/http/json.js';

function tried(parse: () => unknown): { value: unknown } | 'refused' {
  try {
    return { value: parse() };
  } catch (error) {
    if (error instanceof PosternError || error instanceof SyntaxError) return 'refused';
    throw error;
  }
}

/** Pieces that JSON is made of, so that random texts come close to it. */
const PIECES = [
  '{',
  '}',
  '[',
  ']',
  ',',
  ':',
  ' ',
  '\n',
  '"a"',
  '"b"',
  '"\\u0041"',
  '"\\x"',
  '""',
  '"',
  '1',
  '-0.5e+3',
  '01',
  '.5',
  '-',
  'true',
  'null',
  'nul',
  '\u0001',
  'é',
];

describe('parseJson', () => {
  it('reads whatever JSON.stringify writes', () => {
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 6 }), fc.constantFrom(undefined, 1, '\t'), (value, space) => {
        const text = JSON.stringify(value, null, space);
        fc.pre(!text.includes('__proto__'));
        expect(parseJson(text)).toEqual(JSON.parse(text));
      }),
    );
  });

  it('accepts nothing that JSON.parse refuses, and refuses nothing else but what is there twice', () => {
    fc.assert(
      fc.property(fc.array(fc.constantFrom(...PIECES), { maxLength: 12 }), (pieces) => {
        const text = pieces.join('');
        const ours = tried(() => parseJson(text));
        const theirs = tried(() => JSON.parse(text));
        if (ours === 'refused' && theirs !== 'refused') expect(() => parseJson(text)).toThrow('is there twice');
        else expect(ours).toEqual(theirs);
      }),
      { numRuns: 3000 },
    );
  });

  it('reads 64 levels and no more, however deep the text goes', () => {
    const nested = (depth: number): string => '['.repeat(depth) + ']'.repeat(depth);
    expect(parseJson(nested(64))).toBeInstanceOf(Array);
    expect(() => parseJson(`${'{"a":'.repeat(64)}1${'}'.repeat(64)}`)).not.toThrow();
    expect(() => parseJson(`[${nested(64)}]`)).not.toThrow();
    expect(() => parseJson(`[[${nested(64)}]]`)).toThrow('64 levels');
    expect(() => parseJson('['.repeat(1_000_000))).toThrow('64 levels');
  });
});
