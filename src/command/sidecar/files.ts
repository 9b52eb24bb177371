/** Files that others read at any moment: whole, old or new. */
import { readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { pid } from 'node:process';

/**
 * Writes beside the file, and renames.
 *
 * @returns what was there before
 * @throws the error of the system, naming the path
 */
export function replaceFile(path: string, content: Uint8Array): 'missing' | 'the same' | 'other' {
  const before = contentOf(path);
  if (before?.equals(content)) return 'the same';
  const beside = join(dirname(path), `.${basename(path)}.${pid}`);
  try {
    writeFileSync(beside, content);
    renameSync(beside, path);
  } catch (error) {
    rmSync(beside, { force: true });
    throw error;
  }
  return before === undefined ? 'missing' : 'other';
}

function contentOf(path: string): Buffer | undefined {
  try {
    return readFileSync(path);
  } catch {
    return undefined;
  }
}
