/** The herd factor that the console reads from the metrics. */
import { expect, it } from 'vitest';
import { countsIn, factorOf } from '../../src/console/words/herd.js';

it('is wake-ups for each hand-over, over all kinds', () => {
  const counts = countsIn(
    [
      '# TYPE postern_wakeups_total counter',
      'postern_wakeups_total{kind="lock"} 6',
      'postern_wakeups_total{kind="queue"} 3',
      'postern_handoffs_total{kind="lock"} 6',
      'postern_handoffs_total_created 9',
    ].join('\n'),
  );
  expect(counts).toEqual({ wakeups: 9, handoffs: 6 });
  expect(factorOf(counts)).toBe(1.5);
});

it('is unknown while nothing was handed over', () => {
  expect(factorOf(countsIn(''))).toBeUndefined();
});
