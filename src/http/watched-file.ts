/**
 * A file that is read at once, and again when it changes. A reading that fails later leaves what was read before.
 *
 * Polled, because mounted secrets change by swapping a link, which file watchers do not see.
 */
import { statSync, unwatchFile, watchFile } from 'node:fs';
import { SECOND } from '../time.js';

export const POLL_MS = 2 * SECOND;

export interface WatchedFiles<T> {
  readonly current: T;
  close(): void;
}

export interface WatchOptions<T> {
  readonly files: readonly string[];
  /** Reads all of them. */
  readonly read: () => T;
  readonly onChange: (value: T) => void;
  readonly onFault: (error: unknown) => void;
  readonly pollMs?: number | undefined;
}

/** @throws what the first reading throws */
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
  // What has changed after it was read and before the watch had its first look, no watch tells of.
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

/** The reason, of a file that could not be used, for a sentence. */
export function reasonOf(error: unknown): string {
  return (error as NodeJS.ErrnoException).code === undefined ? (error as Error).message : 'it cannot be read';
}

/** JSON that a schema describes. @throws Error with a sentence about the first thing that is wrong */
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
    value = JSON.parse(text);
  } catch (error) {
    throw new Error('it is not JSON', { cause: error });
  }
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  const issue = result.error.issues[0];
  throw new Error(`${issue?.path.map(String).join('.') || 'the file'}: ${issue?.message ?? 'not valid'}`);
}
