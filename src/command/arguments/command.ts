/** What a subcommand is, apart from what it does. */
import type { Output } from '../output.js';
import type { Guardian } from '../process/guarded.js';
import { duration, file, list, text, toggle, type Options, type Values } from './option.js';

/** What every subcommand takes. */
export const COMMON = {
  url: list(
    'URL',
    'Where the gateway is; several replicas separated by commas. Default: POSTERN_URL, or http://127.0.0.1:7070.',
  ),
  namespace: text('NAME', 'The namespace. Default: POSTERN_NAMESPACE, or that of the gateway, "default".'),
  'api-key-file': file(
    'The file whose first line is the API key or token. Default: POSTERN_API_KEY_FILE, or the key itself in POSTERN_API_KEY.',
  ),
  'ca-file': file('PEM certificates of the authorities to trust in place of the usual ones. Default: POSTERN_CA_FILE.'),
  'cert-file': file('PEM certificate of this client, where the gateway wants one. Default: POSTERN_CERT_FILE.'),
  'key-file': file('PEM private key of that certificate. Default: POSTERN_KEY_FILE.'),
  timeout: duration('How long to try to get an answer, beyond any wait; the last attempt may take 5 s more.', '10s'),
  json: toggle('Print JSON for programs: results on standard output, messages on standard error, one per line.'),
  help: toggle('Show this help.'),
} satisfies Options;

export type CommonValues = Values<typeof COMMON>;

export interface Argument {
  readonly name: string;
  readonly sentence: string;
  readonly optional?: true;
  readonly repeated?: true;
  readonly choices?: readonly string[];
}

/** What one run of a subcommand was given. */
export interface Given<O extends Options = Options> {
  readonly values: Values<O> & CommonValues;
  /** In the order of the arguments; what was left out is missing. */
  readonly arguments: readonly string[];
  /** What stands behind `--`. */
  readonly job: readonly string[];
  readonly output: Output;
  /** Started before it was known what for: that takes as long as all that comes before the job. */
  readonly ahead?: Guardian | undefined;
}

/** What a subcommand is called and takes. */
export interface Command<O extends Options = Options> {
  /** As it is typed, such as `queue push`. */
  readonly name: string;
  /** One line. */
  readonly summary: string;
  /** Paragraphs. */
  readonly description: string;
  readonly arguments: readonly Argument[];
  readonly options: O;
  /** Whether it runs a command, which stands behind `--`. */
  readonly runs?: true | 'optional';
  /** Lines to try. */
  readonly examples: readonly string[];
  /** Exit codes beyond those of every subcommand, with their meaning here. */
  readonly exits?: Readonly<Record<string, string>>;
}

/** Keeps the types of its options. */
export function command<const O extends Options>(description: Command<O>): Command<O> {
  return description;
}

/** @returns the exit code */
export type Run<O extends Options = Options> = (given: Given<O>) => Promise<number>;

/** What the implementation of a subcommand is given. */
export type GivenFor<C> = C extends Command<infer O> ? Given<O> : never;

/** A subcommand with its implementation, which is loaded when it is run. */
export interface Entry {
  readonly command: Command;
  readonly load: () => Promise<Run>;
}

/** Checks that the implementation takes what the description names. */
export function entry<O extends Options>(description: Command<O>, load: () => Promise<Run<O>>): Entry {
  return { command: description, load } as unknown as Entry;
}
