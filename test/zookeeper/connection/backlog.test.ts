/** How much may be under way to ZooKeeper, told by made-up answers: the clock is the test's. */
import { describe, expect, test } from 'vitest';
import { Backlog } from '../../../src/zookeeper/connection/backlog.js';
import { BacklogLimit } from '../../../src/zookeeper/connection/backlog-limit.js';

const DELAY_MS = 100;
const LATE_MS = 5 * DELAY_MS;
const LOOK_MS = 250;
const UNDER_WAY_MIN = 64;

/**
 * An ensemble that answers `rate` requests a second in order, and clients that send as many as the limit lets them, up
 * to `clients` at once.
 */
class Scene {
  now = 0;
  readonly backlog = new Backlog();
  readonly limit = new BacklogLimit(this.backlog, DELAY_MS, 0);
  readonly #sentAt: number[] = [];
  #answered = 0;

  run(forMs: number, { rate, clients }: { rate: number; clients: number }): { mostUnderWay: number; delayMs: number } {
    let mostUnderWay = 0;
    let delayMs = 0;
    for (const end = this.now + forMs; this.now < end; this.now += 10) {
      for (this.#answered += rate / 100; this.#answered >= 1 && this.#sentAt.length > 0; this.#answered -= 1) {
        delayMs = this.now - (this.#sentAt.shift() as number);
        this.backlog.answered(this.now, delayMs, true);
      }
      this.#answered = Math.min(this.#answered, 1);
      while (this.backlog.size < clients && this.limit.admit()) {
        this.backlog.sent(this.now);
        this.#sentAt.push(this.now);
      }
      mostUnderWay = Math.max(mostUnderWay, this.backlog.size);
      this.limit.look(this.now);
    }
    return { mostUnderWay, delayMs };
  }
}

describe('the limit on what is under way to ZooKeeper', () => {
  test('is none while answers come in time, however many are under way', () => {
    const scene = new Scene();
    expect(scene.run(10_000, { rate: 10_000, clients: 4_000 }).mostUnderWay).toBe(4_000);
    expect(scene.limit.set).toBe(false);
  });

  test('brings a queue that takes ten seconds down to about what an answer may take, and lets the ensemble do all it can', () => {
    const scene = new Scene();
    scene.run(15_000, { rate: 500, clients: 5_000 });
    const { delayMs, mostUnderWay } = scene.run(10_000, { rate: 500, clients: 5_000 });
    expect(delayMs).toBeLessThan(2 * LATE_MS);
    expect(mostUnderWay).toBeGreaterThan(UNDER_WAY_MIN);
    expect(delayMs).toBeGreaterThan(0);
  });

  test('is lifted a second after the crowd has gone', () => {
    const scene = new Scene();
    scene.run(5_000, { rate: 500, clients: 5_000 });
    expect(scene.limit.set).toBe(true);
    scene.run(20_000, { rate: 500, clients: 10 });
    expect(scene.limit.set).toBe(false);
  });

  test('never refuses when few are under way, though ZooKeeper says nothing', () => {
    const scene = new Scene();
    expect(scene.run(10_000, { rate: 0, clients: UNDER_WAY_MIN - 1 }).mostUnderWay).toBe(UNDER_WAY_MIN - 1);
    expect(scene.limit.set).toBe(false);
    scene.run(10_000, { rate: 0, clients: 1_000 });
    expect(scene.limit.set).toBe(true);
    expect(scene.limit.admit()).toBe(false);
  });

  test('leaves new work a share, though heartbeats alone are more than it is', () => {
    const backlog = new Backlog();
    const limit = new BacklogLimit(backlog, DELAY_MS, 0);
    let admitted = 0;
    for (let i = 0; i < 100; i += 1) backlog.sent(0);
    for (let now = 0; now < 60_000; now += 10) {
      // Five hundred heartbeats a second that get later all the time: whatever is refused does not help.
      for (let i = 0; i < 5; i += 1) backlog.sent(now);
      for (let i = 0; i < 5; i += 1) backlog.answered(now, LATE_MS + now, true);
      if (now > 30_000 && limit.admit()) admitted += 1;
      limit.look(now);
    }
    expect(limit.set).toBe(true);
    expect(admitted).toBeGreaterThan(300);
    expect(admitted).toBeLessThan(3_000);
  });

  test('says nothing of a time in which this process stood still', () => {
    const scene = new Scene();
    scene.backlog.sent(0);
    for (let i = 0; i < 100; i += 1) scene.backlog.sent(scene.now);
    scene.limit.look(scene.now + LOOK_MS);
    scene.limit.look(scene.now + 5_000);
    expect(scene.limit.set).toBe(false);
  });

  test('does not look at what a server answers by itself, nor at what a lost connection took with it', () => {
    const backlog = new Backlog();
    for (let i = 0; i < 100; i += 1) backlog.sent(0);
    backlog.answered(1, 1, false);
    backlog.lost(39);
    expect(backlog.take(700)).toEqual({ delayMs: 700, answers: 0, largest: 100 });
    backlog.answered(800, 800, true);
    expect(backlog.take(800)).toEqual({ delayMs: 800, answers: 1, largest: 60 });
    backlog.lost(59);
    expect(backlog.take(900)).toMatchObject({ largest: 59 });
    expect(backlog.take(1_000)).toEqual({ delayMs: 0, answers: 0, largest: 0 });
  });
});
