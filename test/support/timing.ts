/**
 * The one place that every wait of the tests derives from. `TEST_TIMING_MULTIPLE=3` gives a slow machine three times as
 * long before a test is called failed; it does not make a passing test slower.
 */
import { env } from 'node:process';

const multiple = readMultiple();

export const timing = {
  /** How often a condition is looked at. */
  pollMs: 10,
  /** What should happen soon, happens within this. */
  eventuallyMs: scaled(10_000),
  /** A server process (ZooKeeper, the gateway) serves within this; less than a hook has, so that its log is seen. */
  startMs: scaled(40_000),
  /** What waits for processes that start, stop or elect ends within this. */
  processMs: scaled(60_000),
  /** One test; a test that provokes long faults names its own, through {@link scaled}. */
  testMs: scaled(30_000),
  /** Long enough to see that something which would happen at once does not happen. */
  quietMs: scaled(300),
  /** ZooKeeper's tick in tests. Not scaled: the shortest TTL, two ticks, follows from it. */
  tickMs: 200,
} as const;

/** A deadline of a test's own, in ms, stretched as all the others are. */
export function scaled(ms: number): number {
  return Math.round(ms * multiple);
}

function readMultiple(): number {
  const text = env['TEST_TIMING_MULTIPLE'];
  if (text === undefined || text === '') return 1;
  const value = Number(text);
  if (!(value > 0)) throw new Error(`TEST_TIMING_MULTIPLE is "${text}": give a positive number`);
  return value;
}
