/** The result of a run, as JSON for machines and as Markdown tables for people. */
import type { Measured } from './generator/job.js';
import { digits, median, spreadOf, type Spread } from './statistics.js';
import { GOALS, WORKLOADS, type Goal, type SystemName, type Workload } from './workloads.js';

/** Above this share of its core the generator may be what limits a rate. */
const GENERATOR_LIMIT = 0.8;

export interface Run {
  readonly at: string;
  /** Lines about the machine and what ran on it. */
  readonly about: readonly string[];
  /** By workload and system, one of each round. */
  readonly results: Record<string, Partial<Record<SystemName, Measured[]>>>;
  /** Why a system is not in the tables. */
  readonly missing: Partial<Record<SystemName, string>>;
  /** Measurements that came to no result. */
  readonly failures: readonly string[];
}

export interface Verdict {
  readonly goal: Goal;
  /** Undefined when one of the two was not measured. */
  readonly ratio: Spread | undefined;
  readonly reached: boolean | undefined;
}

export function judge(run: Run): Verdict[] {
  return GOALS.filter(({ workload }) => run.results[workload] !== undefined).map((goal) => {
    const ratios = ratiosOf(run, goal);
    if (ratios.length === 0) return { goal, ratio: undefined, reached: undefined };
    const middle = median(ratios);
    const reached = middle >= (goal.atLeast ?? 0) && middle <= (goal.atMost ?? Infinity);
    return { goal, ratio: spreadOf(ratios), reached };
  });
}

/** Round by round, so that what slows both sides of a round does not count. */
export function ratiosOf(
  run: Run,
  { workload, of, ofOther = of, against }: Goal,
  system: SystemName = 'postern',
): number[] {
  const mine = run.results[workload]?.[system] ?? [];
  const others = run.results[workload]?.[against] ?? [];
  return mine
    .map((measured, i) => {
      const other = others[i];
      return (of(measured) ?? NaN) / (other === undefined ? NaN : (ofOther(other) ?? NaN));
    })
    .filter((ratio) => !Number.isNaN(ratio));
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
      judge(run).map(({ goal, ratio, reached }) => [
        goal.id,
        `${goal.what} of ${goal.workload}`,
        goal.against,
        goal.atLeast === undefined ? `≤ ${goal.atMost}` : `≥ ${goal.atLeast}`,
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
