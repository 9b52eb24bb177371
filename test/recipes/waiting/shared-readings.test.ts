/** A reading that many requests share, and its own time. */
import { afterEach, expect, test, vi } from 'vitest';
import { SharedReadings } from '../../../src/recipes/observing/shared-readings.js';
import { NoReplyError } from '../../../src/zookeeper/errors.js';

afterEach(() => void vi.useRealTimers());

test('a reading whose time was over, by a timer that rang early, is begun again for whoever has time left', async () => {
  vi.useFakeTimers({ toFake: ['performance', 'setTimeout', 'clearTimeout'] });
  const readings = new SharedReadings<string>('the reading');
  let begun = 0;
  const read = (until: number): Promise<string> => {
    begun += 1;
    if (begun > 1) return Promise.resolve('read');
    vi.advanceTimersByTime(until - performance.now() - 1);
    return Promise.reject(new NoReplyError('the reading', 'deadline', false));
  };
  const now = performance.now();
  expect(await readings.read('key', now, now + 60_000, read)).toBe('read');
});

test('whoever asks while it is read shares the next reading, which begins behind that one', async () => {
  const readings = new SharedReadings<number>('the reading');
  const ended: (() => void)[] = [];
  const read = (): Promise<number> => {
    const number = ended.length;
    return new Promise((resolve) => ended.push(() => resolve(number)));
  };
  const ask = (since: number): Promise<number> => readings.read('key', since, since + 60_000, read);
  const begun = performance.now();
  const first = [ask(begun), ask(begun)];
  const later = Array.from({ length: 100 }, () => ask(begun + 1_000));
  expect(ended).toHaveLength(1);
  ended[0]!();
  expect(await Promise.all(first)).toEqual([0, 0]);
  await vi.waitUntil(() => ended.length === 2);
  ended[1]!();
  expect(new Set(await Promise.all(later))).toEqual(new Set([1]));
  expect(ended).toHaveLength(2);
});

test('a reading that fails fails for those who share it, and the next one begins all the same', async () => {
  const readings = new SharedReadings<string>('the reading');
  let fail = (_error: Error): void => undefined;
  const begun = performance.now();
  const first = readings.read('key', begun, begun + 60_000, () => new Promise((_, reject) => (fail = reject)));
  const next = readings.read('key', begun + 1_000, begun + 60_000, () => Promise.resolve('read'));
  fail(new Error('broken'));
  await expect(first).rejects.toThrow('broken');
  expect(await next).toBe('read');
});
