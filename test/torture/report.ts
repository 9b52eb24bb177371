/** What a run comes to, for people (Markdown) and for programs (JSON). */
import { mkdir, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { Blow } from './schedule.js';
import type { Fault } from './faults.js';
import type { Tally } from './tally.js';

export interface Run {
  readonly seed: number;
  readonly seconds: number;
  readonly command: string;
  readonly environment: string;
  readonly faults: readonly Fault[];
  readonly schedule: readonly Blow[];
  readonly tally: Tally;
  readonly notes: readonly string[];
}

/** @param path without its ending @returns the files */
export async function writeReport(path: string, run: Run): Promise<string[]> {
  await mkdir(dirname(path), { recursive: true });
  const { tally } = run;
  const files = { [`${path}.md`]: markdown(run), [`${path}.json`]: `${JSON.stringify(summary(run), null, 2)}\n` };
  for (const [i, { what, evidence }] of tally.violations.entries())
    if (evidence !== undefined)
      files[`${path}.violation-${i + 1}.json`] = `${JSON.stringify({ what, evidence }, spelledOut, 1)}\n`;
  for (const [file, text] of Object.entries(files)) await writeFile(file, text);
  return Object.keys(files);
}

/** JSON knows no Infinity. */
function spelledOut(_key: string, value: unknown): unknown {
  return value === Infinity ? 'never' : value;
}

function summary({ seed, seconds, command, environment, schedule, tally, notes }: Run): Record<string, unknown> {
  const { kinds, blows, answers, undecided, violations } = tally;
  return {
    seed,
    seconds,
    command,
    environment,
    verdict: violations.length === 0 ? 'no violation' : `${violations.length} violations`,
    violations: violations.map(({ at, what }) => ({ at, what })),
    kinds,
    blows,
    answers,
    undecided,
    longestUnavailableMs: tally.longestUnavailableMs(),
    notes,
    schedule,
  };
}

function markdown({ seed, seconds, command, environment, faults, schedule, tally, notes }: Run): string {
  const { violations, kinds, blows, answers, undecided } = tally;
  const operations = sum(Object.values(kinds).map((kind) => kind.operations));
  const unknown = sum(Object.values(kinds).map((kind) => kind.unknown));
  return [
    `# Torture, seed ${seed}`,
    '',
    `**${violations.length === 0 ? 'No violation' : `${violations.length} violations`}** in ${Math.round(seconds)} s: ${operations} operations, ${unknown} of them of unknown outcome, under ${sum(Object.values(blows))} faults.`,
    '',
    `Repeat it with \`${command}\`. ${environment}`,
    '',
    ...violations.flatMap(({ at, what }) => [`- after ${Math.round(at / 1_000)} s: ${what.split('\n')[0]}`]),
    ...(violations.length > 0 ? [''] : []),
    '| kind | objects | operations | of unknown outcome | undecided | longest judgement, ms |',
    '| --- | ---: | ---: | ---: | ---: | ---: |',
    ...Object.entries(kinds).map(
      ([kind, one]) =>
        `| ${kind} | ${one.objects} | ${one.operations} | ${one.unknown} | ${one.undecided} | ${Math.round(one.slowestJudgedMs)} |`,
    ),
    '',
    '| fault | times | what it does |',
    '| --- | ---: | --- |',
    ...faults.map(({ name, sentence }) => `| ${name} | ${blows[name] ?? 0} | ${sentence} |`),
    '',
    `Answers by status: ${Object.entries(answers)
      .map(([status, count]) => `${status} ${count} times`)
      .join(', ')}. The longest time in which nobody was served: ${tally.longestUnavailableMs()} ms.`,
    '',
    ...undecided.map((one) => `- not decided: ${one}`),
    ...notes.map((note) => `- ${note}`),
    ...(undecided.length + notes.length > 0 ? [''] : []),
    `The schedule has ${schedule.length} blows; it is in the JSON file beside this one, with what was counted.`,
    '',
  ].join('\n');
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((all, one) => all + one, 0);
}
