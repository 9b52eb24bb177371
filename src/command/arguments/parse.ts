/** From the words of a command line to what a subcommand is given. Node's own parser splits them. */
import { parseArgs } from 'node:util';
import { UsageError } from '../exit.js';
import { COMMON, type Command } from './command.js';
import type { Option, Options } from './option.js';

const SHORT: Readonly<Record<string, string>> = { h: 'help' };

export interface Parsed {
  readonly values: Readonly<Record<string, unknown>>;
  readonly arguments: readonly string[];
  readonly job: readonly string[];
}

/** The subcommand that the words begin with, the longest name first. */
export function findCommand(
  commands: readonly Command[],
  words: readonly string[],
): { command: Command; rest: readonly string[] } | undefined {
  for (const length of [2, 1]) {
    const name = words.slice(0, length).join(' ');
    const command = commands.find((each) => each.name === name);
    if (command !== undefined) return { command, rest: words.slice(length) };
  }
  return undefined;
}

/** @throws UsageError that names the option or the argument */
export function parse(command: Command, words: readonly string[]): Parsed {
  const { own, job } = split(command, words);
  const options: Options = { ...COMMON, ...command.options };
  const types = Object.fromEntries(
    Object.entries(options).map(([name, { placeholder }]) => [
      name,
      { type: placeholder === undefined ? ('boolean' as const) : ('string' as const), multiple: true as const },
    ]),
  );
  const { tokens } = parseArgs({
    args: own.map(shortened),
    options: types,
    strict: false,
    allowPositionals: true,
    tokens: true,
  });
  const given = new Map<string, unknown>();
  const positionals: string[] = [];
  for (const token of tokens) {
    if (token.kind === 'positional') positionals.push(token.value);
    else if (token.kind === 'option') {
      const option = options[token.name];
      if (option === undefined) throw new UsageError(unknownOption(token.rawName, Object.keys(options)));
      given.set(token.name, valueOf(token.name, option, token.value, given.get(token.name)));
    }
  }
  // Who asks for help need not know the arguments.
  if (given.get('help') !== true) checkArguments(command, positionals);
  const values = Object.fromEntries(
    Object.entries(options).map(([name, { absent }]) => [name, given.has(name) ? given.get(name) : absent]),
  );
  return { values, arguments: positionals, job };
}

/** Options have one dash only where they are short. */
function shortened(word: string): string {
  const name = /^-([a-z])$/.exec(word)?.[1];
  return name !== undefined && SHORT[name] !== undefined ? `--${SHORT[name]}` : word;
}

function split(command: Command, words: readonly string[]): { own: string[]; job: string[] } {
  const dashes = words.indexOf('--');
  if (dashes === -1 || command.runs === undefined) return { own: [...words], job: [] };
  return { own: words.slice(0, dashes), job: words.slice(dashes + 1) };
}

function valueOf(name: string, option: Option<unknown>, value: string | undefined, before: unknown): unknown {
  if (before !== undefined && option.repeated !== true) throw new UsageError(`--${name} is given twice`);
  if (option.placeholder === undefined) {
    if (value !== undefined) throw new UsageError(`--${name} takes no value, and has "${value}"`);
    return true;
  }
  if (value === undefined) throw new UsageError(`--${name} needs a value: ${option.expected}`);
  const read = option.read(value);
  if (read === undefined) throw new UsageError(`--${name} is "${value}"; it must be ${option.expected}`);
  return Array.isArray(read) && Array.isArray(before) ? [...(before as unknown[]), ...(read as unknown[])] : read;
}

function checkArguments(command: Command, positionals: readonly string[]): void {
  const missing = command.arguments.find((argument, index) => !argument.optional && positionals.length <= index);
  if (missing !== undefined) throw new UsageError(`${missing.name} is missing: ${missing.sentence}`);
  const most = command.arguments.some(({ repeated }) => repeated) ? Infinity : command.arguments.length;
  if (positionals.length > most) {
    const hint = command.runs !== undefined ? '; the command to run stands behind --' : '';
    throw new UsageError(`unexpected argument "${positionals[most]}"${hint}`);
  }
  for (const [index, { name, choices }] of command.arguments.entries()) {
    const given = positionals[index];
    if (given !== undefined && choices !== undefined && !choices.includes(given))
      throw new UsageError(`${name} is "${given}"; it must be one of ${choices.join(', ')}`);
  }
}

function unknownOption(rawName: string, names: readonly string[]): string {
  const near = nearest(rawName.replace(/^-+/, ''), names);
  return `there is no option ${rawName}${near === undefined ? '' : `; --${near} is near`}`;
}

/** The name that differs by at most two letters. */
export function nearest(word: string, names: readonly string[]): string | undefined {
  const [best] = names.map((name) => [distance(word, name), name] as const).sort(([a], [b]) => a - b);
  return best !== undefined && best[0] <= 2 && best[0] < word.length ? best[1] : undefined;
}

/** Levenshtein's. */
function distance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (const [i, letter] of [...a].entries()) {
    const next = [i + 1];
    for (const [j, other] of [...b].entries())
      next.push(Math.min((next[j] ?? 0) + 1, (row[j + 1] ?? 0) + 1, (row[j] ?? 0) + (letter === other ? 0 : 1)));
    row = next;
  }
  return row.at(-1) ?? 0;
}
