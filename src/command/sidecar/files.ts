/** Files that others read at any moment: whole, old or new. */
import { randomBytes } from 'node:crypto';
import {
  closeSync,
  fchmodSync,
  fchownSync,
  lstatSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
  type Stats,
} from 'node:fs';
import { dirname, join } from 'node:path';

const NAME_BYTES = 12;
const PERMISSIONS = 0o777;
/** Of a file that nobody else may read before its own mode is set. */
const OWN = 0o600;

/**
 * Writes beside the file, and renames: a link is replaced, and what it leads to is not touched. A file that is there
 * keeps its mode and, where that is permitted, its owner and group.
 *
 * @param mode of a file that was not there; as the system has it for new files if undefined
 * @returns what was there before
 * @throws the error of the system, naming the path
 */
export function replaceFile(path: string, content: Uint8Array, mode?: number): 'missing' | 'the same' | 'other' {
  const there = lstatSync(path, { throwIfNoEntry: false });
  const before = there?.isFile() ? there : undefined;
  if (before !== undefined && contentOf(path)?.equals(content)) return 'the same';
  // Nobody knows the name beforehand, so that nobody can have put a link there.
  const beside = join(dirname(path), `.postern-${randomBytes(NAME_BYTES).toString('hex')}`);
  try {
    write(beside, content, before ?? mode);
    renameSync(beside, path);
  } catch (error) {
    rmSync(beside, { force: true });
    throw error;
  }
  return there === undefined ? 'missing' : 'other';
}

function write(path: string, content: Uint8Array, like: Stats | number | undefined): void {
  const file = openSync(path, 'wx', like === undefined ? undefined : OWN);
  try {
    if (typeof like === 'number') fchmodSync(file, like);
    else if (like !== undefined) {
      keepOwner(file, like);
      fchmodSync(file, like.mode & PERMISSIONS);
    }
    writeFileSync(file, content);
  } finally {
    closeSync(file);
  }
}

function keepOwner(file: number, { uid, gid }: Stats): void {
  try {
    fchownSync(file, uid, gid);
  } catch {
    // Only root may give files away.
  }
}

function contentOf(path: string): Buffer | undefined {
  try {
    return readFileSync(path);
  } catch {
    return undefined;
  }
}
