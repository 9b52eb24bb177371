/** What a map of bounded size keeps, and what it forgets. */
import { expect, test } from 'vitest';
import { LruMap } from '../../src/lru-map.js';
import { eventually } from '../support/eventually.js';

test('an entry survives half as many uses of others as fit, and as many after it was read', () => {
  const map = new LruMap<number, string>(10);
  for (let i = 0; i < 6; i += 1) map.set(i, 'kept');
  expect(map.get(0)).toBe('kept');
  for (let i = 6; i < 10; i += 1) map.set(i, 'kept');
  expect(map.get(0)).toBe('kept');
  for (let i = 10; i < 20; i += 1) map.set(i, 'kept');
  expect(map.get(0)).toBeUndefined();
  expect(map.size).toBeLessThanOrEqual(10);
});

test('an entry that nobody uses any more is forgotten in time, and one that is used stays', async () => {
  const map = new LruMap<string, string>(1_000, 20);
  for (let i = 0; i < 100; i += 1) map.set(`ended-${i}`, 'seen');
  map.set('used', 'seen');
  await eventually('the others are forgotten', () => {
    expect(map.get('used')).toBe('seen');
    map.set('used', 'seen');
    return map.size === 1;
  });
});
