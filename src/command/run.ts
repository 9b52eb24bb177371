/** The command: finds the subcommand, and runs it. What that needs is loaded only then. */
import { findCommand, nearest, parse } from './arguments/parse.js';
import { helpOf, helpOfAll, usage } from './arguments/help.js';
import type { Command, CommonValues, Entry } from './arguments/command.js';
import { environment } from './environment.js';
import { EXIT, Failure, UsageError } from './exit.js';
import { Output } from './output.js';
import type { Guardian } from './process/guarded.js';
import { COMMANDS, ENTRIES } from './table.js';
import { misspelt } from './variables.js';

const { argv } = process;

async function run(words: readonly string[], output: Output, ahead?: Guardian): Promise<number> {
  const [first] = words;
  if (first === '--version') {
    const { version } = await import('../version.js');
    output.result({ version }, () => version);
    return EXIT.ok;
  }
  if (first === undefined || first === '--help' || first === '-h' || (first === 'help' && words.length === 1)) {
    output.raw(`${helpOfAll(COMMANDS)}\n`);
    return first === undefined ? EXIT.usage : EXIT.ok;
  }
  if (first === 'help') return run([...words.slice(1), '--help'], output);
  const found = findCommand(COMMANDS, words);
  if (found === undefined) throw new UsageError(unknown(words));
  const { values, ...given } = parseFor(found.command, found.rest);
  if (values.help) {
    output.raw(`${helpOf(found.command)}\n`);
    return EXIT.ok;
  }
  for (const sentence of misspelt(environment)) output.tell('misspelt', sentence);
  const entry = ENTRIES.find(({ command }) => command === found.command) as Entry;
  try {
    return await (
      await entry.load()
    )({ ...given, values, output, ahead });
  } catch (error) {
    throw await (await import('./silence.js')).explained(error, values);
  }
}

function parseFor(command: Command, words: readonly string[]): ReturnType<typeof parse> & { values: CommonValues } {
  try {
    return parse(command, words) as ReturnType<typeof parse> & { values: CommonValues };
  } catch (error) {
    if (error instanceof UsageError)
      throw new UsageError(`${error.message}\nusage: ${usage(command)}; postern ${command.name} --help explains it`);
    throw error;
  }
}

function unknown(words: readonly string[]): string {
  const [first = '', second = ''] = words;
  const names = COMMANDS.map(({ name }) => name);
  const within = names.filter((name) => name.startsWith(`${first} `));
  if (within.length > 0)
    return `"${first}" needs one of ${within.map((name) => name.split(' ')[1]).join(', ')} behind it`;
  const near = nearest(first, names) ?? nearest(`${first} ${second}`, names);
  return `there is no subcommand "${first}"${near === undefined ? '' : `; "${near}" is near`}. postern --help lists them`;
}

/** Before the words are parsed it must be known how to say that they cannot be. */
function wantsJson(words: readonly string[]): boolean {
  const own = words.slice(0, words.includes('--') ? words.indexOf('--') : undefined);
  return own.includes('--json');
}

/** @param ahead a guardian for the job, if there is one */
export async function main(ahead: Guardian | undefined): Promise<never> {
  const words = argv.slice(2);
  const output = new Output(wantsJson(words));
  // Nothing that is still open then, such as a connection, is worth waiting for.
  process.exit(await exitCodeOf(output, () => run(words, output, ahead)));
}

async function exitCodeOf(output: Output, work: () => Promise<number>): Promise<number> {
  try {
    return await work();
  } catch (error) {
    const failure = error instanceof Failure ? error : (await import('./failures.js')).failureOf(error);
    output.tell('failed', failure.message, { exitCode: failure.exitCode, ...failure.details });
    return failure.exitCode;
  }
}
