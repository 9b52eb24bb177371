/** Values of callers as the text that they are: what is written is what `JSON.stringify` would write. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { asShown, jsonOf, parseShown } from '../src/json-text.js';

/** Strings that a reader of brackets, quotes and names might take for something else. */
const text = fc.oneof(fc.string(), fc.constantFrom('"data":', ',"data":[', '\\', '\\"', '}', ']', '\\\\"', 'data'));
const { value } = fc.letrec<{ value: unknown }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 4 },
    text,
    fc.double({ noNaN: true, noDefaultInfinity: true }),
    fc.constantFrom(true, false, null),
    fc.array(tie('value'), { maxLength: 5 }),
    fc.dictionary(fc.oneof(text, fc.constant('data')), tie('value'), { maxKeys: 5 }),
  ),
}));

test('a member that is kept as its text is written again as it was', () => {
  fc.assert(
    fc.property(
      fc.dictionary(text, value, { maxKeys: 4 }),
      value,
      fc.dictionary(text, value),
      (before, data, after) => {
        const record = { ...before, data, ...after };
        const json = JSON.stringify(record);
        const parsed = parseShown(json, 'data') as Record<string, unknown>;
        expect(jsonOf(parsed)).toBe(JSON.stringify(JSON.parse(json)));
        expect(JSON.stringify(parsed)).toBe(jsonOf(parsed));
        const whole = JSON.parse(json) as Record<string, unknown>;
        if (typeof whole['data'] !== 'object') expect(parsed['data']).toEqual(whole['data']);
        else expect(jsonOf(parsed['data'])).toBe(JSON.stringify(whole['data']));
        const rest = [parsed, whole].map((one) => Object.entries(one).filter(([name]) => name !== 'data'));
        expect(rest[0]).toEqual(rest[1]);
      },
    ),
    { numRuns: 2_000 },
  );
});

test('what is kept as text is found wherever it is in a value', () => {
  fc.assert(
    fc.property(fc.array(value, { maxLength: 4 }), (values) => {
      const kept = values.map((one, i) => (i % 2 === 0 ? asShown(one) : { one: [asShown(one), i] }));
      const plain = values.map((one, i) => (i % 2 === 0 ? one : { one: [one, i] }));
      expect(jsonOf(asShown({ kept }))).toBe(JSON.stringify({ kept: plain }));
    }),
  );
});

test('what is no object, or not whole, is refused as ever', () => {
  for (const json of ['{"data":[1', '{"data":[]', '{"x":"data":[]}', '["data":[]]', '{"data":{"x":"}'])
    expect(() => parseShown(json, 'data'), json).toThrow(SyntaxError);
});
