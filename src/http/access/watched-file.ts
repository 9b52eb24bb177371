/**
 * A file that is read now, and again when it changes. A later reading that fails leaves the previous content in use.
 *
 * Polled, because mounted secrets change by swapping a link, which file watchers do not see.
 */
import { statSync, unwatchFile, watchFile } from 'node:fs';
import { SECOND } from '../../time.js';
import { parseJson as parseStrictly } from '../frame/json.js';

export const POLL_MS = 2 * SECOND;

export interface WatchedFiles<T> {
  readonly current: T;
  close(): void;
}

export interface WatchOptions<T> {
  readonly files: readonly string[];
  /** Reads all the files. */
  readonly read: () => T;
  readonly onChange: (value: T) => void;
  readonly onFault: (error: unknown) => void;
  readonly pollMs?: number | undefined;
}

/** @throws whatever the first reading throws */
export function watchFiles<T>({ files, read, onChange, onFault, pollMs = POLL_MS }: WatchOptions<T>): WatchedFiles<T> {
  const stamps = files.map(stampOf);
  let current = read();
  let looked = false;
  const onStat = (): void => {
    looked = true;
    try {
      current = read();
    } catch (error) {
      onFault(error);
      return;
    }
    onChange(current);
  };
  for (const file of files) watchFile(file, { interval: pollMs, persistent: false }, onStat);
  // The watch does not report a change between the first reading and its own first look.
  const missed = setTimeout(() => {
    if (!looked && files.some((file, i) => stampOf(file) !== stamps[i])) onStat();
  }, pollMs).unref();
  return {
    get current() {
      return current;
    },
    close() {
      clearTimeout(missed);
      for (const file of files) unwatchFile(file, onStat);
    },
  };
}

function stampOf(file: string): string {
  const stat = statSync(file, { throwIfNoEntry: false });
  return stat === undefined ? '' : `${stat.ino} ${stat.size} ${stat.mtimeMs}`;
}

/** Why a file could not be used, as part of a sentence. */
export function reasonOf(error: unknown): string {
  const { code } = error as NodeJS.ErrnoException;
  return code === undefined ? (error as Error).message : `it cannot be read (${code})`;
}

/**
 * The log fields of a failed reading: sentences for whoever has to mend the file, without a stack, which would not
 * help.
 */
export function faultOf(error: unknown): { readonly reason: string } {
  return { reason: (error as Error).message };
}

/**
 * Parses JSON against a schema.
 * @throws Error with a sentence about the first error found
 */
export function parseJson<T>(
  text: string,
  schema: {
    safeParse(
      value: unknown,
    ):
      | { success: true; data: T }
      | { success: false; error: { issues: readonly { path: readonly PropertyKey[]; message: string }[] } };
  },
): T {
  let value: unknown;
  try {
    // Of two members with the same name `JSON.parse` takes the last, whatever the first one forbids.
    value = parseStrictly(text, Infinity); // an operator's own file, of any length
  } catch (error) {
    throw new Error((error as Error).message.replace('The body is not JSON', 'it is not JSON').replace(/\.$/, ''), {
      cause: error,
    });
  }
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  const issue = result.error.issues[0];
  throw new Error(`${issue?.path.map(String).join('.') || 'the file'}: ${wordsOf(issue?.message ?? 'not valid')}`);
}

/** The schema library's message, in words for whoever has to mend the file. */
function wordsOf(message: string): string {
  return message
    .replace(/^Invalid input: expected (.+), received undefined$/, 'it is missing, and must be of the type $1')
    .replace(/^Invalid input: expected (.+), received (.+)$/, 'it must be of the type $1, and is of the type $2');
}
