/**
 * The regression guard: a few ratios that must not get worse than bench/guard.json says.
 *
 * Nothing in it is a time. Counts (ZooKeeper requests per lock, watch events per hand-off) are the same on every
 * machine. CPU per operation is divided by what node:http needs for an empty request in the same round, so that the
 * machine and most of what else runs on it cancel out; each job does a fixed number of operations, because on a busy
 * machine a second holds so few that the compiler has not done its work. Rates are left out: the ratio of two of them
 * was between 0.18 and 0.48 beside other programs. What is judged is the median of the rounds, and the limits leave
 * room for noise. Where a median is beyond its limit, more rounds are made: what has become worse stays beyond it, and
 * what somebody else on the machine did for a minute does not.
 */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Measured } from './generator/job.js';
import { judge, type Goal, type Results } from './goals.js';
import { Round, type RoundOptions } from './round.js';
import { ROOT } from './servers.js';
import { digits } from './statistics.js';
import type { SystemName, Workload } from './workloads.js';

const ROUNDS = 3;
const ROUNDS_MAX = 9;

type Part = Omit<Workload, 'title' | 'unit'>;

const PARTS: readonly Part[] = [
  {
    id: 'empty',
    systems: ['node-http', 'postern'],
    job: { scenario: 'empty', clients: 16, things: 1, operations: { warmUp: 4_000, measured: 12_000 } },
  },
  {
    id: 'lock',
    systems: ['zookeeper', 'postern'],
    job: { scenario: 'lock', clients: 32, things: 32, operations: { warmUp: 500, measured: 2_500 } },
  },
  {
    id: 'queue',
    systems: ['postern'],
    job: { scenario: 'queue', clients: 16, things: 1_000, operations: { warmUp: 500, measured: 2_000 } },
  },
  { id: 'herd', systems: ['postern'], job: { scenario: 'herd', clients: 1, things: 100 } },
];
/** Compiles what the first round would otherwise pay for. */
const WARM_UP: readonly Part[] = PARTS.map((part) => ({
  ...part,
  systems: part.systems.filter((name) => name === 'postern'),
}));

const gatewayCpu = ({ cpu }: Measured): number | undefined => cpu['gateway'];
const figure =
  (name: string) =>
  ({ figures }: Measured) =>
    figures[name];
/**
 * On one core for all servers its inverse is the ratio of the rates, and unlike that it does not ask who else wants the
 * core.
 */
const serversCpu = ({ cpu }: Measured): number | undefined =>
  cpu['store'] === undefined ? undefined : cpu['store'] + (cpu['gateway'] ?? 0);
const EMPTY_NODE = { system: 'node-http', workload: 'empty', of: gatewayCpu } as const;

const GUARDED: Record<string, Omit<Goal, 'id' | 'atLeast' | 'atMost'>> = {
  emptyCpu: { workload: 'empty', what: 'CPU of an empty request / of node:http', of: gatewayCpu, against: EMPTY_NODE },
  lockCpu: {
    workload: 'lock',
    what: 'CPU of a lock taken and given back / of node:http',
    of: gatewayCpu,
    against: EMPTY_NODE,
  },
  queueCpu: { workload: 'queue', what: 'CPU of a push and a pop / of node:http', of: gatewayCpu, against: EMPTY_NODE },
  lockServers: {
    workload: 'lock',
    what: 'CPU of gateway and ZooKeeper for a lock / of raw ZooKeeper',
    of: serversCpu,
    against: { system: 'zookeeper' },
  },
  lockRequests: {
    workload: 'lock',
    what: 'ZooKeeper requests of a lock taken and given back',
    of: figure('ZooKeeper requests / pair'),
  },
  handOffRequests: {
    workload: 'herd',
    what: 'ZooKeeper requests per hand-off',
    of: figure('ZooKeeper requests / hand-off'),
  },
  handOffEvents: { workload: 'herd', what: 'watch events per hand-off', of: figure('events / hand-off') },
};

type Limits = Record<string, { atLeast?: number; atMost?: number }>;

/** @returns whether everything is within its limits and every answer was right */
export async function guard(
  options: Omit<RoundOptions, 'seconds' | 'warmUpSeconds' | 'jvmWarmUpSeconds'>,
): Promise<boolean> {
  const limits = JSON.parse(await readFile(join(ROOT, 'bench/guard.json'), 'utf8')) as Limits;
  const round = await Round.start({
    ...options,
    seconds: 1,
    warmUpSeconds: 0,
    jvmWarmUpSeconds: 3,
    warmUpPairs: 3_000,
  });
  const results: Results = {};
  const violations: string[] = [];
  const goals = Object.entries(GUARDED).map(([id, guarded]): Goal => ({ id, ...guarded, ...limits[id] }));
  const isWithin = (): boolean => judge(results, goals).every(({ reached }) => reached === true);
  try {
    await measure(round, WARM_UP, {}, []);
    for (let made = 0; made < ROUNDS || (made < ROUNDS_MAX && !isWithin()); made += 1)
      await measure(round, PARTS, results, violations);
  } finally {
    await round.stop();
  }
  const verdicts = judge(results, goals);
  for (const { goal, ratio, reached } of verdicts) {
    const limit = goal.atLeast === undefined ? `at most ${goal.atMost}` : `at least ${goal.atLeast}`;
    const seen =
      ratio === undefined ? 'nothing' : `${digits(ratio.median)} (${digits(ratio.min)} to ${digits(ratio.max)})`;
    console.log(`${reached === true ? 'ok    ' : 'FAILED'}  ${goal.id}: ${goal.what}: ${seen}, ${limit}`);
  }
  for (const sentence of violations) console.log(`FAILED  ${sentence}`);
  return violations.length === 0 && verdicts.every(({ reached }) => reached === true);
}

async function measure(round: Round, parts: readonly Part[], results: Results, violations: string[]): Promise<void> {
  for (const part of parts)
    for (const system of part.systems) {
      const measured = await round.measure({ title: part.id, unit: 'operations', ...part }, system);
      const ofPart: Partial<Record<SystemName, Measured[]>> = (results[part.id] ??= {});
      (ofPart[system] ??= []).push(measured);
      violations.push(...measured.violations.map((sentence) => `${part.id}, ${system}: ${sentence}`));
    }
}
