/** The help of the command, from the tables of its options. */
import { EXIT, EXIT_MEANINGS } from '../exit.js';
import { COMMON, type Argument, type Command } from './command.js';
import type { Option, Options } from './option.js';

const COLUMNS = 100;
/** What only subcommands that run a job end with. */
const OF_JOBS: readonly number[] = [EXIT.lost, EXIT.notExecutable, EXIT.notFound];

/** The first line: what is typed. */
export function usage(command: Command): string {
  const job = { true: ' -- COMMAND [ARGUMENT…]', optional: ' [-- COMMAND [ARGUMENT…]]', undefined: '' };
  const words = ['postern', command.name, ...command.arguments.map(showArgument), '[OPTION…]'];
  return `${words.join(' ')}${job[`${command.runs}`]}`;
}

export function helpOf(command: Command): string {
  return [...ownSections(command), section('options of every subcommand', entries(COMMON)), examplesOf(command)]
    .filter((text) => text !== '')
    .join('\n\n');
}

/** Without the options of every subcommand: for the page that has all of them. */
export function ownHelpOf(command: Command): string {
  return [...ownSections(command), examplesOf(command)].filter((text) => text !== '').join('\n\n');
}

function ownSections(command: Command): string[] {
  return [
    `usage: ${usage(command)}`,
    command.description
      .split('\n\n')
      .map((paragraph) => wrap(paragraph, 0))
      .join('\n\n'),
    section(
      'arguments',
      command.arguments.map((argument): [string, string] => [argument.name, argument.sentence]),
    ),
    section('options', entries(command.options)),
    section('exit codes', exitsOf(command)),
  ];
}

function examplesOf({ examples }: Command): string {
  return examples.length === 0 ? '' : `examples:\n${examples.map((line) => `  ${line}`).join('\n')}`;
}

export function helpOfAll(commands: readonly Command[]): string {
  return [
    'usage: postern SUBCOMMAND [ARGUMENT…] [OPTION…]',
    wrap(
      'Locks, elections, queues and configuration of a Postern gateway, from the command line. ' +
        '`postern SUBCOMMAND --help` explains each; `postern doctor` says what is wrong if nothing works.',
      0,
    ),
    section(
      'subcommands',
      commands.map(({ name, summary }): [string, string] => [name, summary]),
    ),
    section('options of every subcommand', [...entries(COMMON), ['--version', 'Show the version.']]),
    section(
      'exit codes',
      EXIT_MEANINGS.map(([code, meaning]): [string, string] => [String(code), meaning]),
    ),
  ].join('\n\n');
}

/** Its own, and those that every subcommand may end with, in order; `*` stands for any other. */
export function exitsOf({ exits = {} }: Command): [string, string][] {
  const common = EXIT_MEANINGS.filter(([code]) => !OF_JOBS.includes(code)).map(([code, text]) => [String(code), text]);
  const all = Object.entries({ ...(Object.fromEntries(common) as Record<string, string>), ...exits });
  return all.sort(([a], [b]) => (a === '*' ? 1 : b === '*' ? -1 : Number(a) - Number(b)));
}

export function showArgument({ name, optional, repeated }: Argument): string {
  const shown = repeated ? `${name}…` : name;
  return optional ? `[${shown}]` : shown;
}

export function showOption(name: string, { placeholder }: Option<unknown>): string {
  return placeholder === undefined ? `--${name}` : `--${name} ${placeholder}`;
}

export function sentenceOf({ sentence, fallback }: Option<unknown>): string {
  return fallback === undefined ? sentence : `${sentence} Default: ${fallback}.`;
}

function entries(options: Options): [string, string][] {
  return Object.entries(options).map(([name, option]) => [showOption(name, option), sentenceOf(option)]);
}

function section(title: string, rows: readonly (readonly [string, string])[]): string {
  if (rows.length === 0) return '';
  const width = Math.min(Math.max(...rows.map(([left]) => left.length)), 24);
  const lines = rows.map(([left, right]) => {
    const text = wrap(right, width + 4);
    return left.length > width ? `  ${left}\n${' '.repeat(width + 4)}${text}` : `  ${left.padEnd(width)}  ${text}`;
  });
  return `${title}:\n${lines.join('\n')}`;
}

/** Breaks lines between words; all but the first are indented. */
function wrap(paragraph: string, indent: number): string {
  const lines: string[] = [];
  let line = '';
  for (const word of paragraph.split(/\s+/)) {
    if (line !== '' && line.length + 1 + word.length > COLUMNS - indent) {
      lines.push(line);
      line = word;
    } else line = line === '' ? word : `${line} ${word}`;
  }
  return [...lines, line].join(`\n${' '.repeat(indent)}`);
}
