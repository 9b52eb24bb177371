/** Sets of prefixes, found as quickly as they are asked for. */
import { expect, test } from 'vitest';
import { coverOf, hasLonger, prefixIn } from '../../src/prefixes.js';

test('a cover leaves out what is given twice and what a shorter prefix covers', () => {
  expect(coverOf(['b', 'ab', 'a-1', 'ab', 'abc', 'b'])).toEqual(['a-1', 'ab', 'b']);
  expect(coverOf(['x', '', 'y'])).toEqual(['']);
  expect(coverOf([])).toEqual([]);
});

test('finds in a cover what comparing with every prefix finds', () => {
  const letters = ['a', 'b', '-', '/', '~'];
  const texts = [''];
  for (let from = 0; texts.length < 4_000; from += 1) texts.push(...letters.map((letter) => `${texts[from]}${letter}`));
  for (let step = 1; step < 400; step += 7) {
    const prefixes = texts.filter((text, i) => i % (step * 5 + 1) === step && text.length > 1);
    const cover = coverOf(prefixes);
    for (const text of texts) {
      expect(prefixIn(cover, text) !== undefined).toBe(prefixes.some((one) => text.startsWith(one)));
      expect(hasLonger(cover, text)).toBe(cover.some((one) => one !== text && one.startsWith(text)));
    }
  }
});
