/** What is measured, and on which systems. */
import type { Job, System } from './generator/job.js';

export type SystemName = System | 'curator' | 'kazoo';

export interface Workload {
  readonly id: string;
  readonly title: string;
  /** What one operation is, in the plural. */
  readonly unit: string;
  /** In the order in which they take turns. */
  readonly systems: readonly SystemName[];
  readonly job: Pick<Job, 'scenario' | 'clients' | 'things' | 'holdMs' | 'operations'>;
  /** Whatever the run says: less would not reach every lease, or both depths. */
  readonly atLeastSeconds?: number;
  /** An open loop at half the rate that the slower of Postern and etcd had in this workload of the same round. */
  readonly halfTheRateOf?: string;
  /** Each request goes through another replica than the last one of its lease. */
  readonly throughTwoReplicas?: boolean;
  /** A fresh replica that can be killed, with these further settings. */
  readonly ownReplica?: Record<string, string>;
}

const LOCK = { scenario: 'lock' } as const;
const HERD = { scenario: 'herd', clients: 1 } as const;
const HERD_TITLE = 'waiters of one lock drained (zookeeper: everybody watches the one node)';

const queue = (clients: number): Workload => ({
  id: `Q1-${clients}`,
  title: `push and pop at depth 1 000, ${clients} consumer${clients === 1 ? '' : 's'}`,
  unit: 'pairs',
  systems: ['postern', 'baseline', 'curator', 'kazoo', 'zookeeper', 'webdis', 'redis', 'beanstalkd'],
  job: { scenario: 'queue', clients, things: 1_000 },
});

const clients = (count: number): Workload => ({
  id: `N${count}`,
  title: `acquire and release, ${count} clients on as many locks`,
  unit: 'pairs',
  systems: ['postern', 'baseline', 'etcd', 'zookeeper'],
  job: { ...LOCK, clients: count, things: count },
});

export const WORKLOADS: readonly Workload[] = [
  {
    id: 'L1',
    title: 'acquire and release, 64 clients on 64 locks',
    unit: 'pairs',
    systems: ['postern', 'baseline', 'etcd', 'consul', 'zookeeper', 'zookeeper-listing', 'curator', 'kazoo', 'webdis'],
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
  clients(8),
  clients(256),
  {
    id: 'C1',
    title: 'one lock, 64 contenders',
    unit: 'hand-offs',
    systems: ['postern', 'baseline', 'etcd', 'consul', 'zookeeper-listing', 'curator'],
    job: { ...LOCK, clients: 64, things: 1 },
  },
  {
    id: 'C2',
    title: 'one lock, 8 contenders',
    unit: 'hand-offs',
    systems: ['postern', 'baseline', 'etcd', 'consul', 'zookeeper-listing', 'curator'],
    job: { ...LOCK, clients: 8, things: 1 },
  },
  {
    id: 'C2-hold',
    title: 'one lock, 4 contenders that hold it for 10 ms',
    unit: 'hand-offs',
    systems: ['postern', 'baseline', 'etcd', 'consul', 'zookeeper-listing', 'curator'],
    job: { ...LOCK, clients: 4, things: 1, holdMs: 10 },
  },
  {
    id: 'C3-10',
    title: `10 ${HERD_TITLE}`,
    unit: 'hand-offs',
    systems: ['postern', 'zookeeper'],
    job: { ...HERD, things: 10 },
  },
  {
    id: 'C3-100',
    title: `100 ${HERD_TITLE}`,
    unit: 'hand-offs',
    systems: ['postern', 'zookeeper'],
    job: { ...HERD, things: 100 },
  },
  {
    id: 'C3-1000',
    title: `1 000 ${HERD_TITLE}`,
    unit: 'hand-offs',
    systems: ['postern', 'zookeeper'],
    job: { ...HERD, things: 1_000 },
  },
  queue(1),
  queue(16),
  queue(64),
  {
    id: 'Q4',
    title: '16 clients that push one message, then 100 messages at once',
    unit: 'messages',
    systems: ['postern', 'baseline'],
    job: { scenario: 'bulk', clients: 16, things: 100 },
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
    id: 'H3',
    title: '10 000 leases heartbeated at a third of their TTL of a minute; then attached anew after a restart (H4)',
    unit: 'heartbeats',
    systems: ['postern'],
    job: { scenario: 'leases', clients: 64, things: 10_000 },
    atLeastSeconds: 21,
    ownReplica: { POSTERN_MAX_LEASES_PER_PRINCIPAL: '20000' },
  },
  {
    id: 'G1',
    title: 'a request that needs no ZooKeeper (GET /v1/status), 64 clients',
    unit: 'requests',
    systems: ['postern', 'baseline', 'node-http'],
    job: { scenario: 'empty', clients: 64, things: 1 },
  },
  {
    id: 'M1',
    title: '10 000 requests that wait for locks, each on a connection of its own (etcd: 2 000, each with a lease)',
    unit: 'waiters',
    systems: ['postern', 'etcd'],
    job: { scenario: 'waiting', clients: 1, things: 10_000 },
    ownReplica: {
      POSTERN_MAX_WAIT_MS: '600000',
      POSTERN_MAX_WAITS_PER_PRINCIPAL: '20000',
      // The default depends on how many descriptors a process may have here.
      POSTERN_MAX_CONNECTIONS: '11000',
      POSTERN_MAX_ATTACHED: '1000',
    },
  },
  // Last: the messages stay in ZooKeeper.
  {
    id: 'Q2',
    title: 'a queue of 1 000 000 messages against one of 1 000, 16 clients; then a cold start on it (Q3)',
    unit: 'operations',
    systems: ['postern'],
    job: { scenario: 'depth', clients: 16, things: 1_000_000 },
    atLeastSeconds: 10,
    ownReplica: {},
  },
];
