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
