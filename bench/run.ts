/**
 * `npm run bench`: Postern and its peers, in turns in one run, on one machine.
 *
 *   npm run bench -- [--workloads L1,C1] [--peers etcd,zookeeper,curator] [--rounds 3] [--seconds 5] [--quick]
 *                    [--out docs/bench] [--against <checkout>] [--on-disk] [--node-options=--perf-basic-prof]
 *   npm run bench -- --guard
 *
 * `--guard` is what continuous integration runs: a minute, and ratios that must not get worse than bench/guard.json
 * says. `--against` adds the gateway of another checkout (with its own dist/) as `baseline`, in turns with this one.
 * POSTERN_ variables are handed to the gateways. Writes `<out>.md` and `<out>.json`, by default into .cache/bench. The
 * exit code is 1 when an answer was wrong; goals that are not reached are in the table. docs/performance.md says how
 * the figures come about.
 */
import { execFileSync } from 'node:child_process';
import { mkdir, writeFile } from 'node:fs/promises';
import { cpus, loadavg } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { build } from '../scripts/lib/zookeeper.mjs';
import type { Measured } from './generator/job.js';
import { guard } from './guard.js';
import { chooseCores } from './processes.js';
import { PEERS, type PeerName } from './provide.js';
import { judge } from './goals.js';
import { markdown, violationsOf, type Run } from './report.js';
import { Round, type RoundOptions } from './round.js';
import { ROOT } from './servers.js';
import { digits } from './statistics.js';
import { WORKLOADS, type SystemName, type Workload } from './workloads.js';

const { values } = parseArgs({
  options: {
    workloads: { type: 'string' },
    peers: { type: 'string' },
    rounds: { type: 'string', default: '3' },
    seconds: { type: 'string', default: '5' },
    quick: { type: 'boolean', default: false },
    against: { type: 'string' },
    'on-disk': { type: 'boolean', default: false },
    'node-options': { type: 'string' },
    out: { type: 'string' },
    guard: { type: 'boolean', default: false },
  },
});

process.once('SIGINT', () => process.exit(130)); // children and directories go with it
process.once('SIGTERM', () => process.exit(143));

await build(say);
const cores = chooseCores();
const rounds = values.quick ? 1 : Number(values.rounds);
const options: RoundOptions = {
  cores,
  seconds: values.quick ? 2 : Number(values.seconds),
  warmUpSeconds: values.quick ? 0.5 : 2,
  jvmWarmUpSeconds: values.quick ? 3 : 8,
  warmUpPairs: values.quick ? 0 : 10_000,
  baseline: values.against === undefined ? undefined : resolve(values.against),
  onDisk: values['on-disk'],
  settings: Object.fromEntries(
    Object.entries(process.env).filter((entry): entry is [string, string] => entry[0].startsWith('POSTERN_')),
  ),
  nodeOptions: values['node-options'],
};
if (values.guard) process.exit((await guard(options)) ? 0 : 1);
const wanted = WORKLOADS.filter(({ id }) => isWanted(id, values.workloads));
const needed = new Set(wanted.map(({ halfTheRateOf }) => halfTheRateOf));
const workloads = WORKLOADS.filter((workload) => wanted.includes(workload) || needed.has(workload.id));
if (workloads.length === 0) throw new Error(`no workload is called ${values.workloads}`);

const load = loadavg()[0] as number;
const results: Run['results'] = Object.fromEntries(workloads.map(({ id }) => [id, {}]));
const missing: Run['missing'] = {};
const failures: string[] = [];
const versions = await providePeers();
let zooKeeperVersion = '';
for (let i = 0; i < rounds; i += 1) {
  say(`round ${i + 1} of ${rounds}: starting, ${options.jvmWarmUpSeconds} s of warm-up`);
  const round = await Round.start(options);
  zooKeeperVersion = round.zookeeper.version;
  try {
    for (const workload of workloads) await takeTurns(workload, round);
  } finally {
    await round.stop();
  }
}
const run: Run = { at: new Date().toISOString(), about: about(), results, missing, failures };
await report(run);

