/** The options and arguments of a subcommand: one table, from which parsing, help, completion and docs are made. */
import { DURATION_MAX, readDuration } from './duration.js';

export interface Option<T> {
  /** What stands for its value in the help; a switch has none. */
  readonly placeholder?: string;
  readonly sentence: string;
  /** What a value must be, as in "--wait is "x"; it must be …". */
  readonly expected: string;
  /** @returns undefined if the text is no such value */
  readonly read: (text: string) => T | undefined;
  /** What the value is without the option. */
  readonly absent: T | undefined;
  /** The same for the help, where it is not plain. */
  readonly fallback?: string;
  /** May be given several times. */
  readonly repeated?: true;
  /** All values that there are, for completion. */
  readonly choices?: readonly string[];
  /** The value is the path of a file, for completion. */
  readonly file?: true;
}

export type Options = Readonly<Record<string, Option<unknown>>>;

export type Values<O extends Options> = { readonly [K in keyof O]: O[K] extends Option<infer T> ? T : never };

export function toggle(sentence: string): Option<boolean> {
  return { sentence, expected: 'given without a value', read: () => undefined, absent: false };
}

export function duration(sentence: string): Option<number | undefined>;
export function duration(sentence: string, fallback: string, minMs?: number): Option<number>;
export function duration(sentence: string, fallback?: string, minMs = 0): Option<number | undefined> {
  const read = (given: string): number | undefined => {
    const ms = readDuration(given);
    return ms !== undefined && ms >= minMs ? ms : undefined;
  };
  return {
    placeholder: 'DURATION',
    sentence,
    expected: `a duration such as 250ms, 15s, 5m or 1h30m, from ${minMs}ms to ${DURATION_MAX}`,
    read,
    absent: fallback === undefined ? undefined : readDuration(fallback),
    ...(fallback !== undefined && { fallback }),
  };
}

/** A duration, or `forever`. */
export function patience(sentence: string): Option<number | undefined> {
  const ends = duration(sentence);
  const read = (given: string): number | undefined => (given === 'forever' ? Infinity : readDuration(given));
  return { ...ends, expected: `${ends.expected}, or forever`, read };
}

export function text(placeholder: string, sentence: string): Option<string | undefined> {
  return {
    placeholder,
    sentence,
    expected: 'a text that is not empty',
    read: (given) => given || undefined,
    absent: undefined,
  };
}

export function file(sentence: string): Option<string | undefined> {
  return { ...text('FILE', sentence), file: true };
}

export interface Range {
  readonly min: number;
  readonly max: number;
}

export function integer(sentence: string, range: Range): Option<number | undefined>;
export function integer(sentence: string, range: Range & { fallback: number }): Option<number>;
export function integer(
  sentence: string,
  { min, max, fallback }: Range & { fallback?: number },
): Option<number | undefined> {
  const inside = (number: number): boolean => number >= min && number <= max;
  return {
    placeholder: 'NUMBER',
    sentence,
    expected: `a whole number from ${min} to ${max}`,
    read: (given) => (/^-?\d{1,15}$/.test(given) && inside(Number(given)) ? Number(given) : undefined),
    absent: fallback,
    ...(fallback !== undefined && { fallback: String(fallback) }),
  };
}

export function choice<const T extends string>(sentence: string, choices: readonly T[], fallback: T): Option<T> {
  return {
    placeholder: choices.join('|'),
    sentence,
    expected: `one of ${choices.join(', ')}`,
    read: (given) => choices.find((each) => each === given),
    absent: fallback,
    fallback,
    choices,
  };
}

/** Values separated by commas, or the option several times. */
export function list(placeholder: string, sentence: string): Option<readonly string[]> {
  return {
    placeholder,
    sentence,
    expected: 'texts separated by commas',
    read: (given) => (given.split(',').some((each) => each === '') ? undefined : given.split(',')),
    absent: [],
    repeated: true,
  };
}
