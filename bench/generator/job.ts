/** What the runner asks the load generator for, and what that answers. One job per process. */

/** Systems that the generator speaks to itself; libraries have programs of their own. */
export const SYSTEMS = [
  'postern',
  'baseline',
  'etcd',
  'consul',
  'webdis',
  'zookeeper',
  'zookeeper-listing',
  'redis',
  'beanstalkd',
  'node-http',
] as const;
export type System = (typeof SYSTEMS)[number];

export type Scenario = 'lock' | 'queue' | 'bulk' | 'depth' | 'heartbeat' | 'leases' | 'empty' | 'herd' | 'waiting';

export interface Target {
  readonly system: System;
  readonly port: number;
  /** A second replica, for what has to go through another one. */
  readonly otherPort?: number;
  readonly zooKeeperPort: number;
  /** API key of Postern. */
  readonly key?: string;
  /** A prefix of names that no other job has used. */
  readonly names: string;
}

export interface Job {
  readonly scenario: Scenario;
  readonly target: Target;
  readonly clients: number;
  /** Locks, leases or messages, by scenario. */
  readonly things: number;
  readonly holdMs?: number;
  /** Operations per second of an open loop; without it the loop is closed. */
  readonly rate?: number;
  readonly warmUpSeconds: number;
  readonly seconds: number;
  /**
   * In place of times: so many operations to warm up, and so many that count. On a machine with other work the seconds
   * would hold too few of them.
   */
  readonly operations?: { readonly warmUp: number; readonly measured: number };
  /** Processes whose CPU and memory are measured, by role. */
  readonly pids: Readonly<Record<string, number>>;
}

/**
 * From the generator to the runner: kill the gateway and start it again on its port. The answer is a {@link Restarted}.
 */
export interface RestartRequest {
  readonly restart: true;
}

export interface Restarted {
  readonly pid: number;
}

export interface Measured {
  readonly operations: number;
  readonly seconds: number;
  readonly rate: number;
  /** ms */
  readonly p50: number;
  readonly p99: number;
  readonly errors: number;
  /** Sentences; none may be there. */
  readonly violations: readonly string[];
  /** CPU time per operation, µs, by role; `generator` is among them. */
  readonly cpu: Readonly<Record<string, number>>;
  /** Share of one core that the generator used. */
  readonly generatorLoad: number;
  /** At the end, KiB, by role. */
  readonly memory: Readonly<Record<string, number>>;
  /** Further figures of a workload. */
  readonly figures: Readonly<Record<string, number>>;
}
