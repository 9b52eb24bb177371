/**
 * One setting: how its text is read, and the words in which it is explained. The table of them is in `table.ts`.
 *
 * A parser returns the value, or undefined for a text that breaks the rule; it throws only when it knows more
 * than the rule says (a file that cannot be read).
 */
import { readFileSync } from 'node:fs';

export interface Setting<T> {
  readonly env: string;
  /** In one sentence, for `--help` and the README. */
  readonly sentence: string;
  /** What a value must be, as it completes "it must be …". */
  readonly rule: string;
  readonly parse: (text: string) => T | undefined;
  /** The value when the variable is unset or empty. */
  readonly fallback: T;
  /** How `fallback` is shown; empty for none. */
  readonly shownFallback: string;
  /** Its value never appears in a message. */
  readonly secret: boolean;
}

type Words = { env: string; sentence: string; secret?: boolean };

function setting<T>(
  words: Words,
  rule: string,
  parse: (text: string) => T | undefined,
  fallback: T,
  shown?: string,
): Setting<T> {
  return {
    env: words.env,
    sentence: words.sentence,
    secret: words.secret ?? false,
    rule,
    parse,
    fallback,
    shownFallback: shown ?? (fallback === undefined ? '' : String(fallback)),
  };
}

export function integer(
  words: Words,
  bounds: { fallback: number; min: number; max: number; unit?: string },
): Setting<number> {
  return setting(words, integerRule(bounds), parseInteger(bounds), bounds.fallback);
}

/** An integer without which the feature is off. */
export function optionalInteger(
  words: Words,
  bounds: { min: number; max: number; unit?: string },
): Setting<number | undefined> {
  return setting<number | undefined>(words, integerRule(bounds), parseInteger(bounds), undefined);
}

function integerRule({ min, max, unit }: { min: number; max: number; unit?: string }): string {
  return `an integer from ${min} to ${max}${unit === undefined ? '' : ` (${unit})`}`;
}

function parseInteger({ min, max }: { min: number; max: number }): (text: string) => number | undefined {
  return (text) => {
    const value = /^\d{1,16}$/.test(text) ? Number(text) : NaN;
    return value >= min && value <= max ? value : undefined;
  };
}

export function flag(words: Words, fallback = false): Setting<boolean> {
  return setting(
    words,
    'true or false',
    (text) => (text === 'true' ? true : text === 'false' ? false : undefined),
    fallback,
  );
}

export function oneOf<const T extends string>(words: Words, values: readonly T[], fallback: T): Setting<T> {
  return setting<T>(words, `one of ${values.join(', ')}`, (text) => values.find((value) => value === text), fallback);
}

export function matching(words: Words, rule: string, pattern: RegExp, fallback: string): Setting<string> {
  return setting(words, rule, (text) => (pattern.test(text) ? text : undefined), fallback);
}

export function optionalMatching(words: Words, rule: string, pattern: RegExp): Setting<string | undefined> {
  return setting<string | undefined>(words, rule, (text) => (pattern.test(text) ? text : undefined), undefined);
}

export function list<T>(words: Words, rule: string, parseOne: (text: string) => T | undefined): Setting<readonly T[]> {
  return setting<readonly T[]>(words, rule, (text) => parseList(text, parseOne), [], '');
}

/** A file whose text is a list as {@link list} has it. */
export function listFile<T>(
  words: Words,
  rule: string,
  parseOne: (text: string) => T | undefined,
): Setting<readonly T[]> {
  return setting<readonly T[]>(
    words,
    rule,
    (path) => parseList(readable(path).toString('utf8').trim(), parseOne),
    [],
    '',
  );
}

function parseList<T>(text: string, parseOne: (text: string) => T | undefined): readonly T[] | undefined {
  const values = text.split(',').map((one) => parseOne(one.trim()));
  return values.includes(undefined) ? undefined : Object.freeze(values as T[]);
}

/**
 * A file whose text is a value as {@link optionalMatching} has it; the newline that editors put at its end is none of
 * it.
 */
export function textOfFile(words: Words, rule: string, pattern: RegExp): Setting<string | undefined> {
  const parse = (path: string): string | undefined => {
    const text = readable(path)
      .toString('utf8')
      .replace(/\r?\n$/, '');
    return pattern.test(text) ? text : undefined;
  };
  return setting<string | undefined>(words, rule, parse, undefined);
}

/** A file that is read once, at start: certificates and keys. */
export function contentOfFile(words: Words): Setting<Buffer | undefined> {
  return setting<Buffer | undefined>(words, 'the path of a readable file', readable, undefined);
}

function readable(path: string): Buffer {
  try {
    return readFileSync(path);
  } catch (error) {
    throw new Error(
      `the file "${path}" cannot be read (${(error as NodeJS.ErrnoException).code ?? 'unknown reason'})`,
      { cause: error },
    );
  }
}
