/**
 * `npm run torture`: clients of every kind in several processes, replicas, an ensemble of three, and faults of every
 * kind, all at once; and what the clients were told is held against what the recipes promise.
 *
 *   npm run torture -- [--minutes 2 | --seconds 60] [--seed 7] [--faults kill-leader,lag] [--kinds lock,queue]
 *                      [--replicas 3] [--processes 3] [--clients 2] [--pause 350] [--round 25]
 *                      [--report docs/torture/name] [--keep-going] [--schedule] [--main dist/main.js]
 *
 * How it goes:
 * 1. The schedule is made of the seed: which fault strikes when, and for how long. `--schedule` prints it and ends.
 * 2. Clients work in rounds (rounds.ts). They make mistakes as clients do: they are stopped while they hold, they never
 *    learn what came of a request. Every answer is checked against the contract and against the time by which it was
 *    promised.
 * 3. What they were told is judged in a process of its own while they go on. The first violation ends the run, unless
 *    told otherwise, and its history is written beside the report.
 * 4. In the end all is mended. Every replica must be ready again, with nothing in its log that needs a person, and all
 *    rounds are judged.
 *
 * The driver holds the proxies, so it does nothing that takes long. The times in the histories are of the machine's
 * monotonic clock, which all processes share. The exit code is 1 when anything was found wrong. docs/torture.md says
 * more.
 */
import { cpus } from 'node:os';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { build } from '../../scripts/lib/zookeeper.mjs';
import { workloads } from '../histories/workloads/index.js';
import { zooKeeperRelease } from '../support/zookeeper/node.js';
import { FAULTS } from './faults.js';
import { writeReport } from './report.js';
import { makeSchedule } from './schedule.js';
import { Torture } from './torture.js';

const { values } = parseArgs({
  options: {
    minutes: { type: 'string' },
    seconds: { type: 'string' },
    seed: { type: 'string' },
    faults: { type: 'string' },
    kinds: { type: 'string' },
    replicas: { type: 'string', default: '3' },
    processes: { type: 'string', default: '3' },
    clients: { type: 'string', default: '2' },
    pause: { type: 'string', default: '350' },
    round: { type: 'string', default: '25' },
    report: { type: 'string' },
    'keep-going': { type: 'boolean', default: false },
    schedule: { type: 'boolean', default: false },
    main: { type: 'string' },
  },
});

process.once('SIGINT', () => process.exit(130)); // children and directories go with it
process.once('SIGTERM', () => process.exit(143));

const seed = values.seed === undefined ? Math.floor(Math.random() * 2 ** 31) : numberOf('seed', values.seed);
const seconds =
  values.seconds === undefined ? 60 * numberOf('minutes', values.minutes ?? '1') : numberOf('seconds', values.seconds);
const faults = chosen('fault', values.faults, FAULTS, ({ name }) => name);
const kinds = chosen('kind', values.kinds, Object.keys(workloads), (kind) => kind);
const schedule = makeSchedule(seed, seconds * 1_000, faults);
say(`seed ${seed}, ${seconds} s, ${schedule.length} blows, kinds ${kinds.join(', ')}`);
if (values.schedule) {
  for (const { at, fault, lastsMs } of schedule) say(`${(at / 1_000).toFixed(1)} s: ${fault} for ${lastsMs} ms`);
  process.exit(0);
}

if (values.main === undefined) await build(say);
const path = resolve(values.report ?? join('.cache', 'torture', `seed-${seed}`));
const torture = new Torture({
  main: resolve(values.main ?? 'dist/main.js'),
  seed,
  lengthMs: seconds * 1_000,
  schedule,
  kinds,
  replicas: numberOf('replicas', values.replicas),
  processes: numberOf('processes', values.processes),
  clients: numberOf('clients', values.clients),
  pauseMs: numberOf('pause', values.pause),
  roundMs: numberOf('round', values.round) * 1_000,
  keepGoing: values['keep-going'],
  logsTo: path,
  say,
});
const { tally, tookMs, notes } = await torture.run();
const { version } = await zooKeeperRelease();
const files = await writeReport(path, {
  seed,
  seconds: tookMs / 1_000,
  command: `npm run torture -- ${process.argv.slice(2).filter(isNotReport).join(' ')}${values.seed === undefined ? ` --seed ${seed}` : ''}`,
  environment: `Node ${process.versions.node}, ZooKeeper ${version}, ${cpus().length} processors.`,
  faults,
  schedule,
  tally,
  notes,
});
for (const { what } of tally.violations) say(`VIOLATION ${what}`);
for (const one of [...tally.undecided, ...notes]) say(one);
say(`${tally.violations.length} violations; ${files.join(', ')}`);
process.exit(tally.violations.length === 0 ? 0 : 1);

function isNotReport(argument: string, index: number, all: readonly string[]): boolean {
  return argument !== '--report' && all[index - 1] !== '--report';
}

function numberOf(name: string, text: string): number {
  const value = Number(text);
  if (!(value >= 0) || text === '') throw new Error(`--${name} is "${text}": give a number`);
  return value;
}

function chosen<T>(what: string, wanted: string | undefined, all: readonly T[], nameOf: (one: T) => string): T[] {
  if (wanted === undefined) return [...all];
  return wanted.split(',').map((name) => {
    const found = all.find((one) => nameOf(one) === name);
    if (found === undefined) throw new Error(`no ${what} is called ${name}: there are ${all.map(nameOf).join(', ')}`);
    return found;
  });
}

function say(line: string): void {
  console.log(line);
}
