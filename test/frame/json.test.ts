import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { PosternError } from '../../src/errors.js';
import { parseJson as parse } from '../../src/http/frame/json.js';

const parseJson = (text: string): unknown => parse(text, Infinity);

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

/** Integers beyond 2^53 are refused. */
function withoutUnkept(_: string, value: unknown): unknown {
  return Number.isInteger(value) && !Number.isSafeInteger(value) ? String(value) : value;
}

describe('parseJson', () => {
  it('reads whatever JSON.stringify writes', () => {
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 6 }), fc.constantFrom(undefined, 1, '\t'), (value, space) => {
        const text = JSON.stringify(value, withoutUnkept, space);
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
        if (ours === 'refused' && theirs !== 'refused')
          expect(() => parseJson(text)).toThrow(/is there twice|the number is too large|the integer is beyond/);
        else expect(ours).toEqual(theirs);
      }),
      { numRuns: 3000 },
    );
  });

  it('refuses a number that it could only keep as another one', () => {
    const largest = Number.MAX_SAFE_INTEGER;
    // As JavaScript writes them.
    for (const kept of [largest, -largest, 0.1, 1e300, 5e-324, 2 ** 53, 1e20, -1.7e18, 1e21])
      expect(parseJson(`[${kept}]`)).toEqual([kept]);
    for (const changed of ['9007199254740993', '100000000000000000001', '-9007199254740993', '9'.repeat(400)])
      expect(() => parseJson(`{"id":${changed}}`)).toThrow(
        /at position 6, the (integer is beyond 9007199254740991|number is too large)/,
      );
    for (const endless of ['1e400', '-1E+309']) expect(() => parseJson(endless)).toThrow('the number is too large');
  });

  it('reads 64 levels and no more, however deep the text goes', () => {
    const nested = (depth: number): string => '['.repeat(depth) + ']'.repeat(depth);
    expect(parseJson(nested(64))).toBeInstanceOf(Array);
    expect(() => parseJson(`${'{"a":'.repeat(64)}1${'}'.repeat(64)}`)).not.toThrow();
    expect(() => parseJson(`[${nested(64)}]`)).not.toThrow();
    expect(() => parseJson(`[[${nested(64)}]]`)).toThrow('64 levels');
    expect(() => parseJson('['.repeat(1_000_000))).toThrow('64 levels');
  });

  it.each([1_000, 100_000])('reads %i values and no more where that is the limit, of whatever kind', (max) => {
    const parseJson = (text: string): unknown => parse(text, max);
    const list = (one: string, count: number): string => `[${Array(count).fill(one).join(',')}]`;
    for (const one of ['0', '"a"', '{}', '[]', 'null']) {
      expect(parseJson(list(one, max - 1))).toHaveLength(max - 1);
      expect(() => parseJson(list(one, max))).toThrow(
        expect.objectContaining({ code: 'too-large', members: { maxJsonValues: max } }) as Error,
      );
    }
    const members = (count: number): string =>
      JSON.stringify(Object.fromEntries(Array.from({ length: count }, (_, i) => [`n${i}`, 0])));
    expect(Object.keys(parseJson(members(max / 2 - 1)) as object)).toHaveLength(max / 2 - 1);
    expect(() => parseJson(members(max / 2))).toThrow(`more than ${max} values`);
  });
});
