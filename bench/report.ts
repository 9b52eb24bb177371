/** The result of a run, as JSON for machines and as Markdown tables for people. */
import type { Measured } from './generator/job.js';
import { judge, type Results } from './goals.js';
import { digits, median, spreadOf, type Spread } from './statistics.js';
import { WORKLOADS, type SystemName, type Workload } from './workloads.js';

/** Above this share of its core the generator may be what limits a rate. */
const GENERATOR_LIMIT = 0.8;

export interface Run {
  readonly at: string;
  /** Lines about the machine and what ran on it. */
  readonly about: readonly string[];
  readonly results: Results;
  /** Why a system is not in the tables. */
  readonly missing: Partial<Record<SystemName, string>>;
  /** Measurements that came to no result. */
  readonly failures: readonly string[];
}

export function violationsOf(run: Run): string[] {
  return Object.entries(run.results).flatMap(([workload, systems]) =>
    Object.entries(systems).flatMap(([system, rounds]) =>
      rounds.flatMap(({ violations }) => violations.map((sentence) => `${workload}, ${system}: ${sentence}`)),
    ),
  );
}

export function markdown(run: Run): string {
  const missing = Object.entries(run.missing).map(([system, why]) => `- **${system} is missing**: ${why}`);
  const violations = violationsOf(run).map((sentence) => `- **Violation**: ${sentence}`);
  return [
    ...run.about.map((line) => `- ${line}`),
    ...missing,
    ...violations,
    ...run.failures.map((sentence) => `- **Failed**: ${sentence}`),
    '',
    '### Goals',
    '',
    table(
      ['goal', 'what', 'against', 'must reach', 'ratio (of the rounds)', 'reached'],
      judge(run.results).map(({ goal, ratio, reached }) => [
        goal.id,
        `${goal.what} of ${goal.workload}`,
        goal.against === undefined ? '' : [goal.against.system, goal.against.workload].filter(Boolean).join(' of '),
        [goal.atLeast !== undefined && `≥ ${goal.atLeast}`, goal.atMost !== undefined && `≤ ${goal.atMost}`]
          .filter(Boolean)
          .join(', '),
        ratio === undefined ? 'not measured' : shown(ratio),
        reached === undefined ? '–' : reached ? 'yes' : '**no**',
      ]),
    ),
    ...WORKLOADS.filter(({ id }) => run.results[id] !== undefined).flatMap((workload) => section(workload, run)),
  ].join('\n');
}

function section(workload: Workload, run: Run): string[] {
  const systems = Object.entries(run.results[workload.id] ?? {}) as [SystemName, Measured[]][];
  const figures = [...new Set(systems.flatMap(([, rounds]) => rounds.flatMap(({ figures }) => Object.keys(figures))))];
  const each = (rounds: Measured[], of: (measured: Measured) => number | undefined): string => {
    const values = rounds.map((measured) => of(measured) ?? NaN).filter((value) => !Number.isNaN(value));
    return values.length === 0 ? '–' : shown(spreadOf(values));
  };
  const hasBaseline = systems.some(([system]) => system === 'baseline');
  const against = (rounds: Measured[], of: (measured: Measured) => number | undefined): string => {
    const baseline = systems.find(([system]) => system === 'baseline')?.[1] ?? [];
    const ratios = rounds.map((measured, i) => (of(measured) ?? NaN) / ((baseline[i] && of(baseline[i])) ?? NaN));
    return ratios.some(Number.isNaN) ? '–' : shown(spreadOf(ratios));
  };
  return [
    '',
    `### ${workload.id}: ${workload.title}`,
    '',
    table(
      [
        ...[
          'system',
          `${workload.unit}/s`,
          'p50, ms',
          'p99, ms',
          'CPU of gateway, µs',
          'of store, µs',
          'of generator, µs',
        ],
        ...['generator, % of its core', 'gateway, MiB', 'store, MiB', ...figures],
        ...(hasBaseline ? ['rate / baseline', 'CPU of gateway / baseline'] : []),
      ],
      systems.map(([system, rounds]) => [
        system,
        each(rounds, ({ rate }) => rate),
        each(rounds, ({ p50 }) => p50),
        each(rounds, ({ p99 }) => p99),
        each(rounds, ({ cpu }) => cpu['gateway']),
        each(rounds, ({ cpu }) => cpu['store']),
        each(rounds, ({ cpu }) => cpu['generator']),
        generatorLoad(rounds),
        each(rounds, ({ memory }) => memory['gateway'] && memory['gateway'] / 1_024),
        each(rounds, ({ memory }) => memory['store'] && memory['store'] / 1_024),
        ...figures.map((name) => each(rounds, (measured) => measured.figures[name])),
        ...(hasBaseline ? [against(rounds, ({ rate }) => rate), against(rounds, ({ cpu }) => cpu['gateway'])] : []),
      ]),
    ),
  ];
}

function generatorLoad(rounds: readonly Measured[]): string {
  const load = median(rounds.map((measured) => measured.generatorLoad));
  return `${Math.round(load * 100)}${load > GENERATOR_LIMIT ? ' **(the limit)**' : ''}`;
}

function shown({ median: middle, min, max }: Spread): string {
  return min === max ? String(digits(middle)) : `${digits(middle)} (${digits(min)}–${digits(max)})`;
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  return [head, head.map(() => '---'), ...rows].map((cells) => `| ${cells.join(' | ')} |`).join('\n');
}