/** Each system once. */
async function takeTurns(workload: Workload, round: Round): Promise<void> {
  const systems = workload.systems.filter((system) => takesPart(system) && missing[system] === undefined);
  const rate = workload.halfTheRateOf === undefined ? undefined : slowerRate(workload.halfTheRateOf) / 2;
  for (const system of systems) {
    let measured: Measured;
    try {
      measured = await round.measure(workload, system, rate);
    } catch (error) {
      failures.push(`${workload.id}, ${system}: ${(error as Error).message}`);
      say(`  FAILED: ${failures.at(-1)}`);
      continue;
    }
    (results[workload.id] ??= {})[system] = [...(results[workload.id]?.[system] ?? []), measured];
    say(`  ${workload.id} ${system}: ${line(measured, workload)}`);
    for (const sentence of measured.violations) say(`    VIOLATION: ${sentence}`);
  }
}

/** Of Postern and etcd, in the last round. */
function slowerRate(id: string): number {
  const rates = (['postern', 'etcd'] as const).map((system) => results[id]?.[system]?.at(-1)?.rate ?? Infinity);
  const slower = Math.min(...rates);
  return slower;
}

function takesPart(system: SystemName): boolean {
  if (system === 'postern') return true;
  if (system === 'baseline') return options.baseline !== undefined;
  return isWanted(system, values.peers);
}

/** Names that are given stand for themselves and for their variants. */
function isWanted(name: string, list: string | undefined): boolean {
  return list === undefined || list.split(',').some((given) => name === given || name.startsWith(`${given}-`));
}

async function providePeers(): Promise<string[]> {
  const found: string[] = [];
  const systems = new Set(workloads.flatMap(({ systems }) => systems).filter(takesPart));
  for (const name of Object.keys(PEERS) as PeerName[]) {
    if (!systems.has(name)) continue;
    try {
      found.push(`${name} ${(await PEERS[name]()).version}`);
    } catch (error) {
      missing[name] = (error as Error).message;
      say(`${name} is missing: ${missing[name]}`);
    }
  }
  return found;
}

/** Of this checkout; `-dirty` where files differ from it. */
function commit(): string {
  try {
    return execFileSync('git', ['describe', '--always', '--dirty'], { cwd: ROOT, encoding: 'utf8' }).trim();
  } catch {
    return 'unknown';
  }
}

function about(): string[] {
  const pinned =
    cores === undefined
      ? 'nothing pinned'
      : `load generator on core ${cores.generator}, every server process on core ${cores.servers}`;
  return [
    `${runAt()}, commit ${commit()}; ${cpus()[0]?.model.trim()}, ${cpus().length} cores: ${pinned}; load average before the run ${digits(load)}`,
    `Node ${process.version}; ZooKeeper ${zooKeeperVersion}, data ${options.onDisk ? 'on disk' : 'in memory'}; ${versions.join(', ')}`,
    `${rounds} rounds, ${options.seconds} s each; medians (lowest–highest round); ratios are medians of the ratios of the rounds`,
  ];
}

function runAt(): string {
  return new Date().toISOString().slice(0, 'yyyy-mm-ddThh:mm'.length);
}

function line({ rate, p50, p99, cpu, generatorLoad }: Measured, { unit }: Workload): string {
  const ofCpu = Object.entries(cpu).map(([role, us]) => `${role} ${digits(us)}`);
  return `${digits(rate)} ${unit}/s, p50 ${digits(p50)} ms, p99 ${digits(p99)} ms; CPU µs: ${ofCpu.join(', ')}; generator ${Math.round(generatorLoad * 100)} %`;
}

async function report(finished: Run): Promise<void> {
  const out = resolve(values.out ?? join(ROOT, '.cache/bench/last'));
  await mkdir(dirname(out), { recursive: true });
  const text = markdown(finished);
  await writeFile(`${out}.md`, `${text}\n`);
  const verdicts = judge(finished.results).map(
    ({ goal: { id, workload, what, against, atLeast, atMost }, ...rest }) => {
      return { id, workload, what, against, atLeast, atMost, ...rest };
    },
  );
  await writeFile(`${out}.json`, `${JSON.stringify({ ...finished, goals: verdicts }, undefined, 2)}\n`);
  console.log(text);
  say(`written: ${out}.md and .json`);
  const wrong = violationsOf(finished).length + failures.length;
  if (wrong > 0) say(`${wrong} violations and failures`);
  process.exitCode = wrong > 0 ? 1 : 0;
}

function say(sentence: string): void {
  console.error(sentence);
}
