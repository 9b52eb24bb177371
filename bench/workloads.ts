/** What is measured, on which systems, and what Postern must reach there: ratios of figures of one run, never absolute ones. */
import type { Job, Measured, System } from './generator/job.js';

export type SystemName = System | 'curator' | 'kazoo';

export interface Workload {
  readonly id: string;
  readonly title: string;
  /** What one operation is, in the plural. */
  readonly unit: string;
  /** In the order in which they take turns. */
  readonly systems: readonly SystemName[];
  readonly job: Pick<Job, 'scenario' | 'clients' | 'things' | 'holdMs'>;
  /** An open loop at half the rate that the slower of Postern and etcd had in this workload of the same round. */
  readonly halfTheRateOf?: string;
  /** Each request goes through another replica than the last one of its lease. */
  readonly throughTwoReplicas?: boolean;
}

const LOCK = { scenario: 'lock' } as const;

export const WORKLOADS: readonly Workload[] = [
  {
    id: 'L1',
    title: 'acquire and release, 64 clients on 64 locks',
    unit: 'pairs',
    systems: ['postern', 'baseline', 'etcd', 'zookeeper', 'zookeeper-listing', 'curator', 'kazoo', 'webdis'],
    job: { ...LOCK, clients: 64, things: 64 },
  },
  {
    id: 'L2',
    title: 'the same in an open loop at half the rate of the slower one of Postern and etcd',
    unit: 'pairs',
    systems: ['postern', 'baseline', 'etcd'],
    job: { ...LOCK, clients: 64, things: 64 },
    halfTheRateOf: 'L1',
  },
  {
    id: 'L3',
    title: 'acquire and release, 1 client',
    unit: 'pairs',
    systems: ['postern', 'baseline', 'etcd', 'zookeeper', 'curator', 'kazoo', 'webdis'],
    job: { ...LOCK, clients: 1, things: 1 },
  },
  {
    id: 'C1',
    title: 'one lock, 64 contenders',
    unit: 'hand-offs',
    systems: ['postern', 'baseline', 'etcd', 'zookeeper-listing', 'curator'],
    job: { ...LOCK, clients: 64, things: 1 },
  },
  {
    id: 'C2',
    title: 'one lock, 8 contenders',
    unit: 'hand-offs',
    systems: ['postern', 'baseline', 'etcd', 'zookeeper-listing', 'curator'],
    job: { ...LOCK, clients: 8, things: 1 },
  },
  {
    id: 'C2-hold',
    title: 'one lock, 4 contenders that hold it for 10 ms',
    unit: 'hand-offs',
    systems: ['postern', 'baseline', 'etcd', 'zookeeper-listing', 'curator'],
    job: { ...LOCK, clients: 4, things: 1, holdMs: 10 },
  },
  {
    id: 'H1',
    title: 'heartbeats of 1 000 leases over 32 connections',
    unit: 'heartbeats',
    systems: ['postern', 'baseline', 'etcd'],
    job: { scenario: 'heartbeat', clients: 32, things: 1_000 },
  },
  {
    id: 'H2',
    title: 'the same, each heartbeat through the other replica than the last',
    unit: 'heartbeats',
    systems: ['postern', 'etcd'],
    job: { scenario: 'heartbeat', clients: 32, things: 1_000 },
    throughTwoReplicas: true,
  },
  {
    id: 'G1',
    title: 'a request that needs no ZooKeeper (GET /v1/status), 64 clients',
    unit: 'requests',
    systems: ['postern', 'baseline', 'node-http'],
    job: { scenario: 'empty', clients: 64, things: 1 },
  },
];

export interface Goal {
  /** As in the list of goals. */
  readonly id: string;
  readonly workload: string;
  /** What is compared, for people. */
  readonly what: string;
  readonly of: (measured: Measured) => number | undefined;
  readonly against: SystemName;
  /** Where the other system's figure is another one. */
  readonly ofOther?: (measured: Measured) => number | undefined;
  readonly atLeast?: number;
  readonly atMost?: number;
}

const rate = (measured: Measured): number => measured.rate;
const p50 = (measured: Measured): number => measured.p50;
const p99 = (measured: Measured): number => measured.p99;
const gatewayCpu = (measured: Measured): number | undefined => measured.cpu['gateway'];
const storeCpu = (measured: Measured): number | undefined => measured.cpu['store'];

export const GOALS: readonly Goal[] = [
  { id: 'L1', workload: 'L1', what: 'rate', of: rate, against: 'etcd', atLeast: 1.3 },
  { id: 'L1', workload: 'L1', what: 'rate', of: rate, against: 'zookeeper', atLeast: 0.55 },
  { id: 'L2', workload: 'L1', what: 'p99, closed loop', of: p99, against: 'etcd', atMost: 0.5 },
  { id: 'L2', workload: 'L2', what: 'p99, open loop', of: p99, against: 'etcd', atMost: 0.5 },
  { id: 'L3', workload: 'L3', what: 'median of a pair', of: p50, against: 'etcd', atMost: 1.05 },
  { id: 'C1', workload: 'C1', what: 'rate', of: rate, against: 'etcd', atLeast: 3.5 },
  { id: 'C1', workload: 'C1', what: 'rate', of: rate, against: 'curator', atLeast: 1.2 },
  { id: 'C2', workload: 'C2', what: 'rate', of: rate, against: 'etcd', atLeast: 28 },
  { id: 'C2', workload: 'C2-hold', what: 'rate', of: rate, against: 'etcd', atLeast: 2.2 },
  { id: 'H1', workload: 'H1', what: 'rate', of: rate, against: 'etcd', atLeast: 1.1 },
  { id: 'H2', workload: 'H2', what: 'rate', of: rate, against: 'etcd', atLeast: 0.35 },
  { id: 'G1', workload: 'G1', what: 'CPU of the gateway', of: gatewayCpu, against: 'node-http', atMost: 2.5 },
  {
    id: 'G2',
    workload: 'L1',
    what: "CPU of the gateway, against etcd's whole CPU",
    of: gatewayCpu,
    against: 'etcd',
    ofOther: storeCpu,
    atMost: 0.45,
  },
];
