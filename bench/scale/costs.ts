/**
 * What requests cost the leader of three servers and the follower that passes them on, as CPU: the operating system's
 * figures for the two processes over a time in which nothing else is asked of them.
 */
import { startEnsemble } from '../../test/support/start-zookeeper.js';
import { openLease, TestControl } from '../../test/support/zookeeper/sessions.js';
import type { MultiOperation } from '../../src/zookeeper/operations.js';
import { usage } from '../processes.js';

/** µs of CPU per request. */
export interface Cost {
  readonly what: string;
  readonly leader: number;
  readonly follower: number;
}

/** Requests under way at once: enough that neither server waits for the next one. */
const AT_ONCE = 16;
/** Writes of one transaction. */
const GROUPS = [64, 16, 4, 1];
const SESSION_MS = 30_000;
/** Of each kind before it is measured, and once more before the first: what is used is compiled then. */
const WARM_UP_MS = 2_000;
const FIRST_WARM_UP_MS = 20_000;

const value = Buffer.alloc(100, 'v');

/** @param forMs of each kind of request */
export async function measureCosts(forMs: number): Promise<Cost[]> {
  await using ensemble = await startEnsemble({ jvmFlags: ['-XX:TieredStopAtLevel=4'] });
  const [leader, [follower]] = [await ensemble.leader(), await ensemble.followers()];
  if (follower === undefined) throw new Error('nobody follows');
  await using control = await TestControl.open(follower.connectString, { sessionTimeoutMs: SESSION_MS });
  for (let i = 0; i < Math.max(...GROUPS); i += 1) await control.create(`/n-${i}`, value);
  const cpu = (): number[] => [leader, follower].map(({ pid }) => 1e6 * usage(pid).cpuSeconds);
  const costs: Cost[] = [];
  const measure = async (what: string, request: () => Promise<unknown>): Promise<void> => {
    await repeat(request, WARM_UP_MS);
    const before = cpu();
    const requests = await repeat(request, forMs);
    const [ofLeader = NaN, ofFollower = NaN] = cpu().map((after, i) => (after - (before[i] as number)) / requests);
    costs.push({ what, leader: ofLeader, follower: ofFollower });
  };
  await repeat(() => control.multi(overwriting(1)), FIRST_WARM_UP_MS);
  for (const writes of GROUPS) await measure(transactionOf(writes), () => control.multi(overwriting(writes)));
  await measure('sync', () => control.sync());
  await measure('read', () => control.getData('/n-0'));
  await measure('session, begun and ended', async () => {
    const lease = await openLease(follower.connectString, { timeoutMs: SESSION_MS });
    await lease.close();
  });
  return costs;
}

/** The line that is nearest to the leader's figures of all transactions, by relative distance. */
export function fitted(costs: readonly Cost[]): { perTransactionUs: number; perWriteUs: number } {
  const points = GROUPS.map((writes) => {
    const us = costs.find(({ what }) => what === transactionOf(writes))?.leader ?? NaN;
    return { writes, us, weight: us ** -2 };
  });
  const sum = (of: (point: (typeof points)[number]) => number): number =>
    points.reduce((total, point) => total + point.weight * of(point), 0);
  const weights = sum(() => 1);
  const [writes, us] = [sum((point) => point.writes) / weights, sum((point) => point.us) / weights];
  const perWriteUs =
    sum((point) => (point.writes - writes) * (point.us - us)) / sum((point) => (point.writes - writes) ** 2);
  return { perTransactionUs: us - perWriteUs * writes, perWriteUs };
}

/** @returns how often it was done */
async function repeat(request: () => Promise<unknown>, forMs: number): Promise<number> {
  const until = performance.now() + forMs;
  let done = 0;
  const one = async (): Promise<void> => {
    for (; performance.now() < until; done += 1) await request();
  };
  await Promise.all(Array.from({ length: AT_ONCE }, one));
  return done;
}

const transactionOf = (writes: number): string => `transaction of ${writes}`;

function overwriting(count: number): MultiOperation[] {
  return Array.from({ length: count }, (_, i) => ({ type: 'setData', path: `/n-${i}`, data: value, version: -1 }));
}
