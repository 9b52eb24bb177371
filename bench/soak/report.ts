/** The report of a soak: Markdown, and the charts that it shows. */
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { workloads } from '../../test/histories/workloads/index.js';
import { LEVELS, type Judged } from './levels.js';
import { plot, type Series } from './plot.js';
import type { ReplicaSample, Sample } from './samples.js';
import type { Told, Work } from './work.js';

export interface Soak {
  readonly minutes: number;
  readonly work: Work;
  readonly about: readonly string[];
  /** All of them, in order: before, steady, giving back, after. */
  readonly samples: readonly Sample[];
  readonly steady: readonly Sample[];
  readonly told: Told;
  readonly judged: readonly Judged[];
}

export async function writeReport(dir: string, soak: Soak): Promise<void> {
  await mkdir(dir, { recursive: true });
  const charts = chartsOf(soak.samples);
  for (const { file, svg } of charts) await writeFile(join(dir, file), svg);
  await writeFile(join(dir, 'README.md'), markdown(soak, charts));
}

interface Chart {
  readonly file: string;
  readonly title: string;
  readonly svg: string;
}

function chartsOf(samples: readonly Sample[]): Chart[] {
  const line = (name: string, of: (sample: Sample) => number): Series => ({
    name,
    points: samples.map((sample) => [sample.at, of(sample)] as const),
  });
  const perReplica = (what: string, of: (replica: ReplicaSample) => number): Series[] =>
    (samples[0]?.replicas ?? []).map((_, i) =>
      line(`${what}, replica ${i + 1}`, (sample) => of(sample.replicas[i] as ReplicaSample)),
    );
  const rate = (name: string, of: (told: Told) => number): Series => ({
    name,
    points: samples.slice(1).flatMap((sample, i) => {
      const last = samples[i] as Sample;
      if (sample.load === undefined || last.load === undefined) return [];
      return [[sample.at, (of(sample.load) - of(last.load)) / (sample.at - last.at)] as const];
    }),
  });
  const chart = (file: string, title: string, unit: string, series: Series[]): Chart => ({
    file: `${file}.svg`,
    title,
    svg: plot(title, unit, series),
  });
  return [
    chart('memory', 'Memory of the replicas', 'MiB', [
      ...perReplica('resident', (r) => r.rssMiB),
      ...perReplica('heap', (r) => r.heapMiB),
    ]),
    chart('descriptors', 'Descriptors and sockets', 'open', [
      ...perReplica('descriptors', (r) => r.descriptors),
      ...perReplica('sockets', (r) => r.sockets),
    ]),
    chart(
      'timers',
      'Timers',
      'running',
      perReplica('timers', (r) => r.timers),
    ),
    chart('watches', 'Watches', 'set', [
      ...perReplica('known', (r) => r.watches),
      line('in ZooKeeper', (sample) => sample.zookeeper.watches),
    ]),
    chart('znodes', 'Znodes and sessions', 'there', [
      line('znodes', (sample) => sample.zookeeper.znodes),
      line('ephemeral', (sample) => sample.zookeeper.ephemerals),
      line('sessions', (sample) => sample.zookeeper.sessions),
    ]),
    chart('waiters', 'Waiters and requests in flight', 'open', [
      ...perReplica('waiters', (r) => r.waiters),
      ...perReplica('in flight', (r) => r.inFlight),
    ]),
    chart('work', 'What was done', 'per second', [
      rate('messages pushed', ({ pushed }) => pushed),
      rate('messages acknowledged', ({ acknowledged }) => acknowledged),
      rate('heartbeats', ({ heartbeats }) => heartbeats),
      rate('locks granted', ({ handoffs }) => handoffs),
    ]),
  ];
}

