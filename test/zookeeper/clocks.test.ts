/** The leader's clock as we know it, and the sweep that ends what is late. */
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { deadlineSweep, type Swept } from '../../src/zookeeper/deadline-sweep.js';
import { ServerClock } from '../../src/zookeeper/server-clock.js';
import { eventually, throughout } from '../support/eventually.js';

describe('the clock of the ensemble', () => {
  beforeEach(() => {
    vi.useFakeTimers({ toFake: ['Date', 'performance'] });
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  it('is ours until a write was seen, then the leader’s, carried forward by the monotonic clock', () => {
    const clock = new ServerClock();
    expect(clock.now()).toBe(Date.now());
    const sentAt = performance.now();
    vi.advanceTimersByTime(20);
    clock.observe(1_000_000, sentAt, performance.now());
    expect(clock.now()).toBeCloseTo(1_000_010, 3);
    vi.setSystemTime(0); // nobody's wall clock matters now
    vi.advanceTimersByTime(5_000);
    expect(clock.now()).toBeCloseTo(1_005_010, 3);
  });

  it('takes no sample from a slow round trip, unless the last good one is old', () => {
    const clock = new ServerClock();
    const at = performance.now();
    clock.observe(1_000_000, at, at);
    clock.observe(9_000_000, at, at + 51);
    expect(clock.now()).toBeCloseTo(1_000_000, 3);
    vi.advanceTimersByTime(61_000);
    const later = performance.now();
    clock.observe(9_000_000, later - 200, later);
    expect(clock.now()).toBeCloseTo(9_000_100, 3);
  });

  it('takes a slow first sample: better than none', () => {
    const clock = new ServerClock();
    const at = performance.now();
    clock.observe(1_000_000, at - 400, at);
    expect(clock.now()).toBeCloseTo(1_000_200, 3);
  });
});

describe('the deadline sweep', () => {
  it('looks at what waits until nothing waits, and rests then', async () => {
    const timers = (): number => process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length;
    let left = 3;
    const waiting: Swept = { sweep: () => (left -= 1) > 0 };
    deadlineSweep.add(waiting);
    deadlineSweep.add(waiting);
    await eventually('it was looked at until it was done', () => left === 0);
    await throughout('and not again', () => left === 0, { forMs: 100 });
    deadlineSweep.add({ sweep: () => ((left = 10), false) });
    await eventually('it starts again', () => left === 10);
    expect(timers()).toBe(0);
  });

  it('gives what is swept the time of the monotonic clock', async () => {
    let given: number | undefined;
    deadlineSweep.add({ sweep: (now) => ((given = now), false) });
    await eventually('it was looked at', () => given !== undefined);
    expect(Math.abs((given as number) - performance.now())).toBeLessThan(1_000);
  });
});
