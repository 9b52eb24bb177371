/** What Postern must reach: ratios of figures of one run, or figures that no machine changes much. */
import type { Measured } from './generator/job.js';
import { median, spreadOf, type Spread } from './statistics.js';
import type { SystemName } from './workloads.js';

type Figure = (measured: Measured) => number | undefined;

export interface Goal {
  /** As in the list of goals. */
  readonly id: string;
  readonly workload: string;
  /** What is compared, for people. */
  readonly what: string;
  readonly of: Figure;
  /** Absent: the figure itself is judged. */
  readonly against?: { readonly system: SystemName; readonly workload?: string; readonly of?: Figure };
  readonly atLeast?: number;
  readonly atMost?: number;
}

/** By workload and system, one of each round. */
export type Results = Record<string, Partial<Record<SystemName, Measured[]>>>;

export interface Verdict {
  readonly goal: Goal;
  /** Undefined when one of the two was not measured. */
  readonly ratio: Spread | undefined;
  readonly reached: boolean | undefined;
}

const rate: Figure = (measured) => measured.rate;
const p50: Figure = (measured) => measured.p50;
const p99: Figure = (measured) => measured.p99;
const gatewayCpu: Figure = (measured) => measured.cpu['gateway'];
const storeCpu: Figure = (measured) => measured.cpu['store'];
const figure =
  (name: string): Figure =>
  (measured) =>
    measured.figures[name];

const ETCD = { system: 'etcd' } as const;
const CURATOR = { system: 'curator' } as const;
const WEBDIS = { system: 'webdis' } as const;
const REQUESTS = figure('ZooKeeper requests / hand-off');

export const GOALS: readonly Goal[] = [
  { id: 'L1', workload: 'L1', what: 'rate', of: rate, against: ETCD, atLeast: 1.5 },
  { id: 'L1', workload: 'L1', what: 'rate', of: rate, against: { system: 'zookeeper' }, atLeast: 0.55 },
  { id: 'L2', workload: 'L1', what: 'p99, closed loop', of: p99, against: ETCD, atMost: 0.8 },
  { id: 'L2', workload: 'L2', what: 'p99, open loop', of: p99, against: ETCD, atMost: 1.2 },
  { id: 'L3', workload: 'L3', what: 'median of a pair', of: p50, against: ETCD, atMost: 0.9 },
  { id: 'C1', workload: 'C1', what: 'rate', of: rate, against: ETCD, atLeast: 2.2 },
  { id: 'C1', workload: 'C1', what: 'rate', of: rate, against: CURATOR, atLeast: 1.2 },
  { id: 'C2', workload: 'C2', what: 'rate', of: rate, against: ETCD, atLeast: 20 },
  { id: 'C2', workload: 'C2-hold', what: 'rate', of: rate, against: ETCD, atLeast: 2.2 },
  { id: 'C3', workload: 'C3-1000', what: 'events per hand-off', of: figure('events / hand-off'), atMost: 1.005 },
  { id: 'C3', workload: 'C3-1000', what: 'requests per hand-off', of: REQUESTS, atMost: 2.1 },
  {
    id: 'C3',
    workload: 'C3-1000',
    what: 'requests per hand-off, against 10 waiters',
    of: REQUESTS,
    against: { system: 'postern', workload: 'C3-10' },
    atLeast: 0.9,
    atMost: 1.1,
  },
  {
    id: 'C3',
    workload: 'C3-1000',
    what: 'rate, against naive watches',
    of: rate,
    against: { system: 'zookeeper' },
    atLeast: 35,
  },
  { id: 'Q1', workload: 'Q1-1', what: 'rate', of: rate, against: CURATOR, atLeast: 3 },
  { id: 'Q1', workload: 'Q1-16', what: 'rate', of: rate, against: CURATOR, atLeast: 8 },
  { id: 'Q1', workload: 'Q1-64', what: 'rate', of: rate, against: CURATOR, atLeast: 50 },
  { id: 'Q1', workload: 'Q1-64', what: 'rate', of: rate, against: WEBDIS, atLeast: 0.45 },
  {
    id: 'Q2',
    workload: 'Q2',
    what: 'rate of push and pop, against depth 1 000',
    of: figure('push and pop, of the rate at 1000'),
    atLeast: 0.9,
  },
  {
    id: 'Q2',
    workload: 'Q2',
    what: 'rate of claim and ack, against depth 1 000',
    of: figure('claim and ack, of the rate at 1000'),
    atLeast: 0.9,
  },
  { id: 'Q2', workload: 'Q2', what: 'largest reply, KiB', of: figure('largest reply of ZooKeeper, KiB'), atMost: 64 },
  { id: 'Q3', workload: 'Q2', what: 'first pop after a start, ms', of: figure('first pop, ms'), atMost: 1_000 },
  {
    id: 'Q3',
    workload: 'Q2',
    what: 'stall of the event loop, ms',
    of: figure('stall of the event loop, ms'),
    atMost: 50,
  },
  { id: 'Q4', workload: 'Q4', what: 'bulk pushes, against single ones', of: figure('bulk / single'), atLeast: 10 },
  { id: 'H1', workload: 'H1', what: 'rate', of: rate, against: ETCD, atLeast: 1.15 },
  { id: 'H2', workload: 'H2', what: 'rate', of: rate, against: ETCD, atLeast: 0.35 },
  { id: 'H3', workload: 'H3', what: 'memory of a lease, KiB', of: figure('memory of a lease, KiB'), atMost: 12 },
  {
    id: 'H4',
    workload: 'H3',
    what: '10 000 leases attached anew, s',
    of: figure('attached anew within, s'),
    atMost: 3,
  },
  { id: 'H4', workload: 'H3', what: 'overflows of accept queues', of: figure('overflows of accept queues'), atMost: 0 },
  {
    id: 'G1',
    workload: 'G1',
    what: 'CPU of the gateway',
    of: gatewayCpu,
    against: { system: 'node-http' },
    atMost: 3,
  },
  {
    id: 'G2',
    workload: 'L1',
    what: "CPU of the gateway, against etcd's whole CPU",
    of: gatewayCpu,
    against: { system: 'etcd', of: storeCpu },
    atMost: 0.5,
  },
  { id: 'M1', workload: 'M1', what: 'memory of a waiter, KiB', of: figure('memory of a waiter, KiB'), atMost: 20 },
  {
    id: 'M1',
    workload: 'M1',
    what: 'memory with 10 000, MiB',
    of: figure('memory with all of them, MiB'),
    atMost: 200,
  },
];

/** Of the goals whose workload was run. */
export function judge(results: Results, goals: readonly Goal[] = GOALS): Verdict[] {
  return goals
    .filter(({ workload }) => results[workload] !== undefined)
    .map((goal) => {
      const ratios = ratiosOf(results, goal);
      if (ratios.length === 0) return { goal, ratio: undefined, reached: undefined };
      const middle = median(ratios);
      const reached = middle >= (goal.atLeast ?? -Infinity) && middle <= (goal.atMost ?? Infinity);
      return { goal, ratio: spreadOf(ratios), reached };
    });
}

/** Round by round, so that what slows both sides of a round does not count. */
function ratiosOf(results: Results, { workload, of, against }: Goal): number[] {
  const mine = (results[workload]?.postern ?? []).map((measured) => of(measured) ?? NaN);
  if (against === undefined) return mine.filter((value) => !Number.isNaN(value));
  const others = results[against.workload ?? workload]?.[against.system] ?? [];
  return mine
    .map((value, i) => value / ((others[i] && (against.of ?? of)(others[i])) ?? NaN))
    .filter((ratio) => !Number.isNaN(ratio));
}