function markdown(soak: Soak, charts: readonly Chart[]): string {
  const { minutes, work, about, steady, told, judged } = soak;
  const [from, to] = [steady[0], steady.at(-1)] as [Sample, Sample];
  const seconds = to.at - from.at;
  const perSecond = (of: (told: Told) => number): string =>
    (((of(to.load as Told) - of(from.load as Told)) / seconds) | 0).toString();
  const cores = (of: (sample: Sample) => number): string => ((of(to) - of(from)) / seconds).toFixed(2);
  const refusals = Object.entries(told.refusals).map(([what, count]) => `${count} × ${what}`);
  return [
    `# Soak of ${minutes} minutes`,
    '',
    '`npm run soak -- --minutes N` makes this page: work that stays the same for so long, two replicas, one ZooKeeper, and whether anything grows. Each',
    'message is checked to come once, each fencing token to be larger than the last one of its lock, each lock to have one holder, and no lease to end; what was done with every recipe is held against its model, as in the [torture](../torture.md).',
    '',
    ...about.map((one) => `- ${one}`),
    `- Asked for: ${work.leases} leases (TTL of a minute, three heartbeats each), ${work.locks} locks with ${work.contenders} contenders each, ${work.messages} messages a second; and three clients of each of ${Object.keys(workloads).length} kinds of work with every recipe, which do something every second.`,
    `- Done in the steady ${(seconds / 60).toFixed(1)} minutes, per second: ${perSecond((one) => one.pushed)} messages pushed and ${perSecond((one) => one.acknowledged)} acknowledged, ${perSecond((one) => one.heartbeats)} heartbeats, ${perSecond((one) => one.handoffs)} locks granted, ${perSecond((one) => one.operations)} operations with every recipe.`,
    `- Cores in use meanwhile: replicas ${soak.samples[0]?.replicas.map((_, i) => cores((sample) => sample.replicas[i]?.cpuSeconds ?? NaN)).join(' and ')}, ZooKeeper ${cores((sample) => sample.zookeeper.cpuSeconds)}, everything on the machine ${cores((sample) => sample.machineCpuSeconds)}.`,
    `- Answers that were asked for again: ${refusals.length === 0 ? 'none' : refusals.join(', ')}.`,
    told.violations.length === 0
      ? `- ${told.pushed} messages were pushed and ${told.acknowledged} acknowledged; the histories of ${told.objects} objects with ${told.operations} operations of every recipe were judged; no promise was broken.`
      : told.violations.map((sentence) => `- **Violation**: ${sentence}.`).join('\n'),
    '',
    '## Levels',
    '',
    'Medians of the first and of the last fifth of the steady phase, and of memory how low it was for a tenth of the time, which is what is held after a',
    'collection of garbage; before it began; and when everything had been given back. Replicas and their figures are added up. `npm run soak` fails when',
    'a level is above its margin.',
    '',
    '| level | before | first fifth | last fifth | may grow by | afterwards | may be left | |',
    '| --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |',
    ...judged.map(rowOf),
    '',
    '## Over time',
    '',
    'All of it: leases are made, the steady phase, everything is given back.',
    '',
    ...charts.flatMap(({ file, title }) => [`![${title}](${file})`, '']),
  ].join('\n');
}

function rowOf({ level, before, first, last, after, isFlat, isBack }: Judged): string {
  const { name, unit, share, amount, left } = level;
  const shown = (value: number): string => `${Math.round(value)}`;
  const margin = `${share * 100} %, at least ${amount}`;
  const verdict = [isFlat ? '' : '**grows**', isBack ? '' : '**left behind**'].filter(Boolean).join(', ') || 'level';
  const cells = [unit === '' ? name : `${name}, ${unit}`, ...[before, first, last].map(shown), margin];
  return `| ${[...cells, shown(after), left === undefined ? 'not judged' : String(left), verdict].join(' | ')} |`;
}

/** The levels that were judged, for those who only want the exit code. */
export function failuresOf({ judged, told }: Soak): string[] {
  return [
    ...judged.filter(({ isFlat }) => !isFlat).map(({ level }) => `${level.name} grow`),
    ...judged.filter(({ isBack }) => !isBack).map(({ level }) => `${level.name} are left behind`),
    ...told.violations,
    ...(judged.length === LEVELS.length ? [] : ['not everything was judged']),
  ];
}
