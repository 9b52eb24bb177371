/** The leader's clock as we know it, and the sweep that ends what is late. */
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { deadlineSweep, type Swept } from '../../src/zookeeper/connection/deadline-sweep.js';
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

  it('does not let a slow round trip replace what is known better, however old that is', () => {
    const leaps: number[] = [];
    const clock = new ServerClock((ms) => leaps.push(ms));
    const first = performance.now();
    clock.observe(1_000_000, first, first);
    const stoodStill = (ms: number): void => {
      const sentAt = performance.now();
      const then = clock.now();
      vi.advanceTimersByTime(ms);
      clock.observe(then, sentAt, performance.now()); // told at the begin: half of it is not so
    };
    stoodStill(51);
    expect(clock.now()).toBeCloseTo(1_000_051, 3);
    vi.advanceTimersByTime(3_600_000);
    stoodStill(10_000);
    expect(clock.now()).toBeCloseTo(1_000_051 + 3_610_000, 3);
    expect(leaps).toEqual([]);
    stoodStill(5_000); // better by now than what may have drifted in an hour
    expect(Math.abs(clock.now() - (1_000_051 + 3_615_000))).toBeLessThanOrEqual(clock.errorMs);
    expect(clock.errorMs).toBeCloseTo(2_500, 3);
  });

  it('does not go back when the time becomes known better, only when it leaps', () => {
    const clock = new ServerClock();
    const wrote = (serverTime: number, tookMs: number): void => {
      const sentAt = performance.now();
      vi.advanceTimersByTime(tookMs);
      clock.observe(serverTime, sentAt, performance.now());
    };
    wrote(1_000_000, 40);
    const told = clock.now();
    wrote(1_000_001, 2); // the first one was stamped as late as it can be
    expect(clock.now()).toBe(told);
    expect(clock.earliest()).toBeLessThan(told - 15);
    vi.advanceTimersByTime(30);
    expect(clock.now()).toBeGreaterThan(told);
    wrote(900_000, 2); // another leader
    expect(clock.now()).toBeCloseTo(900_001, 3);
  });

  it('knows how far off it may be, and when it is surely so late', () => {
    const clock = new ServerClock();
    expect(clock.errorMs).toBe(Infinity);
    expect(clock.earliest()).toBe(Date.now());
    const sentAt = performance.now();
    vi.advanceTimersByTime(40);
    clock.observe(1_000_000, sentAt, performance.now());
    expect([clock.earliest(), clock.now(), clock.latest()]).toEqual([1_000_000, 1_000_020, 1_000_040]);
    vi.advanceTimersByTime(60_000);
    expect(clock.now() - clock.earliest()).toBeCloseTo(20 + 60, 3);
  });

  it('follows a clock that leaps, also where a slow round trip tells of it', () => {
    const leaps: number[] = [];
    const clock = new ServerClock((ms) => leaps.push(ms));
    const at = performance.now();
    clock.observe(1_000_000, at, at);
    clock.observe(9_000_000, at - 200, at);
    expect(clock.now()).toBeCloseTo(9_000_100, 3);
    expect(leaps).toEqual([8_000_100]);
    clock.observe(1_000_000, at, at);
    expect(clock.now()).toBeCloseTo(1_000_000, 3);
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
    await eventually('no timer is left', () => timers() === 0);
  });

  it('gives what is swept the time of the monotonic clock', async () => {
    let offMs: number | undefined;
    deadlineSweep.add({ sweep: (now) => ((offMs = Math.abs(now - performance.now())), false) });
    await eventually('it was looked at', () => offMs !== undefined);
    expect(offMs).toBeLessThan(1_000);
  });
});
